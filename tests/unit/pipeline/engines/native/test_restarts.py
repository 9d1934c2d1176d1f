"""Crops of JPEGs with restart markers in the native engine: it looks at what it needs, and checks that."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.marked_images import COUNT, work_of

from stoker import _native
from stoker.augment import CenterCrop, RandomAffine, RandomHorizontalFlip, RandomResizedCrop, Resize
from stoker.augment.params import ImageParams
from stoker.formats.codecs.codec import Codec
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.dataset.index import Samples
from stoker.pipeline.engines.base import EngineSettings, ImageFormat, Result, Status, Work
from stoker.pipeline.engines.native.engine import NativeEngine

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


def run(files: list[str], sizes: Any, batches: list[Work], **options: Any) -> list[Result]:
    """The results of batches over these data files, made one after the other."""
    settings: dict[str, Any] = {"num_threads": 2, "max_pixels": 10**6, **options}
    results = []
    with closing(
        NativeEngine(EngineSettings(files, sizes, ImageFormat("uint8", "NHWC"), **settings))
    ) as engine:
        for batch in batches:
            engine.submit(batch)
            results.append(engine.collect())
    return results


def images(dataset: Dataset, transforms: Any, **options: Any) -> np.ndarray:
    batches = [work_of(dataset, transforms, seed) for seed in range(4)]
    results = run([str(file) for file in dataset.data_files], dataset.data_sizes, batches, **options)
    assert not any(result.status.any() for result in results)
    return np.stack([result.images for result in results])


@pytest.mark.parametrize("options", [{}, {"verify": False}, {"mapped": False}, {"exact": True}], ids=str)
@pytest.mark.parametrize(
    "transforms",
    [
        [RandomResizedCrop(24, scale=(0.05, 0.4)), RandomHorizontalFlip()],
        [RandomResizedCrop(150, scale=(0.5, 1))],
        [Resize((30, 40))],
        [CenterCrop(90), RandomAffine(20, scale=(2, 3))],
    ],
    ids=["small crops", "large crops", "whole", "warp"],
)
def test_restart_markers_change_no_image(
    datasets: dict[bool, Dataset], transforms: Any, options: dict[str, Any]
) -> None:
    marked, plain = (images(datasets[restarts], transforms, **options) for restarts in (True, False))
    np.testing.assert_array_equal(marked, plain)


def crop_of(samples: Samples, crop: tuple[int, int, int, int]) -> Work:
    """Return a batch that shows a crop of each sample, its pixels unchanged."""
    n, (top, left, height, width) = len(samples), crop
    params = ImageParams(
        size=(height, width),
        crop=np.tile(np.int32([crop]), (n, 1)),
        region=np.tile(np.float64([[top, left, top + height, left + width]]), (n, 1)),
        dest=np.tile(np.int32([[0, 0, height, width]]), (n, 1)),
        flip=np.zeros((n, 2), bool),
        color=np.tile(np.eye(3, 4, dtype=np.float32), (n, 1, 1)),
        fill=np.zeros(3, np.uint8),
    )
    return Work(samples, params)


class TestDamage:
    """Bytes that a crop does not need are neither checked nor looked at; all others are."""

    @pytest.fixture
    def sample(self, datasets: dict[bool, Dataset]) -> Samples:
        return datasets[True].samples([0])

    def statuses(
        self, datasets: dict[bool, Dataset], sample: Samples, at: int, folder: Path
    ) -> list[tuple[int, Status]]:
        """Return the first row and the status of crops after the byte ``at`` of the payload has changed."""
        (file,) = datasets[True].data_files
        data = bytearray(file.read_bytes())
        data[int(sample.offset[0]) + at] ^= 1
        (folder / "shard").write_bytes(data)
        tops = range(0, int(sample.height[0]) - 8, 8)
        batches = [crop_of(sample, (top, 40, 8, 8)) for top in tops]
        results = run([str(folder / "shard")], [len(data)], batches)
        return [(top, Status(int(result.status[0]))) for top, result in zip(tops, results, strict=True)]

    @pytest.mark.skipif(_native.jpeg_decoder() != "stoker", reason="libjpeg-turbo looks at all of an image")
    def test_damage_in_one_band_spoils_only_the_crops_that_show_the_band(
        self, datasets: dict[bool, Dataset], sample: Samples, tmp_path: Path
    ) -> None:
        assert sample.bands is not None
        starts = [start for start in sample.bands[0, 2::2].tolist() if start]
        assert len(starts) >= 3
        found = self.statuses(datasets, sample, starts[1] + 100, tmp_path)
        bad = [top for top, status in found if status == Status.CHECKSUM_MISMATCH]
        assert {status for _, status in found} == {Status.OK, Status.CHECKSUM_MISMATCH}
        assert bad == [top for top, _ in found if bad[0] <= top <= bad[-1]]
        assert 0 < bad[0] < bad[-1] < found[-1][0]

    def test_damage_in_the_headers_spoils_every_crop(
        self, datasets: dict[bool, Dataset], sample: Samples, tmp_path: Path
    ) -> None:
        found = self.statuses(datasets, sample, 30, tmp_path)
        assert {status for _, status in found} == {Status.CHECKSUM_MISMATCH}


@pytest.mark.parametrize("number", range(12))
def test_wrong_bands_of_an_index_change_no_pixel(datasets: dict[bool, Dataset], number: int) -> None:
    dataset = datasets[True]
    samples = dataset.samples(np.arange(COUNT))
    assert samples.bands is not None
    bands = samples.bands.copy()
    bands[:, number] += 1
    wrong = replace(samples, bands=bands)
    files = [str(file) for file in dataset.data_files]
    batches = [crop_of(rows, (100, 50, 60, 70)) for rows in (samples, wrong)]
    right, result = run(files, dataset.data_sizes, batches)
    assert not right.status.any()
    assert not result.status.any()
    np.testing.assert_array_equal(result.images, right.images)


def test_bands_of_a_payload_that_is_no_jpeg_are_ignored(datasets: dict[bool, Dataset]) -> None:
    dataset = datasets[True]
    samples = dataset.samples(np.arange(COUNT))
    wrong = replace(samples, codec=np.full(COUNT, Codec.RAW, np.uint8), crc=samples.crc + 1)
    files = [str(file) for file in dataset.data_files]
    (result,) = run(files, dataset.data_sizes, [crop_of(wrong, (0, 0, 9, 9))])
    assert set(result.status.tolist()) == {Status.CHECKSUM_MISMATCH}
