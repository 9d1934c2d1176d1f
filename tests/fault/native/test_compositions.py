"""Images of several samples in the native engine: damaged indexes, failing steps and wrong arguments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.payloads import GOOD, OUT, PAYLOAD_SIZE, Dataset

from stoker import _native
from stoker.augment.params import WHOLE_SHARE, Composition
from stoker.pipeline.engines.base import Status, pack
from stoker.pipeline.engines.native import pack_images

N = len(GOOD)


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """Three payloads, drawn one above the other on one image."""
    dataset = Dataset(tmp_path, GOOD)
    dataset.params = replace(
        dataset.params,
        composition=Composition(
            image=np.zeros(N, np.int32),
            shown=np.ones(N, bool),
            layer=np.zeros(N, np.uint8),
            share=np.full(N, WHOLE_SHARE, np.int32),
            mask=np.full(N, -1, np.int32),
        ),
    )
    return dataset


def submit(
    dataset: Dataset, columns: dict[str, Any], **options: Any
) -> tuple[_native.Job, np.ndarray[Any, Any]]:
    """The job of one image, with columns added or replaced, and the status of its parts."""
    status = np.empty(N, np.uint8)
    shards = _native.Shards([str(dataset.path)], [dataset.path.stat().st_size])
    arguments = pack_images(dataset.params, np.empty((1, *OUT, 3), np.uint8), 1, exact=False)
    for name, value in columns.items():
        arguments["composition" if name.startswith("composition.") else "params"][name] = value
    samples = pack(_native.SAMPLE_COLUMNS, dataset.samples)
    common: dict[str, Any] = {"status": status, "max_pixels": 10**6, "verify": True}
    return _native.Pool(1).submit(shards, samples, **arguments, **common, **options), status


def test_a_payload_with_two_sizes_in_the_index_is_a_size_mismatch(dataset: Dataset) -> None:
    samples, params = dataset.samples, dataset.params
    for column in (samples.offset, samples.length, samples.crc):
        column[1] = column[0]
    samples.height[1], samples.width[1] = 2 * PAYLOAD_SIZE[0], 2 * PAYLOAD_SIZE[1]
    params.crop[1] = PAYLOAD_SIZE[0], 0, PAYLOAD_SIZE[0], 2 * PAYLOAD_SIZE[1]
    params.region[1] = PAYLOAD_SIZE[0], 0, 2 * PAYLOAD_SIZE[0], 2 * PAYLOAD_SIZE[1]
    result = dataset.execute(threads=1, cached_samples=4, exact=True)
    assert result.status.tolist() == [Status.OK, Status.SIZE_MISMATCH, Status.OK]
    assert not result.images.any()


def test_a_last_step_that_fails_is_the_status_of_all_parts(dataset: Dataset) -> None:
    steps = _native.PythonSteps(np.ones(N, bool), lambda i, pixels: pixels[1:].copy(), _native.BufferPool(1))
    job, status = submit(dataset, {}, last_steps=steps, start=False)
    job.work()
    assert job.done()
    assert status.tolist() == [Status.READ_ERROR] * N
    assert "changed the shape" in job.reason(0)


_ROWS, _COLUMNS = (np.tile(np.arange(side, dtype=np.int32), (N, 1)) for side in OUT)
_SIZES = np.tile(np.int32(OUT), (N, 1))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"composition.mask": np.full(N, 2**31 - 1, np.int32)}, "mask must be -1 or the number of a mask"),
        ({"composition.layer": np.ones(N, np.uint8)}, "must be of layer 0"),
        ({"border.size": _SIZES, "border.rows": _ROWS, "border.columns": _COLUMNS}, "have no border"),
        ({"image_size": _SIZES}, "one size"),
    ],
)
def test_wrong_compositions_are_refused(dataset: Dataset, columns: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        submit(dataset, columns)


def test_a_step_of_several_images_needs_one_size(dataset: Dataset) -> None:
    memory = _native.BufferPool(1)
    steps = _native.PythonSteps(np.ones(N, bool), lambda rows, pixels: pixels, memory, takes_several=True)
    with pytest.raises(ValueError, match="images of one size"):
        submit(dataset, {"image_size": _SIZES}, last_steps=steps, start=False)
