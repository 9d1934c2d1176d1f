"""Tests of the command ``stoker convert``."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import stoker

RunMain = Callable[..., str]


def test_convert_prints_what_it_wrote_and_skipped(run_main: RunMain, photos: Path, tmp_path: Path) -> None:
    output = run_main("convert", photos, tmp_path / "shards", "--format", "lmdb", "--seed", 3)
    assert "skipped 1: not an image" in output
    assert "6 images" in output
    assert str(tmp_path / "shards") in output
    assert "good: 6 samples" in run_main("verify", tmp_path / "shards", "--decode")
    output = run_main("info", tmp_path / "shards")
    assert "lmdb" in output
    assert "seed=3" in output
    assert "Normalize" not in output


def test_convert_divides_images_into_splits(run_main: RunMain, photos: Path, tmp_path: Path) -> None:
    run_main("convert", photos, tmp_path / "shards", "--val", "34%")
    assert [len(stoker.open(tmp_path / "shards" / split)) for split in ("train", "val")] == [4, 2]


def test_convert_takes_the_classes_of_another_dataset(
    run_main: RunMain, photos: Path, tmp_path: Path
) -> None:
    run_main("convert", photos, tmp_path / "train")
    shutil.rmtree(photos / "a")
    run_main("convert", photos, tmp_path / "val", "--classes", tmp_path / "train")
    assert set(stoker.open(tmp_path / "val").labels.tolist()) == {1}
    assert "not among the 2 given: b" in run_main(
        "convert", photos, tmp_path / "few", "--classes", "a,c", status=1
    )


def test_convert_skips_images_of_more_pixels(run_main: RunMain, photos: Path, tmp_path: Path) -> None:
    output = run_main("convert", photos, tmp_path / "shards", "--max-pixels", 5, status=1)
    assert "too many pixels" in output


def test_convert_warns_of_splits_that_look_like_classes(
    run_main: RunMain, photos: Path, tmp_path: Path
) -> None:
    for year in ("", "2017"):
        source = tmp_path / f"all{year}"
        for split in ("train", "val"):
            shutil.copytree(photos, source / f"{split}{year}")
        output = run_main("convert", source, tmp_path / f"shards{year}")
        assert f"train{year} and val{year} are in the names of the classes" in output
    assert "names of the classes" not in run_main("convert", photos, tmp_path / "other")


def test_the_error_of_a_conversion_is_one_line_and_a_hint(
    run_main: RunMain, photos: Path, tmp_path: Path
) -> None:
    run_main("convert", photos, tmp_path / "shards")
    assert "already converted by the same command: 6 images" in run_main(
        "convert", photos, tmp_path / "shards"
    )
    again = run_main("convert", photos, tmp_path / "shards", "--seed", 1, status=1)
    assert again.splitlines() == [
        f"error: there is a dataset already (path '{tmp_path / 'shards'}')",
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
