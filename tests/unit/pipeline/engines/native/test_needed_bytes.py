"""The read-ahead of JPEGs with restart markers asks for the bytes that images need, and for few others."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from helpers.data.pictures import exif
from PIL import Image

import stoker
from stoker.augment import RandomResizedCrop
from stoker.pipeline.engines.native import engine
from stoker.pipeline.engines.native.needed_bytes import ByteRanges, needed_bytes


@pytest.fixture
def dataset(tmp_path: Path) -> stoker.Dataset:
    """Eight JPEGs with restart markers, of 3 to 6 bands: 4:4:4, 4:2:0, and one to be rotated."""
    photos = tmp_path / "photos" / "a"
    photos.mkdir(parents=True)
    for i in range(8):
        noise = np.random.default_rng(i).integers(0, 256, (200 + 11 * i, 161, 3), dtype=np.uint8)
        Image.fromarray(noise).save(
            photos / f"{i}.jpg", quality=60, subsampling=i % 2 * 2, exif=exif(6 if i == 7 else 1)
        )
    stoker.convert(photos.parent, tmp_path / "out", restarts=True, shards=1)
    return stoker.open(tmp_path / "out")


def images(path: Path, size: int) -> list[npt.NDArray[np.uint8]]:
    """The images of each batch of an epoch: crops of a tenth to a third of the area."""
    crop = RandomResizedCrop(size, scale=(0.1, 0.33))
    with stoker.ImageLoader(path, batch_size=4, transforms=[crop], engine="native", seed=3) as loader:
        return [batch[0].copy() for batch in loader]


@pytest.mark.parametrize("size", [96, 8])
def test_bytes_that_are_not_asked_for_are_not_looked_at(
    dataset: stoker.Dataset, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    asked: list[ByteRanges] = []

    def record(*arguments: Any) -> ByteRanges:
        asked.append(needed_bytes(*arguments))
        return asked[-1]

    # What a process asks the kernel to read is seen only in the kernel.
    monkeypatch.setattr(engine, "needed_bytes", record)
    expected = images(dataset.path, size)
    shard = next(dataset.path.glob("*.tfrecord"))
    data = np.fromfile(shard, np.uint8)
    asked_alone = np.zeros_like(data)
    for ranges in asked:
        for offset, length in zip(ranges.offset, ranges.length, strict=True):
            asked_alone[offset : offset + length] = data[offset : offset + length]
    asked_alone.tofile(shard)
    for batch, same in zip(images(dataset.path, size), expected, strict=True):
        np.testing.assert_array_equal(batch, same)
    share = np.concatenate([ranges.length for ranges in asked[:2]]).sum() / dataset.column("length").sum()
    assert 0.3 < share < 0.85


def test_payloads_without_bands_are_asked_for_whole(dataset: stoker.Dataset) -> None:
    samples = dataset.samples(np.arange(8))
    whole = needed_bytes(samples, ())
    assert whole.offset is samples.offset
    assert whole.length is samples.length
