"""MixUp and CutMix: distributions against NumPy's and torchvision's, pixels and labels by hand."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from helpers.transforms import assert_same_distribution

from stoker.augment import CutMix, MixUp
from stoker.augment.batch import MixParams
from stoker.errors import ConfigError
from stoker.pipeline.adapters.numpy import mix_copy, mix_in_place

N = 20_000
BOTH = pytest.mark.parametrize("transform", [MixUp(0.8), CutMix(0.8)])


@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.5, 0.8, 1.0, 2.0, 10.0])
def test_shares_follow_the_beta_distribution(alpha):
    share = MixUp(alpha).draw(np.arange(N), (8, 8), 0, 0).share
    assert np.isfinite(share).all()
    expected = np.random.default_rng(0).beta(alpha, alpha, N)
    assert_same_distribution(
        share.round(6), expected.astype(np.float32).round(6)
    )  # below 1e-16 ours are zero


def torchvision_cutmix(height, width, alpha, rng):
    lam = rng.betavariate(alpha, alpha)
    r_x, r_y = rng.randrange(width), rng.randrange(height)
    r = 0.5 * math.sqrt(1.0 - lam)
    r_w_half, r_h_half = int(r * width), int(r * height)
    x1, y1 = max(r_x - r_w_half, 0), max(r_y - r_h_half, 0)
    x2, y2 = min(r_x + r_w_half, width), min(r_y + r_h_half, height)
    return y1, x1, y2 - y1, x2 - x1, float(1.0 - (x2 - x1) * (y2 - y1) / (width * height))


@pytest.mark.parametrize("alpha", [0.4, 1.0])
def test_boxes_are_distributed_as_torchvisions(alpha):
    params = CutMix(alpha).draw(np.arange(N), (30, 50), 0, 0)
    rng = random.Random(0)
    expected = np.array([torchvision_cutmix(30, 50, alpha, rng) for _ in range(N)])
    for axis in range(4):
        assert_same_distribution(params.box[:, axis], expected[:, axis])
    assert_same_distribution(params.label_share, expected[:, 4].astype(np.float32))


@pytest.mark.parametrize("kind", [MixUp, CutMix])
def test_samples_are_left_as_they_are_in_the_share_of_the_probability(kind):
    rows = np.arange(N)
    some, every = (kind(0.8, p).draw(rows, (30, 50), 0, 0) for p in (0.3, 1.0))
    mixed = (some.share < 1) | (some.box[:, 2:] > 0).all(axis=1)
    assert abs(mixed.mean() - 0.3) < 0.02
    assert (some.label_share[~mixed] == 1).all()
    for name in ("share", "label_share"):  # what is mixed, is mixed as without a probability
        assert np.array_equal(getattr(some, name)[mixed], getattr(every, name)[mixed])
    assert np.array_equal(some.box[mixed], every.box[mixed])
    with pytest.raises(ConfigError, match="p must be a probability"):
        kind(p=1.5)


@BOTH
def test_a_draw_is_keyed_by_seed_epoch_and_sample(transform):
    def label_share(rows, seed=0, epoch=0):
        return transform.draw(rows, (30, 50), seed, epoch).label_share

    rows = np.arange(50)
    base = label_share(rows)
    np.testing.assert_array_equal(label_share(rows[::-1])[::-1], base)
    for other in (label_share(rows, seed=1), label_share(rows, epoch=1), label_share(rows + 50)):
        assert (other != base).mean() > 0.8


@BOTH
def test_the_partner_is_the_sample_before(transform):
    assert transform.draw(np.array([7, 3, 5]), (8, 8), 0, 0).partner.tolist() == [2, 0, 1]
    assert len(transform.draw(np.arange(0), (8, 8), 0, 0)) == 0
    assert transform.draw(np.array([4]), (8, 8), 0, 0).partner.tolist() == [0]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_mixup_adds_pixels_in_shares(dtype):
    images = np.random.default_rng(0).random((4, 3, 5, 6)).astype(dtype)
    params = MixUp().draw(np.arange(4), (5, 6), 0, 0)
    mixed = params.images(images)
    assert mixed.dtype == dtype
    for i in range(4):
        expected = params.share[i] * images[i] + (1 - params.share[i]) * images[i - 1]
        np.testing.assert_allclose(mixed[i], expected, rtol=2e-3 if dtype == np.float16 else 1e-6)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_cutmix_replaces_a_box_by_that_of_the_partner(layout):
    images = np.arange(1, 9, dtype=np.float32)[:, None, None, None] * np.ones((3, 20, 30), np.float32)
    if layout == "NHWC":
        images = images.transpose(0, 2, 3, 1)
    params = CutMix().draw(np.arange(8), (20, 30), 0, 0)
    mixed = params.images(images, layout)
    channel = mixed[:, 0] if layout == "NCHW" else mixed[..., 0]
    for i, (top, left, height, width) in enumerate(params.box.tolist()):
        own = (channel[i] == i + 1).mean()
        np.testing.assert_allclose(own, params.label_share[i], atol=1e-6)
        box = channel[i, top : top + height, left : left + width]
        assert (box == (i if i else 8)).all()


@BOTH
def test_labels_are_mixed_as_pixels_are_and_sum_to_one(transform):
    labels = np.array([0, 2, 2, 1])
    params = transform.draw(np.arange(4), (20, 30), 0, 0)
    soft = params.labels(labels, 3)
    assert soft.dtype == np.float32
    np.testing.assert_allclose(soft.sum(axis=1), 1, rtol=1e-6)
    one_hot = np.eye(3)[labels]
    share = params.label_share[:, None]
    np.testing.assert_allclose(soft, share * one_hot + (1 - share) * np.roll(one_hot, 1, axis=0), rtol=1e-5)
    assert soft[2].tolist() == [0, 0, 1]  # its partner has its label


KEYS = np.arange(9, dtype=np.int64)


class TestMixImages:
    @pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
    @pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "uint16"])
    @pytest.mark.parametrize(
        "transform",
        [MixUp(0.4), CutMix()],
        ids=lambda t: type(t).__name__,
    )
    def test_mixing_in_place_gives_the_same_bits(self, transform: Any, dtype: str, layout: Any) -> None:
        shape = (9, 3, 10, 14) if layout == "NCHW" else (9, 10, 14, 3)
        images = (np.random.default_rng(0).random(shape) * 200).astype(dtype)
        params = transform.draw(KEYS, (10, 14), 1, 2)
        expected = params.images(images, layout)
        assert np.array_equal(mix_copy(params, images, layout), expected)
        mixed = mix_in_place(params, images, layout)
        assert np.array_equal(mixed, expected)
        assert (mixed is images) == (dtype == "float32")

    def test_read_only_images_are_copied(self) -> None:
        images = np.ones((9, 3, 4, 4), np.float32)
        images.flags.writeable = False
        assert mix_in_place(MixUp().draw(KEYS, (4, 4), 0, 0), images, "NCHW") is not images

    def test_partners_in_any_order_are_mixed_before_they_change(self) -> None:
        images = np.arange(3 * 3 * 2 * 2, dtype=np.float32).reshape(3, 3, 2, 2)
        share = np.full(3, 0.25, np.float32)
        params = MixParams(np.array([1, 2, 0]), share, np.zeros((3, 4), np.int32), share)
        expected = params.images(images)
        assert np.array_equal(mix_in_place(params, images, "NCHW"), expected)

    def test_batches_of_one_image_and_of_none_keep_their_shape(self) -> None:
        for n in (0, 1):
            images = np.ones((n, 3, 4, 4), np.float32)
            assert mix_in_place(MixUp().draw(KEYS[:n], (4, 4), 0, 0), images, "NCHW").shape == images.shape


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array([0, -1]), "labels must be within 0 to 2, found -1"),
        (np.array([3, 0]), "labels must be within 0 to 2, found 3"),
        (np.zeros((4, 2)), r"labels must be \(N,\) integers or \(N, 3\), found"),
        (np.ones(4), "found float64 of"),
    ],
)
def test_labels_that_name_no_class_are_refused(labels, message):
    with pytest.raises(ConfigError, match=message):
        MixUp().draw(np.arange(2), (8, 8), 0, 0).labels(labels, 3)
