"""Parameters are distributed like torchvision's own draws.

torchvision's draws are in tests/data/torchvision-draws.npz, which the script beside it makes. Values are
compared by the Kolmogorov-Smirnov statistic, kinds by chi-square, both at p = 1e-4 with fixed seeds.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from stoker import augment
from stoker.augment.state import TransformState
from stoker.augment.transforms.policies import Kind, Operations

CHANNELS = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
THEIRS = np.load(Path(__file__).parents[3] / "data" / "torchvision-draws.npz")
HEIGHT, WIDTH = 375, 500
N = 40_000
KEEP = augment.CenterCrop((HEIGHT, WIDTH))


def draw(*transforms, n=N, size=(HEIGHT, WIDTH)):
    return augment.compile_image(transforms).draw(
        np.full(n, size[0]), np.full(n, size[1]), np.arange(n), 0, 0
    )


def assert_values_agree(name, ours):
    """Check by Kolmogorov and Smirnov that both samples may have one distribution."""
    ours = np.sort(np.asarray(ours, np.float64))
    if f"{name}.quantiles" in THEIRS:
        values, counts = np.unique(THEIRS[f"{name}.quantiles"].astype(np.float64), return_counts=True)
        n, blur = int(THEIRS[f"{name}.n"]), 1 / counts.sum()
    else:
        values, counts = THEIRS[f"{name}.values"].astype(np.float64), THEIRS[f"{name}.counts"]
        n, blur = counts.sum(), 0.0
    below = np.cumsum(counts) / counts.sum()
    # Two float types of one number are one step of the distribution.
    step = 1e-6 * (1 + np.abs(values))
    distance = np.abs(np.searchsorted(ours, values + step, "right") / len(ours) - below).max()
    assert distance < 2.2 * math.sqrt((n + len(ours)) / (n * len(ours))) + blur, (name, distance)


def assert_kinds_agree(name, ours):
    """Pearson's chi-square of two samples; its quantile by Wilson and Hilferty's approximation."""
    theirs = dict(zip(THEIRS[f"{name}.values"].tolist(), THEIRS[f"{name}.counts"].tolist(), strict=True))
    ours = Counter(ours)
    assert ours.keys() - theirs.keys() == set(), name
    pairs = np.array([(theirs[kind], ours[kind]) for kind in theirs], np.float64)
    share = math.sqrt(pairs[:, 1].sum() / pairs[:, 0].sum())
    statistic = ((pairs[:, 0] * share - pairs[:, 1] / share) ** 2 / pairs.sum(axis=1)).sum()
    freedom = max(len(theirs) - 1, 1)
    limit = freedom * (1 - 2 / (9 * freedom) + 3.72 * math.sqrt(2 / (9 * freedom))) ** 3
    assert statistic < limit, (name, statistic, limit)


@pytest.mark.parametrize(
    ("name", "transform"),
    [
        ("default", augment.RandomResizedCrop(224)),
        ("narrow", augment.RandomResizedCrop(224, scale=(0.5, 1.0), ratio=(2.0, 4.0))),
    ],
)
def test_parts_of_random_resized_crop_agree(name, transform):
    top, left, bottom, right = draw(transform).region.T
    for key, values in {"top": top, "left": left, "height": bottom - top, "width": right - left}.items():
        assert_values_agree(f"resized-crop-{name}-{key}", values)


def test_corners_of_random_crop_agree():
    top, left, _, _ = draw(augment.RandomCrop(300)).region.T
    assert_values_agree("crop-top", top)
    assert_values_agree("crop-left", left)


def test_boxes_of_random_erasing_agree():
    box = draw(KEEP, augment.RandomErasing(1)).erase[0].box
    for key, values in zip(("top", "left", "height", "width"), box.T, strict=True):
        assert_values_agree(f"erase-{key}", values)


def test_angles_of_random_rotation_agree():
    matrix = draw(KEEP, augment.RandomRotation((-10, 50))).warp.matrix
    assert_values_agree("rotation", np.degrees(np.arctan2(matrix[:, 1, 0], matrix[:, 0, 0])))


def test_all_parameters_of_random_affine_agree():
    ranges = ((-20, 70), (0.2, 0.1), (0.5, 2.0), (-10, 30, -20, 5))
    forward = np.linalg.inv(draw(KEEP, augment.RandomAffine(*ranges)).warp.matrix)
    center = np.array((WIDTH / 2, HEIGHT / 2, 1))
    shift = (forward @ center)[:, :2] - center[:2]
    assert_values_agree("affine-translate-x", shift[:, 0].round(6))
    assert_values_agree("affine-translate-y", shift[:, 1].round(6))
    assert_values_agree("affine-scale", np.sqrt(np.linalg.det(forward)))
    # With one range alone, each parameter can be read off its matrix.
    turn = draw(KEEP, augment.RandomAffine(ranges[0])).warp.matrix
    assert_values_agree("affine-angle", np.degrees(np.arctan2(turn[:, 0, 1], turn[:, 0, 0])))
    sheared = np.linalg.inv(draw(KEEP, augment.RandomAffine(0, shear=(-10, 30))).warp.matrix)
    assert_values_agree("affine-shear-x", np.degrees(np.arctan(-sheared[:, 0, 1])))
    sheared = np.linalg.inv(draw(KEEP, augment.RandomAffine(0, shear=(0, 0, -20, 5))).warp.matrix)
    assert_values_agree("affine-shear-y", np.degrees(np.arctan(-sheared[:, 1, 0])))


def test_corners_of_random_perspective_agree():
    forward = np.linalg.inv(draw(KEEP, augment.RandomPerspective(0.5, 1.0), n=10_000).warp.matrix)
    corners = [(0, 0), (WIDTH - 1, 0), (WIDTH - 1, HEIGHT - 1), (0, HEIGHT - 1)]
    for i, corner in enumerate(corners):
        x, y, w = (forward @ (*corner, 1)).T
        assert_values_agree(f"perspective-{i}-x", (x / w).round(3))
        assert_values_agree(f"perspective-{i}-y", (y / w).round(3))


def test_factors_of_color_jitter_agree():
    assert_values_agree("jitter-brightness", draw(KEEP, augment.ColorJitter(0.4)).color[:, 0, 0])
    assert_values_agree("jitter-contrast", draw(KEEP, augment.ColorJitter(None, (0.2, 1.5))).color[:, 0, 0])
    colour = draw(KEEP, augment.ColorJitter(saturation=0.9)).color
    assert_values_agree("jitter-saturation", colour[:, 0, 0] - colour[:, 1, 0])
    assert_values_agree("jitter-hue", turn(draw(KEEP, augment.ColorJitter(hue=0.1)).color))


def test_factors_and_orders_of_random_photometric_distort_agree():
    same = (1.0, 1.0)

    def drawn(brightness=same, contrast=same, saturation=same, hue=(0.0, 0.0)):
        transform = augment.RandomPhotometricDistort(brightness, contrast, saturation, hue)
        return draw(KEEP, transform).color[:, :, :3].astype(np.float64)

    # For any order of the channels:
    assert_values_agree("distort-brightness", drawn(brightness=(0.875, 1.125)).max(axis=(1, 2)))
    assert_values_agree("distort-contrast", drawn(contrast=(0.5, 1.5)).max(axis=(1, 2)))
    assert_values_agree("distort-saturation", np.ptp(drawn(saturation=(0.5, 1.5))[:, :, 0], axis=1))
    turned = drawn(hue=(-0.05, 0.05))
    order = turned.argmax(axis=2)
    assert_values_agree("distort-hue", turn(turned[(order == (0, 1, 2)).all(axis=1)]))
    assert_kinds_agree("distort-permutation", [CHANNELS.index(tuple(one)) for one in order.tolist()])


def turn(color):
    """The share of a full turn about the grey axis."""
    even, odd = color[:, 0, 0] - (color[:, 0, 1] + color[:, 0, 2]) / 2, color[:, 0, 2] - color[:, 0, 1]
    return np.arctan2(odd * math.sqrt(3) / 2, even) / (2 * np.pi)


def test_sigmas_of_gaussian_blur_agree():
    assert_values_agree("blur-sigma", draw(KEEP, augment.GaussianBlur(5)).steps[0].sigma[:, 0])


def test_shares_of_random_apply_and_random_choice_agree():
    flip = draw(KEEP, augment.RandomApply([augment.RandomHorizontalFlip(1)], 0.3)).flip[:, 0]
    assert_kinds_agree("apply", flip.astype(int).tolist())
    state = TransformState.of(np.full(N, 8), np.full(N, 8))
    transform = augment.RandomChoice([augment.Pad(1), augment.Pad(2), augment.Pad(3)], [1, 2, 5])
    transform.params(state, np.random.default_rng(0).random((N, transform.draws)))
    assert_kinds_agree("choice", ((state.size[0] - 8) // 2 - 1).tolist())


@pytest.fixture
def operations(monkeypatch):
    """Draws operations for images of 24 x 30 pixels, and the parameters with them.

    Parameters hold the product of all matrices and colours of a sample, which does not tell its operations
    apart. So the operations are taken from the call that composes them.
    """
    seen = []
    matrices = Operations.matrices
    monkeypatch.setattr(Operations, "matrices", lambda self, size: seen.append(self) or matrices(self, size))

    def drawn(transform, n=N):
        params = draw(augment.CenterCrop((24, 30)), transform, n=n, size=(24, 30))
        return params, seen[-1]

    return drawn


def texts(operations):
    """Names and magnitudes as the script writes them, N lists."""
    unit = np.ones(len(Kind))
    unit[Kind.Solarize] = 1 / 255
    if operations.relative:
        unit[[Kind.TranslateX, Kind.TranslateY]] = 30, 24
    magnitude = operations.magnitude * unit[operations.kind] + 0.0
    return [
        [f"{Kind(k).name}:{m:.3f}" for k, m in zip(kinds, values, strict=True)]
        for kinds, values in zip(operations.kind.tolist(), magnitude.tolist(), strict=True)
    ]


@pytest.mark.parametrize(
    ("name", "transform"),
    [
        ("rand", augment.RandAugment(2, 9)),
        ("rand-bins", augment.RandAugment(1, 4, 5)),
        ("trivial", augment.TrivialAugmentWide()),
    ],
)
def test_operations_of_random_policies_agree(name, transform, operations):
    assert_kinds_agree(f"{name}-operations", [" ".join(one) for one in texts(operations(transform)[1])])


@pytest.mark.parametrize("policy", ["imagenet", "cifar10", "svhn"])
def test_operations_of_learned_policies_agree(policy, operations):
    drawn = texts(operations(augment.AutoAugment(policy))[1])
    applied = [" ".join(text for text in one if not text.startswith("Identity")) for one in drawn]
    assert_kinds_agree(f"auto-{policy}-operations", applied)


@pytest.mark.parametrize(
    ("name", "transform"),
    [("default", augment.AugMix()), ("other", augment.AugMix(alpha=0.4, mixture_width=4, all_ops=False))],
)
def test_weights_and_operations_of_augmix_agree(name, transform, operations):
    params, drawn = operations(transform, n=10_000)
    weights = params.steps[0].weights
    assert_values_agree(f"augmix-{name}-own", weights[:, 0])
    assert_values_agree(f"augmix-{name}-chain", weights[:, 1])
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-6)
    assert_values_agree(f"augmix-{name}-count", (drawn.kind != Kind.Identity).sum(axis=1))
    assert_kinds_agree(f"augmix-{name}-first", [one[0] for one in texts(drawn)])
