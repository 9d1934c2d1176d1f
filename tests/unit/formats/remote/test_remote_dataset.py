"""Manifests of datasets at URLs: the names that their shards may have."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker.errors import DatasetError
from stoker.formats.remote.stage import stage


@pytest.fixture(autouse=True)
def _dataset_at_url(make_dataset: Callable[..., Path], memory: Any) -> None:
    """A dataset of one shard at ``memory://bucket/out``."""
    folder = make_dataset(shards=1)
    memory.put(str(folder), "/bucket/out", recursive=True)


@pytest.mark.parametrize("umask", [0o022, 0o007])
def test_a_staged_dataset_has_the_rights_that_the_umask_leaves(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        stage("memory://bucket/out", tmp_path / "copy")
    finally:
        os.umask(before)
    files = [file for file in (tmp_path / "copy").iterdir() if file.suffix in (".arrow", ".tfrecord")]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o666 & ~umask}


@pytest.mark.parametrize(
    ("name", "path", "message"),
    [
        (None, "../x.tfrecord", "lie elsewhere"),
        (None, "/x.tfrecord", "lie elsewhere"),
        (None, "a/../../x.tfrecord", "lie elsewhere"),
        (None, "memory://bucket/out/shard-00000-of-00001.tfrecord", "lie elsewhere"),
        (None, ".blocks", "name of another file"),
        (None, "./index.arrow", "name of another file"),
        *((name, None, "name of another file") for name in ("index.arrow", "tokenizer.json", ".blocks")),
    ],
)
def test_a_shard_outside_of_the_folder_or_with_the_name_of_another_file_is_refused(
    memory: Any, tmp_path: Path, name: str | None, path: str | None, message: str
) -> None:
    manifest = json.loads(memory.cat_file("/bucket/out/dataset.json"))
    shard = manifest["shards"][0]
    shard["path"], shard["name"] = path or shard["name"], name or shard["name"]
    memory.pipe("/bucket/out/dataset.json", json.dumps(manifest).encode())
    with pytest.raises(DatasetError, match=message) as caught:
        stoker.open("memory://bucket/out", cache=tmp_path / "cache")
    assert caught.value.shard == shard["name"] or name == "index.arrow"
    assert not (tmp_path / "cache").exists()
