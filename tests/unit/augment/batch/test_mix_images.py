"""Mixing of images with the weights of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stoker.augment import CutMix, MixUp, Mosaic
from stoker.augment.batch import MixParams
from stoker.pipeline.adapters.host_arrays import mix_copy, mix_in_place, split

KEYS = np.arange(9, dtype=np.int64)


class TestMixImages:
    @pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
    @pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "uint16"])
    @pytest.mark.parametrize("transform", [MixUp(0.4), CutMix(), Mosaic()], ids=lambda t: type(t).__name__)
    def test_mixing_in_place_gives_the_same_bits(self, transform: Any, dtype: str, layout: Any) -> None:
        shape = (9, 3, 10, 14) if layout == "NCHW" else (9, 10, 14, 3)
        images = (np.random.default_rng(0).random(shape) * 200).astype(dtype)
        params = transform.draw(KEYS, (10, 14), 1, 2)
        expected = params.images(images, layout)
        assert np.array_equal(mix_copy(params, images, layout), expected)
        mixed = mix_in_place(params, images, layout)
        assert np.array_equal(mixed, expected)
        assert (mixed is images) == (dtype == "float32" and not isinstance(transform, Mosaic))

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

    def test_split_divides_rows_by_counts(self) -> None:
        parts = split(np.arange(6), np.array([2, 0, 4]))
        assert [part.tolist() for part in parts] == [[0, 1], [], [2, 3, 4, 5]]
        assert split(np.arange(0), np.array([], np.int64)) == []
