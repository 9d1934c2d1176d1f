"""Tests of the commands for datasets of images, and of the command line itself."""

import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import typer
from helpers.data.annotations.annotated_folders import FOLDERS
from PIL import Image

import stoker
from stoker import _native
from stoker.__main__ import main as script
from stoker.augment import Resize
from stoker.formats.codecs.codec import Codec
from stoker.pipeline.commands.app import app, main
from stoker.pipeline.commands.verify import verify

Run = Callable[..., str]


def test_a_folder_without_a_conversion(
    run: Run, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "cache"))
    said = run("info", photos)
    assert re.search(r"files +6, ", said)
    assert re.search(r"stoker convert --restarts +[\d,]+ +\d", said)
    assert str(photos) in run("cache")
    assert "removed 1 " in run("cache", photos, "--clear")
    assert "no index" in run("cache")
    said = run("index", photos, "--into", tmp_path / "index")
    assert "skipped 1: not an image" in said
    assert "6 images in place" in said
    assert "good: 6 samples" in run("verify", tmp_path / "index", "--decode")
    run("index", photos, "--into", tmp_path / "unlabelled", "--unlabelled", "--format", "auto")
    assert "label" not in stoker.open(tmp_path / "unlabelled").columns
    assert "one folder" in run("index", photos, photos, "--into", tmp_path / "x", "--unlabelled", status=1)
    run("convert", photos, tmp_path / "converted", "--unlabelled")
    assert stoker.ImageLoader(tmp_path / "converted", batch_size=1, transforms=[Resize((8, 8))]).columns == (
        "image",
    )


def test_verify_ends_with_status_1_after_a_problem(run: Run, photos: Path, tmp_path: Path) -> None:
    run("convert", photos, tmp_path / "shards")
    data_file = stoker.open(tmp_path / "shards").data_files[0]
    data = bytearray(data_file.read_bytes())
    data[len(data) // 2] ^= 1
    data_file.write_bytes(data)
    run("verify", tmp_path / "shards", status=1)


def test_info_of_pixels(run: Run, photos: Path, tmp_path: Path) -> None:
    run("convert", photos, tmp_path / "shards")
    assert "Normalize(mean=(" in run("info", tmp_path / "shards", "--pixels")
    said = run("info", tmp_path / "shards", "--mean-image", tmp_path / "mean.NPY")
    assert "Normalize(mean=(" in said
    assert np.load(tmp_path / "mean.NPY").shape == (256, 256, 3)
    run("info", tmp_path / "shards", "--mean-image", tmp_path / "mean.png")
    with Image.open(tmp_path / "mean.png") as image:
        assert image.size == (256, 256)


def test_info_for_programs(run: Run, photos: Path, tmp_path: Path) -> None:
    run("convert", photos, tmp_path / "shards", "--shards", 2)
    said = json.loads(run("info", tmp_path / "shards", "--json", "--pixels"))
    dataset = stoker.open(tmp_path / "shards")
    assert (said["samples"], said["shards"], said["bytes"]) == (6, 2, sum(dataset.data_sizes))
    assert said["classes"] == [{"name": "a", "samples": 3}, {"name": "b", "samples": 3}]
    assert said["encodings"] == {"JPEG": 6}
    assert said["skipped"] == {"not an image": 1}
    assert said["height"]["min"] == dataset.column("height").min()
    assert len(said["mean"]) == len(said["std"]) == 3


def test_verify_for_programs(
    run: Run, photos: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run("convert", photos, tmp_path / "shards")
    said = json.loads(run("verify", tmp_path / "shards", "--json"))
    assert (said["ok"], said["samples"], said["problems"]) == (True, 6, [])
    (tmp_path / "shards" / "index.arrow").unlink()
    with pytest.raises(typer.Exit) as ended:
        verify(str(tmp_path / "shards"), as_json=True)
    assert ended.value.exit_code == 1
    said = json.loads(capfd.readouterr().out)
    assert (said["ok"], said["found"]) == (False, 1)
    assert "index" in said["problems"][0]["message"]


def test_an_interrupt_while_the_command_line_is_imported_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted:
        def find_spec(self, name: str, *_: object) -> None:
            if name == main.__module__:
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, main.__module__)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        script()
    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "")


def test_the_module_is_the_command() -> None:
    ran = subprocess.run([sys.executable, "-m", "stoker", "--version"], capture_output=True, check=True)
    assert ran.stdout.decode().strip() == stoker.__version__


