"""The reference engine: the reference of all transforms behind the contract of engines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.images import decode_with_pillow
from helpers.loaders import image_arguments
from helpers.transforms import RandomUpset

import stoker
from stoker.augment import (
    RandomErasing,
    RandomResizedCrop,
    RandomRotation,
    RandomSolarize,
    compile_image,
    reference,
)
from stoker.errors import ConfigError, CorruptRecordError, DecodeError

ROTATED = [RandomResizedCrop(24), RandomRotation(30), RandomErasing(0.5)]


def first(dataset: Path, **arguments: Any) -> Any:
    with stoker.ImageLoader(dataset, **image_arguments(batch_size=8, **arguments)) as loader:
        return next(iter(loader))


@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "float32"])
def test_a_batch_equals_the_reference_for_each_sample(thumbnails: Path, dtype: Any) -> None:
    opened = stoker.open(thumbnails)
    images = first(thumbnails, transforms=ROTATED, dtype=dtype, engine="reference").image
    samples = opened.samples(np.arange(8))
    params = compile_image(ROTATED, dtype).draw(samples.height, samples.width, samples.row, 0, 0)
    for i in range(8):
        expected = reference.execute(params, i, decode_with_pillow(opened.read(i)), dtype)
        assert np.array_equal(images[i].view(expected.dtype), expected)


@pytest.mark.parametrize("engine", ["native", "dali"])
def test_another_engine_names_what_it_does_not_execute(thumbnails: Path, engine: str) -> None:
    if engine == "dali":
        pytest.importorskip("nvidia.dali")
    transforms = [RandomResizedCrop(24), RandomUpset(), RandomSolarize(128)]
    with pytest.raises(ConfigError, match="does not execute what the transforms need: Upset"):
        stoker.ImageLoader(thumbnails, batch_size=8, transforms=transforms, engine=engine)


def test_a_sample_with_a_wrong_checksum_is_named(
    pack_images: Callable[..., Path], make_jpeg: Callable[..., bytes]
) -> None:
    dataset = pack_images([make_jpeg(i) for i in range(3)], crc=np.ones(3, np.uint32))
    with pytest.raises(CorruptRecordError, match="k0"):
        first(dataset, transforms=[RandomResizedCrop(8)], engine="reference")


@pytest.mark.filterwarnings("ignore:a bad sample was")
@pytest.mark.parametrize("end", [b"", b"\xff\xd9"])  # with an end marker, Pillow makes grey what is missing
def test_a_cut_image_is_named_and_can_be_skipped(
    pack_images: Callable[..., Path], make_jpeg: Callable[..., bytes], end: bytes
) -> None:
    payloads = [make_jpeg(i, 90, 120) for i in range(3)]
    payloads[1] = payloads[1][: len(payloads[1]) * 3 // 4] + end
    dataset = pack_images(payloads)
    arguments: dict[str, Any] = {"transforms": [RandomResizedCrop(8)], "engine": "reference"}
    with pytest.raises(DecodeError, match="k1"):
        first(dataset, **arguments)
    assert first(dataset, on_error="skip", columns=("key", "image"), **arguments).key == ["k0", "k2"]


def test_raw_pixels_are_handed_out_unchanged(pack_images: Callable[..., Path]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), np.uint8)
    size = {"height": np.full(2, 8), "width": np.full(2, 8), "codec": np.zeros(2), "orientation": np.ones(2)}
    dataset = pack_images([image.tobytes() for image in pixels], **size)
    images = first(
        dataset, transforms=[stoker.augment.Resize((8, 8))], layout="NHWC", engine="reference"
    ).image
    assert np.array_equal(images, pixels)
