"""Data files that differ from the dataset's manifest: loaders and engines raise the same errors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from helpers.shards import write_shards

import stoker
from stoker.augment import CenterCrop
from stoker.errors import DatasetError, StaleIndexError
from stoker.formats.dataset.dataset import Dataset
from stoker.pipeline.engines.shards import open_shards


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    path = tmp_path / "shard"
    path.write_bytes(b"0123")
    return path


@pytest.mark.parametrize("mapped", [True, False])
def test_bytes_are_read_as_they_were_written(shard: Path, mapped: bool) -> None:
    with closing(open_shards([shard], [4], mapped=mapped)) as shards:
        assert bytes(shards.view(0, 1, 2)) == b"12"


@pytest.mark.parametrize("mapped", [True, False])
def test_a_missing_file_and_one_of_another_size_are_refused(shard: Path, mapped: bool) -> None:
    with pytest.raises(StaleIndexError, match="4 bytes and should have 5"):
        open_shards([shard], [5], mapped=mapped)
    with pytest.raises(DatasetError, match="No such file"):
        open_shards([f"{shard}-gone"], [4], mapped=mapped)


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