@pytest.mark.parametrize("name", ["mean.jpg", "nowhere/mean.png"])
def test_a_mean_image_that_cannot_be_written(run: Run, photos: Path, tmp_path: Path, name: str) -> None:
    run("convert", photos, tmp_path / "shards")
    assert "mean image" in run("info", tmp_path / "shards", "--mean-image", tmp_path / name, status=1)


def test_index(run: Run, photos: Path, tmp_path: Path) -> None:
    run("convert", photos, tmp_path / "shards")
    shard = stoker.open(tmp_path / "shards").data_files[0]
    assert "6 samples of 1 shard" in run("index", shard, "--into", tmp_path / "external")
    assert stoker.open(tmp_path / "external").classes == ("a", "b")
    said = run("index", shard, "--into", tmp_path / "unlabelled", "--label", "lable")
    assert "no labels: no record has 'lable'" in said
    assert "no labels" not in run("index", shard, "--into", tmp_path / "unwanted", "--label", "")


def test_names_outside_the_encoding_are_escaped(
    run: Run, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (photos / "a").rename(photos / "été")
    run("convert", photos, tmp_path / "shards")
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, "ascii", write_through=True))
    run("info", tmp_path / "shards")
    assert b"\\xe9t\\xe9" in printed.getvalue()


def test_control_characters_in_names_are_escaped(run: Run, photos: Path, tmp_path: Path) -> None:
    (photos / "a").rename(photos / "a\x1b]0;mine\x07")
    run("convert", photos, tmp_path / "shards")
    assert "a\\x1b]0;mine\\x07" in run("info", tmp_path / "shards")
    said = run("convert", photos, tmp_path / "other", "--classes", "x,y", status=1)
    assert "\x1b" not in said
    assert "a\\x1b]0;mine" in said


