"""Transforms that add steps, alone and in their order; ElasticTransform and annotations that follow it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from PIL import Image, ImageOps

from stoker.augment import (
    JPEG,
    AugMix,
    CenterCrop,
    ColorJitter,
    ElasticTransform,
    Pad,
    RandomAutocontrast,
    RandomEqualize,
    RandomHorizontalFlip,
    RandomInvert,
    RandomPosterize,
    RandomSolarize,
    compile_image,
)
from stoker.augment.geometry.annotations import displace_boxes, displace_keypoints, displace_masks
from stoker.augment.reference import execute
from stoker.errors import ConfigError

SIZE = (40, 50)
KEEP = CenterCrop(SIZE)


def photograph(low=0, high=256, seed=0):
    rng = np.random.default_rng(seed)
    return (low + (high - low) * rng.beta(2, 4, (*SIZE, 3))).astype(np.uint8)


def draw(*transforms, n=1, size=SIZE):
    return compile_image(transforms).draw(np.full(n, size[0]), np.full(n, size[1]), np.arange(n), 0, 0)


def run(pixels, *transforms):
    return execute(draw(KEEP, *transforms), 0, pixels, "uint8", "NHWC")


def pillow(operation, pixels, *arguments):
    return np.array(operation(Image.fromarray(pixels), *arguments))


def test_equalize_clips_where_there_are_few_pixels():
    pixels = np.zeros((*SIZE, 3), np.uint8)
    pixels.reshape(-1, 3)[:509] = np.arange(509)[:, None] // 2  # a step of one pixel, 508 below the highest
    pixels.reshape(-1, 3)[509:] = 255
    output = run(pixels, RandomEqualize(1))
    np.testing.assert_array_equal(output[..., 0].ravel()[:509], (np.arange(509) // 2 * 2).clip(max=255))


@pytest.mark.parametrize(
    "make",
    [lambda p: RandomPosterize(1, p), lambda p: RandomSolarize(0, p), RandomAutocontrast, RandomEqualize],
)
@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_each_applies_with_its_probability(make, p):
    assert abs(draw(KEEP, make(p), n=5000).steps[0].where.mean() - p) < 0.04


def brighten(pixels):
    return np.floor((pixels * np.float32(1.7)).clip(0, 255) + 0.5).astype(np.uint8)


OPERATIONS = {
    RandomPosterize(3, 1): lambda x: pillow(ImageOps.posterize, x, 3),
    RandomSolarize(100, 1): lambda x: pillow(ImageOps.solarize, x, 100),
    RandomEqualize(1): lambda x: pillow(ImageOps.equalize, x),
    RandomInvert(1): lambda x: 255 - x,
    ColorJitter(brightness=(1.7, 1.7)): brighten,
}


@pytest.mark.parametrize("chain", list(itertools.permutations(OPERATIONS, 3)))
def test_operations_act_in_their_order(chain):
    pixels = photograph()
    expected = pixels
    for transform in chain:
        expected = OPERATIONS[transform](expected)
    difference = np.abs(run(pixels, *chain).astype(int) - expected)
    # Colours that follow each other are rounded and clipped once; all else agrees exactly.
    merged = any({type(a), type(b)} == {RandomInvert, ColorJitter} for a, b in itertools.pairwise(chain))
    assert (difference > 0).mean() < 0.01 or merged


def test_colours_are_rounded_only_before_a_step_that_applies():
    params = draw(KEEP, ColorJitter(0.4), RandomPosterize(3), RandomEqualize(0), RandomSolarize(9), n=99)
    colours, posterize, second, equalize, third, solarize = params.steps
    np.testing.assert_array_equal(colours.where, posterize.where)
    assert not second.where.any()
    assert not equalize.where.any()
    np.testing.assert_array_equal(third.where, solarize.where & ~posterize.where)
    untouched = ~(posterize.where | solarize.where)
    assert untouched.any()
    np.testing.assert_array_equal((params.color != np.eye(3, 4)).any(axis=(1, 2)), untouched)


N = 3000


def draw_noisy(transform, n, size=(60, 80)):
    plan = compile_image([CenterCrop(size), transform])
    return plan.draw(np.full(n, size[0]), np.full(n, size[1]), np.arange(n), 0, 0)


def test_every_quality_of_a_range_is_as_likely():
    (step,) = draw_noisy(JPEG((30, 34)), N).steps
    values, counts = np.unique(step.quality, return_counts=True)
    assert values.tolist() == [30, 31, 32, 33, 34]
    assert np.abs(counts - N / 5).max() < 5 * np.sqrt(N / 5)
    assert (draw_noisy(JPEG(7), 5).steps[0].quality == 7).all()
    for wrong in (0, 101, (50, 40), (1, 2, 3), 2.5):
        with pytest.raises(ConfigError, match="quality must be a whole number 1 to 100"):
            JPEG(wrong)


HEIGHT, WIDTH = 90, 120
WIDE = (90, 120)
IMAGES = 4
OWNER = np.arange(IMAGES)


def draw_elastic(*transforms, seed=0):
    plan = compile_image([CenterCrop(WIDE), *transforms])
    return plan.draw(np.full(IMAGES, HEIGHT), np.full(IMAGES, WIDTH), np.arange(IMAGES), seed, 0)


def images(params, source):
    return np.stack([execute(params, i, source, "uint8", "NHWC") for i in range(IMAGES)])


def test_masks_follow_the_pixels():
    labels = np.random.default_rng(0).integers(0, 200, WIDE, np.uint8)
    source = labels[..., None].repeat(3, 2)
    chain = ElasticTransform(90.0, 3.0, "nearest", fill=255), ElasticTransform(30.0, 5.0, "nearest")
    params = draw_elastic(*chain)
    shown = images(params, source)[..., 0]
    masks = displace_masks(params, labels[None].repeat(IMAGES, 0), OWNER, 255)
    assert (masks == shown).all()
    assert (shown == 255).any()
    assert (shown != labels).mean() > 0.5
    assert (shown[0] != shown[1]).any()
    assert (shown == images(draw_elastic(*chain), source)[..., 0]).all()
    assert (shown != images(draw_elastic(*chain, seed=1), source)[..., 0]).any()


def test_keypoints_and_boxes_follow_the_pixels():
    params = draw_elastic(ElasticTransform(300.0, 12.0))
    source = np.zeros((*WIDE, 3), np.uint8)
    source[40:48, 50:60] = 255
    moved = images(params, source)[..., 0] / 255.0
    keypoints = displace_keypoints(params, np.tile([[55.0, 44.0, 2.0], [0, 0, 0]], (IMAGES, 1, 1)), OWNER)
    boxes = displace_boxes(params, np.tile([[50.0, 40.0, 60.0, 48.0]], (IMAGES, 1)), OWNER)
    distances = []
    for i in range(IMAGES):
        rows, columns = np.indices(WIDE) + 0.5
        center = np.array([(columns * moved[i]).sum(), (rows * moved[i]).sum()]) / moved[i].sum()
        assert np.abs(keypoints[i, 0, :2] - center).max() < 0.5
        assert (keypoints[i, 1] == 0).all()
        distances.append(np.abs(center - (55, 44)).max())
        seen = np.argwhere(moved[i] > 0.5)
        found = [*seen.min(0)[::-1], *(seen.max(0)[::-1] + 1)]
        assert np.abs(boxes[i] - found).max() < 1.5
    assert max(distances) > 1


def test_keypoints_that_leave_the_image_are_dropped_and_boxes_are_clipped():
    params = draw_elastic(ElasticTransform((4000.0, 0.0), 5.0))
    keypoints = displace_keypoints(params, np.tile([[[1.0, 44.0, 2.0]]], (IMAGES, 1, 1)), OWNER)
    gone = keypoints[:, 0, 2] == 0
    assert gone.any()
    assert (keypoints[gone] == 0).all()
    boxes = displace_boxes(params, np.tile([[1.0, 40.0, 2.0, 48.0]], (IMAGES, 1)), OWNER)
    assert (boxes >= 0).all()
    assert (boxes[:, [0, 2]] <= WIDTH).all()


def test_a_change_of_the_size_after_it_is_refused():
    compile_image([CenterCrop(8), ElasticTransform(), AugMix(), RandomHorizontalFlip()])
    for late in (CenterCrop(8), Pad(3)):
        with pytest.raises(ConfigError, match="stands after ElasticTransform") as error:
            compile_image([CenterCrop(9), ElasticTransform(), late])
        assert "Put ElasticTransform after" in str(error.value)
