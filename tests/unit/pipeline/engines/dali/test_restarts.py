"""Crops of JPEGs with restart markers: DALI gets the intervals that it needs, and makes the same images."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("nvidia.dali")


from helpers.data.marked_images import COUNT, PNG, TURNED, work_of
from helpers.engine_settings import settings_of
from PIL import Image

from stoker.augment import (
    CenterCrop,
    RandomAffine,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
)
from stoker.formats.dataset.dataset import Dataset
from stoker.pipeline.engines.base import EngineSettings, ImageFormat, Status
from stoker.pipeline.engines.dali import DaliEngine
from stoker.pipeline.engines.dali.payloads import PayloadReader

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

CROPS = [RandomResizedCrop(24, scale=(0.05, 0.4)), RandomHorizontalFlip(), RandomVerticalFlip()]


def images(dataset: Dataset, transforms: Any) -> np.ndarray:
    engine = DaliEngine(
        settings_of(dataset, ImageFormat("uint8", "NHWC"), batch_size=COUNT, max_pixels=10**6)
    )
    found = []
    for seed in range(3):
        engine.submit(work_of(dataset, transforms, seed))
        result = engine.collect()
        assert not result.status.any()
        found.append(np.array(result.images))
    engine.close()
    return np.stack(found)


@pytest.mark.parametrize(
    "transforms",
    [CROPS, [CenterCrop(31)], [Resize((30, 30))], [CenterCrop(90), RandomAffine(20, scale=(2, 3))]],
    ids=["small crops", "centre", "whole", "warp"],
)
def test_the_images_are_the_same(datasets: dict[bool, Dataset], transforms: Any) -> None:
    marked, plain = (images(datasets[restarts], transforms) for restarts in (True, False))
    np.testing.assert_array_equal(marked, plain)


def reader(dataset: Dataset, files: list[str]) -> PayloadReader:
    return PayloadReader(EngineSettings(files, dataset.data_sizes, ImageFormat(), max_pixels=10**6))


def test_payloads_are_smaller(datasets: dict[bool, Dataset]) -> None:
    dataset = datasets[True]
    batch = work_of(dataset, CROPS, 0)
    opened = reader(dataset, [str(file) for file in dataset.data_files])
    crops, whole = (opened.read(batch.samples, given) for given in (batch.params.crop, None))
    opened.close()
    assert whole.origin is not None
    assert not whole.origin.any()
    for number, (some, every) in enumerate(zip(crops.encoded(), whole.encoded(), strict=True)):
        is_spliced = number not in (TURNED, PNG)
        assert (len(some) < len(every)) == is_spliced
        if is_spliced:
            with Image.open(io.BytesIO(some)) as image:
                assert min(image.size) >= 1


def test_damage_counts_where_the_crop_needs_it(datasets: dict[bool, Dataset], tmp_path: Path) -> None:
    dataset = datasets[True]
    samples = dataset.samples(np.zeros(1, np.int64))
    assert samples.bands is not None
    (file,) = dataset.data_files
    data = bytearray(file.read_bytes())
    data[int(samples.offset[0] + samples.length[0]) - 10] ^= 1  # in the last rows
    (tmp_path / "shard").write_bytes(data)
    opened = reader(dataset, [str(tmp_path / "shard")])
    height, width = int(samples.height[0]), int(samples.width[0])
    for top, status in ((0, Status.OK), (height - 9, Status.CHECKSUM_MISMATCH)):
        found = opened.read(samples, np.array([[top, 0, 9, 9]], np.int32))
        assert found.status().tolist() == [status]
    found = opened.read(samples, np.array([[0, 0, height, width]], np.int32))
    assert found.status().tolist() == [Status.CHECKSUM_MISMATCH]
    opened.close()


def test_an_image_of_another_size_than_the_index_says(datasets: dict[bool, Dataset]) -> None:
    dataset = datasets[True]
    samples = dataset.samples(np.zeros(1, np.int64))
    samples.height[0] += 1
    opened = reader(dataset, [str(file) for file in dataset.data_files])
    found = opened.read(samples, np.array([[0, 0, 9, 9]], np.int32))
    opened.close()
    assert found.status().tolist() == [Status.SIZE_MISMATCH]