@pytest.mark.parametrize("command", ["convert", "convert-text", "stage"])
@pytest.mark.parametrize("empty", [0, 1])
def test_an_empty_path_is_not_the_current_folder(
    run: Run, photos: Path, command: str, empty: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(photos)
    before = sorted(photos.rglob("*"))
    paths = ["a", "new"]
    paths[empty] = ""
    assert f"{('source', 'target')[empty]} is empty" in run(command, *paths, status=1)
    assert sorted(photos.rglob("*")) == before


def test_an_empty_path_is_no_dataset(run: Run, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(photos)
    for command in ("info", "verify"):
        assert "dataset is empty" in run(command, "", status=1)
    assert "into is empty" in run("index", "x", "--into", "", status=1)
    assert "shard is empty" in run("index", "", "--into", "x", status=1)


def test_index_with_names_of_classes(run: Run, photos: Path, tmp_path: Path) -> None:
    run("convert", photos, tmp_path / "shards")
    shard = stoker.open(tmp_path / "shards").data_files[0]
    (tmp_path / "names.txt").write_text("sea\nland, flat\nair\n")
    run("index", shard, "--into", tmp_path / "file", "--classes", tmp_path / "names.txt")
    assert stoker.open(tmp_path / "file").classes == ("sea", "land, flat", "air")
    assert "land, flat" in run("info", tmp_path / "file")
    said = run("index", shard, "--into", tmp_path / "few", "--classes", "sea,", status=1)
    assert "label 1 has an empty name" in said
    (tmp_path / "names.txt").write_text("sea\n")
    said = run("index", shard, "--into", tmp_path / "few", "--classes", tmp_path / "names.txt", status=1)
    assert "the record has label 1, and 1 classes are named" in said
    assert not (tmp_path / "few" / "dataset.json").exists()


def test_errors_of_the_operating_system_are_one_line(run: Run, photos: Path, tmp_path: Path) -> None:
    run("convert", photos, tmp_path / "shards")
    shard = stoker.open(tmp_path / "shards").data_files[0]
    (tmp_path / "file").touch()
    said = run("index", shard, "--into", tmp_path / "file" / "in", status=1)
    assert said == f"error: Not a directory (path '{tmp_path / 'file' / 'in'}')\n"


def test_bench(run: Run, photos: Path, tmp_path: Path) -> None:
    run("convert", photos, tmp_path / "shards")
    target = tmp_path / "nowhere" / "result.json"
    said = run("bench", tmp_path / "shards", "--against", "", "--json", target, status=1)
    assert "does not exist" in said
    said = run("bench", tmp_path / "shards", "--min-visible", "0.1", status=1)
    assert "name a recipe, such as --transforms coco-ssd" in said
    (tmp_path / "text").write_text("a few words\n")
    run("convert-text", tmp_path / "text", tmp_path / "words")
    assert "images with one label each, or boxes" in run("bench", tmp_path / "words", status=1)


def test_bench_and_preview_of_objects(run: Run, photos: Path, tmp_path: Path) -> None:
    made, target, sheet = FOLDERS["coco"](tmp_path / "scene"), tmp_path / "shards", tmp_path / "sheet.png"
    run("convert", made.src, target, "--encoding", "jpeg")
    assert "has a size of its own" in run("bench", target, "--size", "5", status=1), "coco-hflip by default"
    assert "no recipe 'yolox'" in run("bench", target, "--transforms", "yolox", status=1)
    rules = ("--min-visible", "0.9", "--min-size", "2", "--draws", "1", "--cell", "48")
    assert "6 pictures" in run("preview", target, "--transforms", "coco-ssd", "--out", sheet, *rules)


def test_doctor(run: Run) -> None:
    said = run("doctor")
    assert "native engine" in said
    assert re.search(r"JPEG decoder .*libjpeg-turbo \d+\.\d+\.\d+", said)
    assert re.search(r"PNG decoder .*libdeflate \d+\.\d+", said)
    assert "engine='auto'" in said


def test_doctor_names_the_decoder_of_webp(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native, "DECODED_CODECS", (Codec.RAW, Codec.JPEG, Codec.PNG, Codec.WEBP))
    monkeypatch.setattr(_native, "LIBRARIES", {**_native.LIBRARIES, "WebP": "libwebp 1.2.3"})
    assert re.search(r"WebP decoder +libwebp 1\.2\.3", run("doctor"))
    monkeypatch.setattr(_native, "DECODED_CODECS", (Codec.RAW, Codec.JPEG, Codec.PNG))
    said = run("doctor")
    assert re.search(r"WebP decoder +Pillow", said)
    assert "libwebp-dev" in said


@pytest.mark.parametrize("name", [command.name for command in app.registered_commands])
def test_help_shows_an_example_on_each_line(run: Run, name: str) -> None:
    lines = run(name, "--help").partition("Examples:\n")[2].partition("\n\n")[0].splitlines()
    assert lines
    assert all(line.split()[:2] == ["stoker", name] for line in lines)


def test_version(run: Run) -> None:
    assert run("--version").strip() == stoker.__version__


def test_datasets_that_change(run: Run, photos: Path, tmp_path: Path) -> None:
    train = tmp_path / "train"
    run("convert", photos, train)
    assert "nothing to do: version 1" in run("append", train, photos)
    (photos / "a" / "0.jpg").rename(photos / "a" / "new.jpg")
    said = run("append", train, photos)
    assert re.search(r"version 2: 12 samples, 6 added", said)
    assert "version 3: 6 samples, 6 left out" in run("exclude", train, "--where", "shard == 1")
    (tmp_path / "keys.txt").write_text("a/2.jpg\ngone\n")
    assert "skipped 1: key that is not in the dataset" in run(
        "exclude", train, "--keys", tmp_path / "keys.txt"
    )
    said = run("info", train, "--versions")
    assert re.search(r"exclude where shard == 1 +3 +\d\S+Z +6 +0 +6\b", said)
    found = json.loads(run("info", train, "--versions", "--json"))
    assert found["dataset_version"] == 4
    assert [one["samples"] for one in found["versions"]] == [6, 12, 6, 5]
    assert "6 samples" in run("verify", f"{train}@1")
    assert "version 1: 11 samples" in run("merge", train, f"{train}@1", "--into", tmp_path / "all")
    assert "the last one is 4" in run("info", f"{train}@9", status=1)


def test_duplicates_are_listed_for_exclude(run: Run, photos: Path, tmp_path: Path) -> None:
    shutil.copy(photos / "a" / "0.jpg", photos / "a" / "copy.jpg")
    train, keys, page = tmp_path / "train", tmp_path / "keys.txt", tmp_path / "page.html"
    run("convert", photos, train)
    said = run("duplicates", train, "--output", keys, "--html", page)
    assert "7 images: 1 group; 1 surplus, 1 of them exact" in said
    assert re.search(r"a/0\.jpg +train +stays\s+a/copy\.jpg +train +exact", said)
    assert page.read_text().count("<img") == 2
    groups = json.loads(run("duplicates", train, "--json"))["groups"]
    assert [one["key"] for one in groups[0]] == ["a/0.jpg", "a/copy.jpg"]
    assert "version 2: 6 samples, 1 left out" in run("exclude", train, "--keys", keys)
