"""MixUp and CutMix on a device: the pixels of the host in each library, here on the CPU."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from stoker.augment import CutMix, MixUp
from stoker.pipeline import adapters
from stoker.pipeline.engines.registry import BatchPlacement

N, SIDE = 9, 24


def load(output: str) -> adapters.Adapter:
    pytest.importorskip(output)
    return adapters.load(adapters.FRAMEWORKS[output], BatchPlacement(None, pin_memory=False))


@pytest.mark.parametrize("output", ["numpy", "torch", "jax", "tensorflow"])
@pytest.mark.parametrize("transform", [MixUp(), CutMix(), CutMix(0.1)])
@pytest.mark.parametrize(("layout", "channels"), [("NCHW", 3), ("NHWC", 3), ("NHWC4", 4)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_pixels_are_those_of_the_host(
    output: str, transform: Any, layout: Any, channels: int, dtype: Any
) -> None:
    shape = (N, channels, SIDE, SIDE) if layout == "NCHW" else (N, SIDE, SIDE, channels)
    images = np.random.default_rng(0).integers(0, 256, shape, np.uint8).astype(dtype)
    params = transform.draw(np.arange(N), (SIDE, SIDE), 3, 0)
    before = images.copy()
    expected = params.images(images, layout)
    assert not np.array_equal(expected, images)
    adapter = load(output)
    # NumPy's own adapter mixes in place; CuPy mixes with the same calls as the base.
    found = np.asarray(adapters.Adapter.mix(adapter, params, adapter.array(images), layout))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert np.array_equal(images, before)


@pytest.mark.parametrize("transform", [MixUp(0.4), CutMix()], ids=lambda transform: type(transform).__name__)
@pytest.mark.parametrize("output", ["torch", "jax", "tensorflow"])
def test_bfloat16_is_mixed_to_the_bits_of_the_host(output: str, transform: Any) -> None:
    adapter = load(output)
    values = (np.random.default_rng(0).random((N, 3, SIDE, SIDE)) * 200).astype(np.float32)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    params = transform.draw(np.arange(N), (SIDE, SIDE), 0, 1)
    mixed = adapter.mix(params, adapter.images(bits.copy(), "bfloat16"), "NCHW")
    if output == "torch":
        mixed = mixed.view(import_module("torch").uint16)
    assert np.array_equal(np.asarray(mixed).view(np.uint16), params.images(bits))
