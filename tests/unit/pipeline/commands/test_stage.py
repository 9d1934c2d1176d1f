"""Tests of the commands with URLs and network file systems."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.command_line import run

import stoker
from stoker.errors import ConfigError, DatasetError, StorageError


def test_stage_copies_a_dataset_once_within_its_limit(
    make_dataset: Callable[..., Path], tmp_path: Path
) -> None:
    source = make_dataset()
    output = run("stage", f"file://{source}", tmp_path / "here", "--limit", "1GB", "--connections", 2)
    assert "of" in output
    assert "/s" in output
    assert str(tmp_path / "here") in output
    assert len(stoker.open(tmp_path / "here")) == 6
    assert "0 bytes of" in run("stage", f"file://{source}", tmp_path / "here")
    with pytest.raises(ConfigError, match="0 of its 2 shards would fit"):
        run("stage", source, tmp_path / "other", "--limit", "1")


@pytest.mark.parametrize("address", ["", "file://"])
def test_stage_does_not_wait_for_a_pipe(
    make_dataset: Callable[..., Path], tmp_path: Path, address: str
) -> None:
    source = make_dataset()
    shard = stoker.open(source).data_files[1]
    shard.unlink()
    os.mkfifo(shard)
    with pytest.raises(StorageError, match="not a regular file") as caught:
        run("stage", f"{address}{source}", tmp_path / "here")
    assert str(caught.value.path).endswith(shard.name)
    assert not (tmp_path / "here" / "dataset.json").exists()


def test_convert_takes_urls(tmp_path: Path, make_jpeg: Callable[..., bytes]) -> None:
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    (tmp_path / "photos" / "cat" / "0.jpg").write_bytes(make_jpeg(0))
    output = run("convert", f"file://{tmp_path}/photos", f"file://{tmp_path}/shards")
    assert "1 image" in output
    assert f"file://{tmp_path}/shards" in output
    assert stoker.open(tmp_path / "shards").classes == ("cat",)


def test_opening_a_url_without_a_cache_advises_staging() -> None:
    with pytest.raises(DatasetError, match="stoker stage") as caught:
        stoker.open("s3://bucket/shards")
    assert caught.value.path == "s3://bucket/shards"
