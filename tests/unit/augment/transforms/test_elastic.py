"""ElasticTransform: its arguments, its order in a list, and annotations that follow the pixels."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.augment import AugMix, CenterCrop, ElasticTransform, Pad, RandomHorizontalFlip, compile_image
from stoker.augment.geometry.annotations import displace_boxes, displace_keypoints, displace_masks
from stoker.augment.reference import execute
from stoker.errors import ConfigError

SIZE = HEIGHT, WIDTH = 90, 120
N = 4
OWNER = np.arange(N)


def draw(*transforms, seed=0):
    plan = compile_image([CenterCrop(SIZE), *transforms])
    return plan.draw(np.full(N, HEIGHT), np.full(N, WIDTH), np.arange(N), seed, 0)


def images(params, source):
    return np.stack([execute(params, i, source, "uint8", "NHWC") for i in range(N)])


def test_masks_follow_the_pixels():
    labels = np.random.default_rng(0).integers(0, 200, SIZE, np.uint8)
    source = labels[..., None].repeat(3, 2)
    chain = ElasticTransform(90.0, 3.0, "nearest", fill=255), ElasticTransform(30.0, 5.0, "nearest")
    params = draw(*chain)
    shown = images(params, source)[..., 0]
    masks = displace_masks(params, labels[None].repeat(N, 0), OWNER, 255)
    assert (masks == shown).all()
    assert (shown == 255).any()
    assert (shown != labels).mean() > 0.5
    assert (shown[0] != shown[1]).any()
    assert (shown == images(draw(*chain), source)[..., 0]).all()
    assert (shown != images(draw(*chain, seed=1), source)[..., 0]).any()


def test_keypoints_and_boxes_follow_the_pixels():
    params = draw(ElasticTransform(300.0, 12.0))
    source = np.zeros((*SIZE, 3), np.uint8)
    source[40:48, 50:60] = 255
    moved = images(params, source)[..., 0] / 255.0
    keypoints = displace_keypoints(params, np.tile([[55.0, 44.0, 2.0], [0, 0, 0]], (N, 1, 1)), OWNER)
    boxes = displace_boxes(params, np.tile([[50.0, 40.0, 60.0, 48.0]], (N, 1)), OWNER)
    distances = []
    for i in range(N):
        rows, columns = np.indices(SIZE) + 0.5
        center = np.array([(columns * moved[i]).sum(), (rows * moved[i]).sum()]) / moved[i].sum()
        assert np.abs(keypoints[i, 0, :2] - center).max() < 0.5
        assert (keypoints[i, 1] == 0).all()
        distances.append(np.abs(center - (55, 44)).max())
        seen = np.argwhere(moved[i] > 0.5)
        found = [*seen.min(0)[::-1], *(seen.max(0)[::-1] + 1)]
        assert np.abs(boxes[i] - found).max() < 1.5
    assert max(distances) > 1


def test_keypoints_that_leave_the_image_are_dropped_and_boxes_are_clipped():
    params = draw(ElasticTransform((4000.0, 0.0), 5.0))
    keypoints = displace_keypoints(params, np.tile([[[1.0, 44.0, 2.0]]], (N, 1, 1)), OWNER)
    gone = keypoints[:, 0, 2] == 0
    assert gone.any()
    assert (keypoints[gone] == 0).all()
    boxes = displace_boxes(params, np.tile([[1.0, 40.0, 2.0, 48.0]], (N, 1)), OWNER)
    assert (boxes >= 0).all()
    assert (boxes[:, [0, 2]] <= WIDTH).all()


def test_a_change_of_the_size_after_it_is_refused():
    compile_image([CenterCrop(8), ElasticTransform(), AugMix(), RandomHorizontalFlip()])
    for late in (CenterCrop(8), Pad(3)):
        with pytest.raises(ConfigError, match="stands after ElasticTransform") as error:
            compile_image([CenterCrop(9), ElasticTransform(), late])
        assert "Put ElasticTransform after" in str(error.value)


def test_fill_is_that_of_the_transforms_before():
    (step,) = draw(Pad(0, fill=(1, 2, 3)), ElasticTransform()).steps
    assert step.fill == (1, 2, 3)
    with pytest.raises(ConfigError, match="after a fill"):
        draw(Pad(0, fill=9), ElasticTransform(fill=8))
