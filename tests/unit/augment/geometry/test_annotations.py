"""Annotations against pixels: a mark in the image is found where its annotation has moved."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stoker.augment import (
    CenterCrop,
    ColorJitter,
    Normalize,
    Pad,
    RandomAffine,
    RandomCrop,
    RandomHorizontalFlip,
    RandomInvert,
    RandomPerspective,
    RandomPosterize,
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
from stoker.augment.params import Warp
from stoker.augment.reference import execute, render

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


def test_boxes_are_clipped_and_dropped():
    params = draw([CenterCrop(100)])  # rows 25..125, columns 50..150
    boxes = [(60, 30, 80, 50), (40, 30, 60, 50), (0, 0, 20, 20), (49, 30, 51, 50), (60, 60, 60, 90)]
    moved, keep = transform_boxes(params, boxes, np.zeros(5, int))
    assert moved.tolist() == [[10, 5, 30, 25], [0, 5, 10, 25], [0] * 4, [0, 5, 1, 25], [0] * 4]
    assert keep.tolist() == [True, True, False, True, False]
    _, keep = transform_boxes(params, boxes, np.zeros(5, int), min_visible=0.5, min_size=2)
    assert keep.tolist() == [True, True, False, False, False]
    _, keep = transform_boxes(params, boxes, np.zeros(5, int), min_size=20)
    assert keep.tolist() == [True, False, False, False, False]
    _, keep = transform_boxes(params, boxes, np.zeros(5, int), min_visible=0.51)
    assert keep.tolist() == [True, False, False, False, False]


def test_left_and_right_are_exchanged_in_a_mirrored_image_only():
    eyes = [[(80, 60, 2), (110, 60, 1), (95, 80, 0)]]
    swap = [1, 0, 2]
    once = transform_keypoints(draw([CenterCrop(150), RandomHorizontalFlip(1)]), eyes, ONE, swap)
    assert once.tolist() == [[[150 - 85, 60, 1], [150 - 55, 60, 2], [0, 0, 0]]]
    both = [CenterCrop(150), RandomHorizontalFlip(1), RandomVerticalFlip(1)]
    twice = transform_keypoints(draw(both), eyes, ONE, swap)
    assert twice.tolist() == [[[150 - 55, 90, 2], [150 - 85, 90, 1], [0, 0, 0]]]


def test_keypoints_that_were_cut_away_do_not_return_with_padding():
    params = draw([CenterCrop(100), CenterCrop(200)])
    points = [[(20, 75, 2), (100, 75, 2)]]
    assert transform_keypoints(params, points, ONE).tolist() == [[[0, 0, 0], [100, 100, 2]]]


def test_an_image_of_padding_has_no_annotations():
    plan = compile_image([CenterCrop(9), RandomResizedCrop(4, scale=(0.05, 0.1))])
    params = plan.draw(np.ones(64, int), np.ones(64, int), np.arange(64), 0, 0)
    white = np.full((1, 1, 3), 255, np.uint8)
    shown = np.array([execute(params, i, white, "uint8").any() for i in range(64)])
    _, keep = transform_boxes(params, [(0, 0, 1, 1)] * 64, np.arange(64))
    np.testing.assert_array_equal(keep, shown)
    masks = [transform_mask(params, i, np.zeros((1, 1), int)) for i in range(64)]
    np.testing.assert_array_equal([(mask == 0).any() for mask in masks], shown)


def test_an_image_of_padding_has_the_colours_of_its_fill():
    fill = (200, 100, 50)
    colours = [
        ColorJitter((1.3, 1.3), (0.6, 0.6)),
        RandomPosterize(3, 1),
        RandomInvert(1),
        ColorJitter(None, (0.5, 0.5), (2, 2)),
        Normalize(),
    ]
    params = draw([Pad((WIDTH, 0, 0, 0), fill), RandomCrop(20), *colours], 8)
    assert 0 < params.empty.sum() < 8
    plain = draw([CenterCrop(20), *colours])
    expected = execute(plain, 0, np.full((HEIGHT, WIDTH, 3), fill, np.uint8))
    for i in np.flatnonzero(params.empty).tolist():
        white = np.full((HEIGHT, WIDTH, 3), 255, np.uint8)
        np.testing.assert_allclose(execute(params, i, white), expected, atol=1e-5)


def test_a_centre_on_an_edge_belongs_to_the_pixel_that_begins_there():
    params, mask = draw([CenterCrop(9)]), np.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH)
    whole = transform_mask(params, 0, mask)
    for shift, expected in ((-0.5, whole), (0.5, np.pad(whole[1:, 1:], (0, 1), constant_values=-1))):
        matrix = np.array([[[1, 0, shift], [0, 1, shift], [0, 0, 1]]])
        moved = transform_mask(replace(params, warp=Warp(matrix, (9, 9))), 0, mask, ignore=-1)
        np.testing.assert_array_equal(moved, expected)


def test_rounding_does_not_move_turned_boxes_out_of_the_image() -> None:
    params = draw([Resize((32, 32)), RandomRotation(60)], n=500)
    boxes, _ = transform_boxes(params, [(0, 0, WIDTH, HEIGHT)] * 500, np.arange(500))
    assert boxes.min() == 0
    assert boxes.max() == 32
