"""bfloat16 in the upper half of a float32, and files that change under a dataset."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.shards import write_shards

import stoker
from stoker.augment import CenterCrop, reference
from stoker.errors import DatasetError, StaleIndexError
from stoker.formats.dataset.dataset import Dataset
from stoker.pipeline.engines.base import to_bfloat16


def test_bfloat16_is_rounded_to_nearest_even() -> None:
    random = np.random.default_rng(0).normal(0, 3, 10_000).astype(np.float32)
    ties = (np.arange(0x3F80_0000, 0x3F90_0000, 0x8000, dtype=np.uint32)).view(np.float32)
    values = np.concatenate([random, ties, -ties])
    expected = reference.convert(values.astype(np.float64), "bfloat16")
    assert np.array_equal(to_bfloat16(values), expected)
    errors = np.abs((expected.astype(np.uint32) << 16).view(np.float32) / values - 1)
    assert errors.max() <= 2**-8
    last_bits = expected[len(random) :] & 1
    assert not last_bits[1::2].any(), "a tie goes to the even neighbour"


def load_text(dataset: Dataset) -> object:
    return stoker.TextLoader(dataset, batch_size=2, fields=("q",))


def load_images(engine: str) -> Callable[[Dataset], object]:
    return lambda dataset: stoker.ImageLoader(
        dataset, batch_size=2, transforms=[CenterCrop(8)], engine=engine
    )


@pytest.mark.parametrize("engine", ["native", "reference", None])
def test_a_file_that_changed_after_its_dataset_was_opened_is_refused(
    engine: str | None, tmp_path: Path, make_dataset: Callable[..., Path]
) -> None:
    dataset = stoker.open(make_dataset() if engine else write_shards(tmp_path))
    load = load_images(engine) if engine else load_text
    file = dataset.data_files[0]
    data = file.read_bytes()
    file.write_bytes(data + b"x")
    with pytest.raises(StaleIndexError, match="bytes and should have"):
        load(dataset)
    file.unlink()
    with pytest.raises(DatasetError, match="No such file"):
        load(dataset)
