"""Tests of the commands ``stoker convert`` and ``stoker stage``."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.command_line import run

import stoker
from stoker.errors import ConfigError, DatasetError, StorageError

RunMain = Callable[..., str]


def test_convert_prints_what_it_wrote_and_skipped(run_main: RunMain, photos: Path, tmp_path: Path) -> None:
    shards = tmp_path / "shards"
    output = run_main("convert", photos, shards, "--format", "lmdb", "--seed", 3)
    assert "skipped 1: not an image" in output
    assert "6 images" in output
    assert str(shards) in output
    assert "good: 6 samples" in run_main("verify", shards, "--decode")
    output = run_main("info", shards)
    assert "lmdb" in output
    assert "seed=3" in output
    assert "too many pixels" in run_main("convert", photos, tmp_path / "x", "--max-pixels", 5, status=1)


def test_convert_divides_images_and_takes_classes(run_main: RunMain, photos: Path, tmp_path: Path) -> None:
    run_main("convert", photos, tmp_path / "split", "--val", "34%")
    assert [len(stoker.open(tmp_path / "split" / split)) for split in ("train", "val")] == [4, 2]
    run_main("convert", photos, tmp_path / "train")
    shutil.rmtree(photos / "a")
    run_main("convert", photos, tmp_path / "val", "--classes", tmp_path / "train")
    assert set(stoker.open(tmp_path / "val").labels.tolist()) == {1}
    output = run_main("convert", photos, tmp_path / "few", "--classes", "a,c", status=1)
    assert "not among the 2 given: b" in output


def test_the_error_of_a_conversion_is_one_line_and_a_hint(
    run_main: RunMain, photos: Path, shards: Path
) -> None:
    assert "already converted by the same command: 6 images" in run_main("convert", photos, shards)
    again = run_main("convert", photos, shards, "--seed", 1, status=1)
    assert again.splitlines() == [
        f"error: there is a dataset already (path '{shards}')",
        "Name another target, or replace it with overwrite=True. On the command line: --overwrite.",
    ]


def test_convert_adds_restart_markers_and_skips_images_without(
    run_main: RunMain, photos: Path, tmp_path: Path
) -> None:
    damaged = (photos / "a" / "0.jpg").read_bytes()
    (photos / "a" / "damaged.jpg").write_bytes(damaged[: len(damaged) // 2] + b"\xff\xd9")
    output = run_main("convert", photos, tmp_path / "shards", "--restarts")
    assert "skipped 1: restart markers (damaged, or of a kind that libjpeg-turbo cannot copy)" in output
    assert re.search("restart markers +in 6 of 7 images", run_main("info", tmp_path / "shards"))
    run_main("convert", photos, tmp_path / "resized", "--resize", "shorter=8", "--no-restarts")
    assert "restart markers" not in run_main("info", tmp_path / "resized")


def test_convert_takes_urls(photos: Path, tmp_path: Path) -> None:
    output = run("convert", f"file://{photos}", f"file://{tmp_path}/shards")
    assert "6 images" in output
    assert f"file://{tmp_path}/shards" in output
    assert stoker.open(tmp_path / "shards").classes == ("a", "b")


def test_stage_copies_a_dataset_once_within_its_limit(
    make_dataset: Callable[..., Path], tmp_path: Path
) -> None:
    source = make_dataset()
    output = run("stage", f"file://{source}", tmp_path / "here", "--limit", "1GB", "--connections", 2)
    assert re.search(r" of .*/s", output)
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


def test_opening_a_url_without_a_cache_advises_staging() -> None:
    with pytest.raises(DatasetError, match="stoker stage") as caught:
        stoker.open("s3://bucket/shards")
    assert caught.value.path == "s3://bucket/shards"
