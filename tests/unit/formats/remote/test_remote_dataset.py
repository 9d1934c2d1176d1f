"""Manifests of datasets at URLs: the names that their shards may have."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker.errors import DatasetError


@pytest.fixture(autouse=True)
def _dataset_at_url(make_dataset: Callable[..., Path], memory: Any) -> None:
    """A dataset of one shard at ``memory://bucket/out``."""
    folder = make_dataset(shards=1)
    memory.put(str(folder), "/bucket/out", recursive=True)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("../x.tfrecord", "lie elsewhere"),
        ("/x.tfrecord", "lie elsewhere"),
        ("a/../../x.tfrecord", "lie elsewhere"),
        ("memory://bucket/out/shard-00000-of-00001.tfrecord", "lie elsewhere"),
        (".blocks", "name of another file"),
        ("./index.arrow", "name of another file"),
    ],
)
def test_a_shard_outside_of_the_datasets_folder_is_refused(
    memory: Any, tmp_path: Path, path: str, message: str
) -> None:
    manifest = json.loads(memory.cat_file("/bucket/out/dataset.json"))
    manifest["shards"][0]["path"] = path
    memory.pipe("/bucket/out/dataset.json", json.dumps(manifest).encode())
    with pytest.raises(DatasetError, match=message) as caught:
        stoker.open("memory://bucket/out", cache=tmp_path / "cache")
    assert caught.value.shard == "shard-00000-of-00001.tfrecord"
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("name", ["index.arrow", "dataset.json", "tokenizer.json", ".blocks"])
def test_a_shard_with_the_name_of_another_file_is_refused(memory: Any, tmp_path: Path, name: str) -> None:
    manifest = json.loads(memory.cat_file("/bucket/out/dataset.json"))
    shard = manifest["shards"][0]
    shard["path"], shard["name"] = shard["name"], name
    memory.pipe("/bucket/out/dataset.json", json.dumps(manifest).encode())
    with pytest.raises(DatasetError, match="name of another file"):
        stoker.open("memory://bucket/out", cache=tmp_path / "cache")
