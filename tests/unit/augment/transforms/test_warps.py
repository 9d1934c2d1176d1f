"""Flips and warps: their matrices by hand, their pixels against Pillow's."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from stoker.augment import (
    AugMix,
    AutoAugment,
    CenterCrop,
    RandAugment,
    RandomAffine,
    RandomApply,
    RandomChoice,
    RandomHorizontalFlip,
    RandomPerspective,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
    TrivialAugmentWide,
    compile_image,
)
from stoker.augment.reference import render
from stoker.augment.resampling import pick, resample
from stoker.augment.transforms.warps import expanded
from stoker.errors import ConfigError

HEIGHT, WIDTH = 24, 30
BLACK = (0, 0, 0)
# Smooth, so that a difference in rounding changes no pixel by much.
ROWS, COLUMNS = np.indices((HEIGHT, WIDTH))
PIXELS = np.stack((ROWS * 8, COLUMNS * 7, 255 - ROWS * 4 - COLUMNS * 4), axis=-1).astype(np.uint8)
KEEP = CenterCrop((HEIGHT, WIDTH))


def draw(transforms, n=1, seed=0):
    return compile_image(transforms).draw(np.full(n, HEIGHT), np.full(n, WIDTH), np.arange(n), seed, 0)


def run(*transforms):
    return render(draw([KEEP, *transforms]), 0, PIXELS)


@pytest.mark.parametrize("quarters", [0, 1, 2, 3])
def test_quarter_turns_are_exact(quarters):
    square = PIXELS[:, :HEIGHT]
    plan = compile_image([CenterCrop(HEIGHT), RandomRotation((90 * quarters, 90 * quarters))])
    params = plan.draw(np.array([HEIGHT]), np.array([HEIGHT]), np.array([0]), 0, 0)
    np.testing.assert_array_equal(render(params, 0, square), np.rot90(square, quarters))


@pytest.mark.parametrize(
    "warp",
    [
        lambda fill: RandomRotation((40, 40), fill=fill),
        lambda fill: RandomAffine((40, 40), fill=fill),
        lambda fill: RandomPerspective(0.9, 1, fill=fill),
    ],
)
def test_a_warp_fills_outside_of_the_image(warp):
    white = np.full_like(PIXELS, 255)
    plain, filled = (render(draw([KEEP, warp(fill)]), 0, white) for fill in (None, [9, 200, 30]))
    assert (plain == 0).all(axis=-1).any()
    np.testing.assert_array_equal((plain == 0).all(axis=-1), (filled == (9, 200, 30)).all(axis=-1))
    np.testing.assert_array_equal((plain == 255).all(axis=-1), (filled == 255).all(axis=-1))


def test_pillow_agrees_on_perspective():
    matrix = draw([KEEP, RandomPerspective(0.4, 1.0)]).warp.matrix[0]
    ours = resample(PIXELS, matrix, (HEIGHT, WIDTH), BLACK).astype(int)
    data = (matrix / matrix[2, 2]).ravel()[:8].tolist()
    theirs = Image.fromarray(PIXELS).transform((WIDTH, HEIGHT), Image.Transform.PERSPECTIVE, data, 2)
    x, y, w = np.einsum("ij,jhw->ihw", matrix, np.stack((COLUMNS + 0.5, ROWS + 0.5, np.ones_like(ROWS))))
    inside = (x / w > 2) & (x / w < WIDTH - 2) & (y / w > 2) & (y / w < HEIGHT - 2)
    assert inside.sum() > 50
    # A filter wider than a pixel moves the levels of a slope by a little.
    assert np.abs(ours - np.array(theirs))[inside].max() <= 2


TURN = RandomRotation((25, 25))


def test_flips_and_crops_after_a_warp_change_the_warped_image():
    turned = run(TURN)
    np.testing.assert_array_equal(run(TURN, RandomHorizontalFlip(1)), turned[:, ::-1])
    np.testing.assert_array_equal(run(TURN, RandomVerticalFlip(1)), turned[::-1])
    np.testing.assert_array_equal(run(TURN, CenterCrop((10, 12))), turned[7:17, 9:21])
    both = run(TURN, RandomHorizontalFlip(1), CenterCrop((11, 13)))
    np.testing.assert_array_equal(both, turned[:, ::-1][6:17, 8:21])


def sizes(n=1):
    return np.tile([[HEIGHT], [WIDTH]], (1, n))


def test_the_centre_stays_where_it_is():
    u = np.random.default_rng(0).random((20, 6))
    for center in ((0, 0), (-7.5, 40)):
        for transform in (
            RandomRotation(180, center=center),
            RandomAffine(90, None, (0.5, 2), 40, center=center),
        ):
            matrix = transform.matrix(sizes(20), u)
            np.testing.assert_allclose(matrix @ (*center, 1), [(*center, 1)] * 20, atol=1e-9)
    assert RandomRotation(9, center=(WIDTH / 2, HEIGHT / 2)).matrix(sizes(), u[:1]).tolist() == (
        RandomRotation(9).matrix(sizes(), u[:1]).tolist()
    )


def test_perspective_takes_the_moved_corners_back_to_the_corners():
    height, width = 25, 31
    u = np.random.default_rng(0).random((50, 9))
    u[:, 0] = 0
    matrix = RandomPerspective(0.9, 1.0).matrix(np.tile([[height], [width]], (1, 50)), u)
    most = [int(0.9 * (n // 2)) + 1 for n in (height, width)]
    for m, draws in zip(matrix, u[:, 1:].reshape(-1, 4, 2), strict=True):
        for (bottom, right), (v, h) in zip([(0, 0), (0, 1), (1, 1), (1, 0)], draws, strict=True):
            row = int(v * most[0]) + (height - most[0] if bottom else 0)
            column = int(h * most[1]) + (width - most[1] if right else 0)
            x, y, w = m @ (column, row, 1)
            corner = (right * (width - 1), bottom * (height - 1))
            np.testing.assert_allclose((x / w, y / w), corner, atol=1e-6)


def test_any_convex_quadrilateral_is_seen_whole():
    n, size = 20_000, 16
    u = np.random.default_rng(0).random((n, 9))
    matrix = RandomPerspective(1.0, 1.0).matrix(np.full((2, n), size), u)
    moved = np.linalg.inv(matrix) @ np.array([(0, 0, 1), (15, 0, 1), (15, 15, 1), (0, 15, 1)]).T
    back = matrix @ (moved / moved[:, 2:])
    # In front of the horizon, though the output's own corner may lie on it or behind.
    assert (back[:, 2] > 0).all()
    assert (matrix[:, 2, 2] < 0).any()
    assert np.abs(back[:, :2] / back[:, 2:] - [[[0, 15, 15, 0], [0, 0, 15, 15]]]).max() < 1e-6


@pytest.mark.parametrize(
    ("degrees", "size"), [(0, (24, 30)), (90, (30, 24)), (180, (24, 30)), (45, (40, 40))]
)
def test_an_expanded_rotation_shows_all(degrees, size):
    turn = RandomRotation((degrees, degrees), expand=True)
    assert draw([KEEP, turn, CenterCrop(24)]).size == (24, 24)
    params = draw([KEEP, turn, Resize((50, 60))], n=3)
    corners = np.array([(0, 0, 1), (WIDTH, 0, 1), (0, HEIGHT, 1), (WIDTH, HEIGHT, 1)])
    seen = np.linalg.inv(params.warp.matrix[0]) @ corners.T
    assert (seen[:2] >= -1e-6).all()
    assert (seen[:2] <= np.array([[60], [50]]) + 1e-6).all()
    assert expanded(np.array([[HEIGHT], [WIDTH]]), np.array([degrees])).ravel().tolist() == list(size)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ([KEEP], [], "different sizes"),
        ([KEEP], [CenterCrop(40)], "a crop pads after a warp"),
        ([KEEP, AugMix()], [Resize((9, 9))], "AugMix"),
    ],
)
def test_an_expanded_image_is_refused_without_a_size_and_after_a_final_one(before, after, message):
    with pytest.raises(ConfigError, match=message):
        draw([*before, RandomRotation((90, 90), expand=True), *after])


WARPS = [
    lambda name: RandomRotation(30, interpolation=name),
    lambda name: RandomAffine(30, interpolation=name),
    lambda name: RandomPerspective(interpolation=name),
    lambda name: RandAugment(interpolation=name),
    lambda name: TrivialAugmentWide(interpolation=name),
    lambda name: AutoAugment(interpolation=name),
    lambda name: AugMix(interpolation=name),
]
every_warp = pytest.mark.parametrize("make", WARPS)
KEEP_SMALL = CenterCrop((20, 24))


def draw_small(*transforms, n=40, height=20, width=24):
    return compile_image(transforms).draw(np.full(n, height), np.full(n, width), np.arange(n), 0, 0)


def picked(*transforms):
    """(N,) bool, the samples that are warped and pick."""
    params = draw_small(KEEP_SMALL, *transforms)
    warp = params.warp
    return np.array([warp.applies(i, params.size) and warp.picks(i) for i in range(len(params))])


@every_warp
def test_needs_of_a_plan_name_picking(make):
    needs = compile_image([KEEP_SMALL, make("nearest")]).needs
    assert ("WeightedSum" in needs) != ("nearest" in needs)
    assert "nearest" not in compile_image([KEEP_SMALL, make("bilinear")]).needs
    rarely = RandomApply([make("nearest")], 0.01)
    assert compile_image([KEEP_SMALL, rarely]).needs == needs


def test_all_warps_that_change_a_sample_must_be_nearest():
    turn, smooth = RandomRotation((9, 9), "nearest"), RandomRotation((9, 9))
    assert picked(turn).all()
    assert picked(turn, RandomHorizontalFlip(), turn, CenterCrop(16)).all()
    assert not picked(turn, smooth).any()
    assert not picked(smooth, turn).any()
    assert not picked(turn, Resize((30, 30))).any()
    assert picked(turn, Resize((30, 30), "nearest")).all()
    assert picked(Resize((30, 30)), turn).all()


def test_a_warp_that_leaves_a_sample_alone_does_not_matter():
    turn, perspective = RandomRotation((9, 9), "nearest"), RandomPerspective(0.5, 0.5)
    moved = (draw_small(KEEP_SMALL, perspective).warp.matrix != np.eye(3)).any(axis=(1, 2))
    assert 5 < moved.sum() < 35
    np.testing.assert_array_equal(picked(perspective, turn), ~moved)
    np.testing.assert_array_equal(picked(RandomApply([RandomPerspective(0.5, 0)]), turn), True)
    some = picked(RandomApply([turn]))
    assert 5 < some.sum() < 35
    softened = picked(turn, RandomApply([RandomRotation((9, 9))]))
    assert 5 < softened.sum() < 35
    either = RandomChoice([turn, RandomRotation((9, 9))])
    assert 5 < picked(either).sum() < 35


def test_pixels_are_picked_from_the_resized_image():
    pixels = np.random.default_rng(1).integers(0, 256, (50, 64, 3), np.uint8)
    for name in ("bilinear", "bicubic", "nearest"):
        resize = Resize((20, 24), name)
        params = draw_small(
            resize, RandomRotation((33, 33), "nearest", fill=(1, 2, 3)), n=1, height=50, width=64
        )
        resized = render(draw_small(resize, n=1, height=50, width=64), 0, pixels)
        got = render(params, 0, pixels)
        np.testing.assert_array_equal(got, pick(resized, params.warp.matrix[0], (20, 24), (1, 2, 3)))
        known = {tuple(one) for one in resized.reshape(-1, 3).tolist()} | {(1, 2, 3)}
        assert {tuple(one) for one in got.reshape(-1, 3).tolist()} <= known
