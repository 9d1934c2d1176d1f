"""Crops of JPEGs with restart markers: DALI gets the intervals that it needs, and makes the same images."""

from __future__ import annotations

import io
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("nvidia.dali")


from helpers.data.marked_images import COUNT, PNG, TURNED, work_of
from helpers.loaders.engine_settings import settings_of
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
from stoker.formats.dataset.index import Samples
from stoker.pipeline.engines.base import EngineSettings, ImageFormat, Status
from stoker.pipeline.engines.dali.engine import DaliEngine
from stoker.pipeline.engines.dali.payloads import PayloadReader, Payloads

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

CROPS = [RandomResizedCrop(24, scale=(0.05, 0.4)), RandomHorizontalFlip(), RandomVerticalFlip()]


def images(dataset: Dataset, transforms: Any) -> np.ndarray:
    settings = settings_of(dataset, ImageFormat("uint8", "NHWC"), batch_size=COUNT, max_pixels=10**6)
    batches = []
    with closing(DaliEngine(settings)) as engine:
        for seed in range(3):
            engine.submit(work_of(dataset, transforms, seed))
            result = engine.collect()
            assert not result.status.any()
            batches.append(np.array(result.images))
    return np.stack(batches)


@pytest.mark.parametrize(
    "transforms",
    [CROPS, [CenterCrop(31)], [Resize((30, 30))], [CenterCrop(90), RandomAffine(20, scale=(2, 3))]],
    ids=["small crops", "centre", "whole", "warp"],
)
def test_restart_markers_change_no_image(datasets: dict[bool, Dataset], transforms: Any) -> None:
    marked, plain = (images(datasets[restarts], transforms) for restarts in (True, False))
    np.testing.assert_array_equal(marked, plain)


def read(dataset: Dataset, samples: Samples, crops: Any, file: Path | None = None) -> Payloads:
    """The payloads of samples, from the shard of the dataset or from another file."""
    files = [file] if file else dataset.data_files
    settings = EngineSettings(files, dataset.data_sizes, ImageFormat(), max_pixels=10**6)
    with closing(PayloadReader(settings)) as reader:
        return reader.read(samples, None if crops is None else np.array(crops, np.int32))


def test_the_payload_of_a_crop_is_a_shorter_jpeg(datasets: dict[bool, Dataset]) -> None:
    dataset = datasets[True]
    batch = work_of(dataset, CROPS, 0)
    crops, whole = (read(dataset, batch.samples, boxes) for boxes in (batch.params.crop, None))
    assert whole.origin is not None
    assert not whole.origin.any()
    for number, (crop, payload) in enumerate(zip(crops.encoded(), whole.encoded(), strict=True)):
        is_spliced = number not in (TURNED, PNG)
        assert (len(crop) < len(payload)) == is_spliced
        if is_spliced:
            with Image.open(io.BytesIO(crop)) as image:
                assert min(image.size) >= 1


def test_damage_is_found_only_if_the_crop_needs_the_damaged_bytes(
    datasets: dict[bool, Dataset], tmp_path: Path
) -> None:
    dataset = datasets[True]
    samples = dataset.samples(np.zeros(1, np.int64))
    assert samples.bands is not None
    (file,) = dataset.data_files
    data = bytearray(file.read_bytes())
    data[int(samples.offset[0] + samples.length[0]) - 10] ^= 1  # in the last rows
    (tmp_path / "shard").write_bytes(data)
    height, width = int(samples.height[0]), int(samples.width[0])
    for crop, status in (
        ((0, 0, 9, 9), Status.OK),
        ((height - 9, 0, 9, 9), Status.CHECKSUM_MISMATCH),
        ((0, 0, height, width), Status.CHECKSUM_MISMATCH),
    ):
        assert read(dataset, samples, [crop], tmp_path / "shard").status().tolist() == [status]


def test_an_image_of_another_size_than_the_index_says_is_bad(datasets: dict[bool, Dataset]) -> None:
    dataset = datasets[True]
    samples = dataset.samples(np.zeros(1, np.int64))
    samples.height[0] += 1
    assert read(dataset, samples, [[0, 0, 9, 9]]).status().tolist() == [Status.SIZE_MISMATCH]
