"""Crops: CenterCrop and RandomResizedCrop by torchvision's formulas, RandomIoUCrop by its draws and boxes.

torchvision's own draws, and the boxes that it made, are in tests/data/torchvision-detection.npz, which the
script beside it makes.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from helpers.transforms import assert_same_distribution

from stoker.augment import (
    CenterCrop,
    RandomHorizontalFlip,
    RandomIoUCrop,
    RandomResizedCrop,
    RandomVerticalFlip,
    RandomZoomOut,
    Resize,
    compile_image,
)
from stoker.augment.geometry.annotations import transform_boxes
from stoker.augment.geometry.boxes import Objects
from stoker.augment.state import TransformState

THEIRS = np.load(Path(__file__).parents[3] / "data" / "torchvision-detection.npz")
HEIGHT, WIDTH = 100, 160
BOXES = np.array([(20.0, 30, 60, 90), (100, 10, 150, 40)])
N = 4000


def objects(n, boxes=BOXES):
    return Objects(np.tile(boxes, (n, 1)), np.arange(n).repeat(len(boxes)))


def state_of(n, boxes=BOXES, height=HEIGHT, width=WIDTH):
    return TransformState.of(np.full(n, height), np.full(n, width), objects(n, boxes))


def decide(transform, state, seed=0):
    transform.params(state, np.random.default_rng(seed).random((state.size.shape[1], transform.draws)))


def test_parts_are_distributed_as_torchvisions_own():
    state = state_of(N)
    decide(RandomIoUCrop(), state)
    top, left, height, width, remaining = THEIRS["iou-crop"].T
    for ours, theirs in zip((*state.geometry.start, *state.size), (top, left, height, width), strict=True):
        assert_same_distribution(ours, theirs)
    center = BOXES.reshape(2, 2, 2).mean(axis=1)[None, :, ::-1]
    start, stop = state.geometry.start.T[:, None], state.geometry.stop.T[:, None]
    assert_same_distribution(np.all((start < center) & (center < stop), axis=-1).sum(axis=1), remaining)


@pytest.mark.parametrize(
    ("boxes", "option"),
    [
        (BOXES[:0], 0.5),
        (np.array([(5.0, 5, 7, 7)]), 0.5),  # the IoU of so small a box is always small
        (BOXES, 1),
    ],
)
def test_images_without_boxes_and_impossible_options_are_left_as_they_are(boxes, option):
    state = state_of(20, boxes)
    decide(RandomIoUCrop(sampler_options=(option,)), state)
    assert (state.size.T == (HEIGHT, WIDTH)).all()


def test_objects_whose_centre_is_cut_off_are_dropped():
    plan = compile_image([RandomHorizontalFlip(), RandomIoUCrop(sampler_options=(0.0,)), Resize((50, 50))])
    assert plan.uses_boxes
    n = 200
    given = objects(n)
    params = plan.draw(np.full(n, HEIGHT), np.full(n, WIDTH), np.arange(n), 0, 0, objects=given)
    _, keep = transform_boxes(params, given.boxes, given.owner)
    center = given.boxes.reshape(-1, 2, 2).mean(axis=1)
    region = params.region[given.owner]
    inside = np.all((center > region[:, 1::-1]) & (center < region[:, :1:-1]), axis=1)
    assert (keep == inside).all()
    assert 0.3 < keep.mean() < 0.9
    assert keep.reshape(n, 2).any(axis=1).all()  # the part was chosen by a box that it contains


def clipped(boxes, start, stop):
    """(N, M, 4), the parts of XYXY boxes within windows of the source, (2, N) each."""
    low = np.maximum(boxes[..., :2], start[::-1].T[:, None])
    return np.concatenate((low, np.maximum(np.minimum(boxes[..., 2:], stop[::-1].T[:, None]), low)), axis=-1)


def area(boxes):
    return np.prod(boxes[..., 2:] - boxes[..., :2], axis=-1)


def test_a_choice_uses_the_boxes_that_earlier_transforms_left():
    state = state_of(200)
    decide(RandomZoomOut(0, (1.1, 1.3), 1), state)
    decide(RandomVerticalFlip(), state)
    decide(RandomIoUCrop(sampler_options=(0.1,)), state, 1)
    left = clipped(np.tile(BOXES, (200, 1, 1)), np.maximum(state.geometry.start, 0), state.geometry.stop)
    before = state.geometry.stop - state.geometry.start
    decide(RandomIoUCrop(sampler_options=(0.5,)), state, 2)
    part = np.prod(state.geometry.stop - state.geometry.start, axis=0)
    cut = part < np.prod(before, axis=0)
    assert cut.mean() > 0.5
    shared = area(clipped(left, state.geometry.start, state.geometry.stop))
    overlaps = shared / (area(left) + part[:, None] - shared)
    assert overlaps.max(axis=1)[cut].min() > 0.5 - 1e-9


def test_a_sample_has_the_same_part_in_any_batch():
    plan = compile_image([RandomIoUCrop(), Resize((32, 32))])
    n = 30
    rows = np.arange(n)
    size = np.full(n, HEIGHT), np.full(n, WIDTH)
    together = plan.draw(*size, rows, 0, 0, objects=objects(n)).region
    back = objects(n)
    back = Objects(back.boxes[::-1], back.owner[::-1])  # in any order of the objects, too
    np.testing.assert_array_equal(plan.draw(*size, rows, 0, 0, objects=back).region, together)
    one = np.ones(1, int)
    for i in (3, 17):
        alone = plan.draw(HEIGHT * one, WIDTH * one, rows[i : i + 1], 0, 0, objects=objects(1))
        np.testing.assert_array_equal(alone.region[0], together[i])
    other = plan.draw(*size, rows, 0, 1, objects=objects(n)).region
    assert (other != together).any(axis=1).mean() > 0.6


SIZES = [(1, 1), (1, 7), (7, 1), (300, 500), (500, 300), (333, 500), (257, 256), (255, 256), (4000, 31)]


def draw(transforms, height, width, samples, seed=0, epoch=0):
    return compile_image(transforms).draw(height, width, samples, seed, epoch)


def draw_same(transforms, height, width, n, seed=0):
    return draw(transforms, np.full(n, height), np.full(n, width), np.arange(n), seed)


def torchvision_center_crop(height, width, crop_height, crop_width):
    """(top, left) of the crop in the source; negative where it is padded."""
    top, left = 0, 0
    if crop_height > height:
        top = (crop_height - height) // 2
    if crop_width > width:
        left = (crop_width - width) // 2
    padded_height, padded_width = max(height, crop_height), max(width, crop_width)
    crop_top = round((padded_height - crop_height) / 2.0)
    crop_left = round((padded_width - crop_width) / 2.0)
    return crop_top - top, crop_left - left


@pytest.mark.parametrize("crop", [(1, 1), (7, 4), (8, 8), (9, 256), (300, 301)])
def test_center_crop_rounds_and_pads_as_torchvision_does(crop):
    params = draw([CenterCrop(crop)], *np.array(SIZES).T, np.arange(len(SIZES)))
    for (height, width), region, dest in zip(SIZES, params.region, params.dest, strict=True):
        top, left = torchvision_center_crop(height, width, *crop)
        inside = (max(top, 0), max(left, 0), min(top + crop[0], height), min(left + crop[1], width))
        assert region.tolist() == list(inside)
        expected = (inside[0] - top, inside[1] - left, inside[2] - inside[0], inside[3] - inside[1])
        assert dest.tolist() == list(expected)
    assert params.fill.tolist() == [0, 0, 0]


def torchvision_fallback(height, width, ratio):
    in_ratio = width / height
    w, h = width, height
    if in_ratio < min(ratio):
        h = round(w / min(ratio))
    elif in_ratio > max(ratio):
        w = round(h * max(ratio))
    return (height - h) // 2, (width - w) // 2, h, w


@pytest.mark.parametrize(("height", "width"), [(11, 1000), (1000, 11), (1, 500), (500, 1)])
def test_random_resized_crop_falls_back_to_the_centre(height, width):
    transform = RandomResizedCrop(8, scale=(0.9, 1.0))  # never fits into so long an image
    params = draw_same([transform], height, width, 50)
    assert set(map(tuple, params.crop.tolist())) == {torchvision_fallback(height, width, transform.ratio)}


def test_random_resized_crop_uses_the_first_attempt_that_fits():
    state = TransformState.of(np.array([100]), np.array([100]))
    u = np.full((1, RandomResizedCrop.draws), 0.999)
    u[0, :10] = 1 - 1e-9  # area: all of the image, which does not fit at this ratio ...
    u[0, 2] = 0.0  # ... but at the third attempt
    u[0, 20:] = 0.0  # top left
    RandomResizedCrop(7).params(state, u)
    width = round(math.sqrt(800 * math.exp(math.log(3 / 4) + 0.999 * math.log(16 / 9))))
    height = round(math.sqrt(800 / math.exp(math.log(3 / 4) + 0.999 * math.log(16 / 9))))
    assert state.geometry.content_start.ravel().tolist() == [0, 0]
    assert state.geometry.content_stop.ravel().tolist() == [height, width]
