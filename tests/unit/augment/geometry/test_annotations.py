"""Annotations against pixels: a mark in the image is found where its annotation has moved."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.augment import (
    CenterCrop,
    Pad,
    RandomAffine,
    RandomHorizontalFlip,
    RandomPerspective,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
    compile_image,
)
from stoker.augment.geometry.annotations import (
    apply_matrix,
    area_scale,
    forward_matrix,
    transform_boxes,
    transform_keypoints,
    transform_mask,
)
from stoker.augment.geometry.boxes import corners
from stoker.augment.reference import render

HEIGHT, WIDTH = 150, 200
CHAINS = {
    "crop": [CenterCrop(100)],
    "padding": [CenterCrop((260, 220))],
    "crop, padding": [CenterCrop((60, 70)), Pad((30, 20, 10, 5))],
    "crop, padding, resize": [CenterCrop((60, 70)), Pad((30, 20, 10, 5)), Resize((260, 280))],
    "resize": [Resize((170, 110))],
    "resize, crop": [Resize(120), CenterCrop(100)],
    "random crop, flips": [RandomResizedCrop(96), RandomHorizontalFlip(), RandomVerticalFlip()],
    "flip, crop": [RandomHorizontalFlip(1), CenterCrop((101, 120)), RandomVerticalFlip()],
    "padding, resize, flip": [CenterCrop(300), Resize((150, 200)), RandomHorizontalFlip()],
    "rotation": [Resize((150, 200)), RandomRotation(60)],
    "picked rotation": [Resize((150, 200)), RandomRotation(60, "nearest")],
    "expanded rotation": [Resize((150, 200)), RandomRotation(60, expand=True), Resize((150, 160))],
    "affine": [RandomHorizontalFlip(), Resize((140, 160)), RandomAffine(30, (0.2, 0.1), (0.8, 1.3), 20)],
    "perspective": [CenterCrop(140), RandomVerticalFlip(), RandomPerspective(0.5, 0.8)],
    "warp, crop, flip": [
        Resize(150),
        CenterCrop(150),
        RandomRotation(45),
        CenterCrop(90),
        RandomVerticalFlip(),
    ],
}
every_chain = pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
ONE = np.zeros(1, np.int64)


def draw(transforms, n=1, height=HEIGHT, width=WIDTH):
    return compile_image(transforms).draw(np.full(n, height), np.full(n, width), np.arange(n), 0, 0)


@every_chain
def test_areas_scale_like_those_of_small_squares(chain):
    params, owner = draw(chain, 3), np.repeat(np.arange(3), 4)
    points = np.tile([(70.0, 60), (130, 60), (130, 90), (70, 90)], (3, 1))
    squares = corners(np.concatenate((points - 1e-3, points + 1e-3), axis=1))
    moved = apply_matrix(forward_matrix(params)[owner], squares)
    (x, y), (u, v) = (moved[:, 1] - moved[:, 0]).T, (moved[:, 3] - moved[:, 0]).T
    np.testing.assert_allclose(area_scale(params, points, owner), np.abs(x * v - y * u) / 4e-6, rtol=1e-3)


def number(chain):
    """The number of samples to check: few with warps, which the reference executes slowly."""
    return 8 if any(transform.warps for transform in chain) else 25


def rectangle(left, top, right, bottom):
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    pixels[top:bottom, left:right] = 255
    return pixels


def bright(image):
    """XYXY of the pixels that are more than half white, or None."""
    rows, columns = np.nonzero(image[..., 0] > 127)
    return None if not len(rows) else (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)


@every_chain
def test_a_box_follows_its_pixels(chain):
    n, box = number(chain), (60, 45, 130, 95)
    params = draw(chain, n)
    boxes, keep = transform_boxes(params, [box] * n, np.arange(n))
    compared = 0
    for i in range(n):
        found = bright(render(params, i, rectangle(*box)))
        if found is None:
            assert not keep[i] or (boxes[i, 2:] - boxes[i, :2]).min() < 1
            continue
        extent = boxes[i, 2:] - boxes[i, :2]
        if extent.min() > 3:  # the tip of a turned corner may cover no pixel by half
            tolerance = 1 if params.warp is None else 1.6
            np.testing.assert_allclose(boxes[i], found, atol=tolerance)
            compared += 1
    assert compared > n // 3


@every_chain
@pytest.mark.parametrize("least", [0.6, 0.9])
def test_the_visible_share_is_the_share_of_pixels(chain, least):
    n, box = number(chain), (20, 15, 130, 115)
    params = draw(chain, n)
    _, keep = transform_boxes(params, [box] * n, np.arange(n), min_visible=least)
    for i in range(n):
        # The white of the output over that of an output large enough to show all of it.
        white = (render(params, i, rectangle(*box))[..., 0] / 255).sum()
        determinant = area_ratio(params, i, box)
        share = white / (110 * 100 * determinant)
        if abs(share - least) > 0.03:
            assert keep[i] == (share > least)


def area_ratio(params, i, box):
    """Area that the whole box takes in the output over its area, by mapping a fine grid of its cells."""
    left, top, right, bottom = box
    x, y = np.meshgrid(np.arange(left, right + 1), np.arange(top, bottom + 1))
    u, v, w = np.einsum("ij,jhw->ihw", forward_matrix(params)[i], np.stack((x, y, np.ones_like(x))))
    u, v = u / w, v / w
    du, dv = np.diff(u, axis=1)[:-1], np.diff(v, axis=1)[:-1]
    eu, ev = np.diff(u, axis=0)[:, :-1], np.diff(v, axis=0)[:, :-1]
    return np.abs(du * ev - dv * eu).mean()


def test_a_box_beside_a_padded_crop_is_not_seen():
    beside = [(0, 0, 20, 20), (0, 60, 20, 90), (180, 130, 200, 150)]
    boxes, keep = transform_boxes(draw(CHAINS["crop, padding"]), beside, np.zeros(3, int))
    assert not keep.any()
    assert not boxes.any()


@every_chain
def test_a_keypoint_follows_its_pixels(chain):
    n, spots = number(chain), [(40, 50), (100, 75), (150, 110)]
    params = draw(chain, n)
    keypoints = np.tile([[(x, y, 2) for x, y in spots]], (n, 1, 1))
    moved = transform_keypoints(params, keypoints, np.arange(n))
    # A channel for each.
    parts = [rectangle(x - 3, y - 3, x + 3, y + 3)[..., 0] for x, y in spots]
    pixels = np.stack(parts, axis=-1)
    images = [render(params, i, pixels).astype(float) for i in range(n)]
    for k in range(3):
        for i in range(n):
            image = images[i][..., k]
            px, py, v = moved[i, k]
            near_border = min(px, py, params.size[1] - px, params.size[0] - py) < 8
            if v == 0:
                assert moved[i, k].tolist() == [0, 0, 0]
            elif not near_border and image.sum() > 1000:
                rows, columns = np.indices(image.shape) + 0.5
                center = (columns * image).sum() / image.sum(), (rows * image).sum() / image.sum()
                np.testing.assert_allclose((px, py), center, atol=1)


def test_keypoints_on_the_border_are_seen_and_those_beyond_are_not():
    points = [
        (0, 0, 2),
        (WIDTH, HEIGHT, 1),
        (-0.1, 9, 2),
        (9, -0.1, 2),
        (WIDTH + 0.1, 9, 2),
        (9, HEIGHT + 0.1, 2),
    ]
    for size in ((HEIGHT, WIDTH), (HEIGHT + 20, WIDTH + 20)):  # as it is, and padded
        moved = transform_keypoints(draw([CenterCrop(size)]), [points], ONE)
        assert moved[0, :, 2].tolist() == [2, 1, 0, 0, 0, 0]


@every_chain
def test_a_mask_follows_its_image(chain):
    rng = np.random.default_rng(0)
    mask = np.kron(rng.integers(0, 6, (6, 8)), np.ones((25, 25), int)).astype(np.uint8)
    params = draw(chain, 10)
    pixels = np.repeat(mask[..., None] * 40, 3, axis=-1).astype(np.uint8)
    for i in range(10):
        image = render(params, i, pixels)[..., 0] / 40
        moved = transform_mask(params, i, mask, ignore=255)
        assert moved.dtype == np.uint8
        assert moved.shape == params.size
        seen = moved != 255
        assert not image[~seen].any() or params.warp is not None
        if params.warp is None:
            np.testing.assert_array_equal(seen, render(params, i, np.full_like(pixels, 255))[..., 0] == 255)
        agree = np.abs(image - moved)[seen] < 0.5
        assert agree.mean() > 0.9  # but for pixels that an edge crosses
        flat = seen & (np.abs(image - np.round(image)) < 0.01) & interior(moved)
        assert (np.round(image) == moved)[flat].all()


def interior(mask):
    """Pixels whose neighbourhood of 5 x 5 is of one value."""
    same = np.ones(mask.shape, bool)
    padded = np.pad(mask, 2, constant_values=254)
    for dy in range(5):
        for dx in range(5):
            same &= padded[dy : dy + mask.shape[0], dx : dx + mask.shape[1]] == mask
    return same
