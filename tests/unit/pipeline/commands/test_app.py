"""Tests of the commands for datasets of images, and of the command line itself."""

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import typer
from helpers.annotations import FOLDERS
from helpers.datasets import flip_bit
from PIL import Image

import stoker
from stoker import _native
from stoker.__main__ import main as script
from stoker.augment import Resize
from stoker.formats.codecs.codec import Codec
from stoker.pipeline.commands.app import COMMANDS, load_command, main
from stoker.pipeline.commands.verify import verify

RunMain = Callable[..., str]


@pytest.mark.usefixtures("cache")
def test_the_cache_of_a_folder_of_images_is_listed_and_cleared(run_main: RunMain, photos: Path) -> None:
    output = run_main("info", photos)
    assert re.search(r"files +6, ", output)
    assert re.search(r"stoker convert --restarts +[\d,]+ +\d", output)
    assert str(photos) in run_main("cache")
    assert "removed 1 " in run_main("cache", photos, "--clear")
    assert "no index" in run_main("cache")


def test_a_folder_of_images_can_be_indexed(run_main: RunMain, photos: Path, tmp_path: Path) -> None:
    output = run_main("index", photos, "--into", tmp_path / "index")
    assert "skipped 1: not an image" in output
    assert "6 images in place" in output
    assert "good: 6 samples" in run_main("verify", tmp_path / "index", "--decode")


def test_images_can_be_indexed_and_converted_without_labels(
    run_main: RunMain, photos: Path, tmp_path: Path
) -> None:
    run_main("index", photos, "--into", tmp_path / "index", "--unlabelled", "--format", "auto")
    assert "label" not in stoker.open(tmp_path / "index").columns
    output = run_main("index", photos, photos, "--into", tmp_path / "x", "--unlabelled", status=1)
    assert "one folder" in output
    run_main("convert", photos, tmp_path / "shards", "--unlabelled")
    with stoker.ImageLoader(tmp_path / "shards", batch_size=1, transforms=[Resize((8, 8))]) as loader:
        assert loader.columns == ("image",)


def test_verify_ends_with_status_1_after_a_problem(run_main: RunMain, photos: Path, tmp_path: Path) -> None:
    run_main("convert", photos, tmp_path / "shards")
    flip_bit(stoker.open(tmp_path / "shards"), 0)
    run_main("verify", tmp_path / "shards", status=1)


def test_info_measures_pixels_and_writes_a_mean_image(
    run_main: RunMain, photos: Path, tmp_path: Path
) -> None:
    run_main("convert", photos, tmp_path / "shards")
    assert "Normalize(mean=(" in run_main("info", tmp_path / "shards", "--pixels")
    output = run_main("info", tmp_path / "shards", "--mean-image", tmp_path / "mean.NPY")
    assert "Normalize(mean=(" in output
    assert np.load(tmp_path / "mean.NPY").shape == (256, 256, 3)
    run_main("info", tmp_path / "shards", "--mean-image", tmp_path / "mean.png")
    with Image.open(tmp_path / "mean.png") as image:
        assert image.size == (256, 256)


def test_info_prints_json(run_main: RunMain, photos: Path, tmp_path: Path) -> None:
    run_main("convert", photos, tmp_path / "shards", "--shards", 2)
    facts = json.loads(run_main("info", tmp_path / "shards", "--json", "--pixels"))
    dataset = stoker.open(tmp_path / "shards")
    assert (facts["samples"], facts["shards"], facts["bytes"]) == (6, 2, sum(dataset.data_sizes))
    assert facts["classes"] == [{"name": "a", "samples": 3}, {"name": "b", "samples": 3}]
    assert facts["encodings"] == {"JPEG": 6}
    assert facts["skipped"] == {"not an image": 1}
    assert facts["height"]["min"] == dataset.column("height").min()
    assert len(facts["mean"]) == len(facts["std"]) == 3


def test_verify_prints_json(
    run_main: RunMain, photos: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run_main("convert", photos, tmp_path / "shards")
    report = json.loads(run_main("verify", tmp_path / "shards", "--json"))
    assert (report["ok"], report["samples"], report["problems"]) == (True, 6, [])
    (tmp_path / "shards" / "index.arrow").unlink()
    with pytest.raises(typer.Exit) as ended:
        verify(str(tmp_path / "shards"), as_json=True)
    assert ended.value.exit_code == 1
    report = json.loads(capfd.readouterr().out)
    assert (report["ok"], report["found"]) == (False, 1)
    assert "index" in report["problems"][0]["message"]


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


def test_python_m_stoker_is_the_command() -> None:
    ran = subprocess.run([sys.executable, "-m", "stoker", "--version"], capture_output=True, check=True)
    assert ran.stdout.decode().strip() == stoker.__version__


@pytest.mark.parametrize("name", ["mean.jpg", "nowhere/mean.png"])
def test_a_mean_image_that_cannot_be_written_is_refused(
    run_main: RunMain, photos: Path, tmp_path: Path, name: str
) -> None:
    run_main("convert", photos, tmp_path / "shards")
    assert "mean image" in run_main("info", tmp_path / "shards", "--mean-image", tmp_path / name, status=1)


def test_index_reads_shards_of_other_programs(run_main: RunMain, photos: Path, tmp_path: Path) -> None:
    run_main("convert", photos, tmp_path / "shards")
    shard = stoker.open(tmp_path / "shards").data_files[0]
    assert "6 samples of 1 shard" in run_main("index", shard, "--into", tmp_path / "external")
    assert stoker.open(tmp_path / "external").classes == ("a", "b")
    output = run_main("index", shard, "--into", tmp_path / "unlabelled", "--label", "lable")
    assert "no labels: no record has 'lable'" in output
    assert "no labels" not in run_main("index", shard, "--into", tmp_path / "unwanted", "--label", "")


def test_names_outside_the_encoding_are_escaped(
    run_main: RunMain, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (photos / "a").rename(photos / "été")
    run_main("convert", photos, tmp_path / "shards")
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, "ascii", write_through=True))
    run_main("info", tmp_path / "shards")
    assert b"\\xe9t\\xe9" in printed.getvalue()


def test_control_characters_in_names_are_escaped(run_main: RunMain, photos: Path, tmp_path: Path) -> None:
    (photos / "a").rename(photos / "a\x1b]0;mine\x07")
    run_main("convert", photos, tmp_path / "shards")
    assert "a\\x1b]0;mine\\x07" in run_main("info", tmp_path / "shards")
    output = run_main("convert", photos, tmp_path / "other", "--classes", "x,y", status=1)
    assert "\x1b" not in output
    assert "a\\x1b]0;mine" in output


@pytest.mark.parametrize("command", ["convert", "convert-text", "stage"])
@pytest.mark.parametrize("empty", [0, 1])
def test_an_empty_source_or_target_is_refused(
    run_main: RunMain, photos: Path, command: str, empty: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(photos)
    before = sorted(photos.rglob("*"))
    paths = ["a", "new"]
    paths[empty] = ""
    assert f"{('source', 'target')[empty]} is empty" in run_main(command, *paths, status=1)
    assert sorted(photos.rglob("*")) == before


def test_an_empty_path_of_a_dataset_is_refused(
    run_main: RunMain, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(photos)
    for command in ("info", "verify"):
        assert "dataset is empty" in run_main(command, "", status=1)
    assert "into is empty" in run_main("index", "x", "--into", "", status=1)
    assert "shard is empty" in run_main("index", "", "--into", "x", status=1)


def test_index_takes_names_of_classes(run_main: RunMain, photos: Path, tmp_path: Path) -> None:
    run_main("convert", photos, tmp_path / "shards")
    shard = stoker.open(tmp_path / "shards").data_files[0]
    (tmp_path / "names.txt").write_text("sea\nland, flat\nair\n")
    run_main("index", shard, "--into", tmp_path / "file", "--classes", tmp_path / "names.txt")
    assert stoker.open(tmp_path / "file").classes == ("sea", "land, flat", "air")
    assert "land, flat" in run_main("info", tmp_path / "file")
    output = run_main("index", shard, "--into", tmp_path / "few", "--classes", "sea,", status=1)
    assert "label 1 has an empty name" in output
    (tmp_path / "names.txt").write_text("sea\n")
    output = run_main(
        "index", shard, "--into", tmp_path / "few", "--classes", tmp_path / "names.txt", status=1
    )
    assert "the record has label 1, and 1 classes are named" in output
    assert not (tmp_path / "few" / "dataset.json").exists()


def test_errors_of_the_operating_system_are_one_line(run_main: RunMain, photos: Path, tmp_path: Path) -> None:
    run_main("convert", photos, tmp_path / "shards")
    shard = stoker.open(tmp_path / "shards").data_files[0]
    (tmp_path / "file").touch()
    output = run_main("index", shard, "--into", tmp_path / "file" / "in", status=1)
    assert output == f"error: Not a directory (path '{tmp_path / 'file' / 'in'}')\n"


def test_bench_refuses_wrong_targets_options_and_datasets(
    run_main: RunMain, photos: Path, tmp_path: Path
) -> None:
    run_main("convert", photos, tmp_path / "shards")
    target = tmp_path / "nowhere" / "result.json"
    output = run_main("bench", tmp_path / "shards", "--against", "", "--json", target, status=1)
    assert "does not exist" in output
    output = run_main("bench", tmp_path / "shards", "--min-visible", "0.1", status=1)
    assert "name a recipe, such as --transforms coco-ssd" in output
    (tmp_path / "text").write_text("a few words\n")
    run_main("convert-text", tmp_path / "text", tmp_path / "words", "--tokenizer", "bytes")
    assert "images with one label each, or boxes" in run_main("bench", tmp_path / "words", status=1)


def test_bench_and_preview_take_recipes_for_objects(run_main: RunMain, photos: Path, tmp_path: Path) -> None:
    source, target, sheet = FOLDERS["coco"](tmp_path / "scene"), tmp_path / "shards", tmp_path / "sheet.png"
    run_main("convert", source.src, target, "--encoding", "jpeg")
    assert "has a size of its own" in run_main("bench", target, "--size", "5", status=1), (
        "coco-hflip by default"
    )
    assert "no recipe 'yolox'" in run_main("bench", target, "--transforms", "yolox", status=1)
    rules = ("--min-visible", "0.9", "--min-size", "2", "--draws", "1", "--cell", "48")
    assert "6 images" in run_main("preview", target, "--transforms", "coco-ssd", "--out", sheet, *rules)


def test_doctor_shows_decoders_and_the_engine(run_main: RunMain) -> None:
    output = run_main("doctor")
    assert "native engine" in output
    assert re.search(r"JPEG decoder .*libjpeg-turbo \d+\.\d+\.\d+", output)
    assert re.search(r"PNG decoder .*libdeflate \d+\.\d+", output)
    assert "engine='auto'" in output


def test_doctor_names_the_decoder_of_webp(run_main: RunMain, monkeypatch: pytest.MonkeyPatch) -> None:
    # The patches stand for builds with libwebp and without.
    monkeypatch.setattr(_native, "DECODED_CODECS", (Codec.RAW, Codec.JPEG, Codec.PNG, Codec.WEBP))
    monkeypatch.setattr(_native, "LIBRARIES", {**_native.LIBRARIES, "WebP": "libwebp 1.2.3"})
    assert re.search(r"WebP decoder +libwebp 1\.2\.3", run_main("doctor"))
    monkeypatch.setattr(_native, "DECODED_CODECS", (Codec.RAW, Codec.JPEG, Codec.PNG))
    output = run_main("doctor")
    assert re.search(r"WebP decoder +Pillow", output)
    assert "libwebp-dev" in output


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_an_example_on_each_line(
    run_main: RunMain, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")  # of the terminal; a narrow one breaks the lines
    text = "\n".join(line.strip() for line in run_main(name, "--help").splitlines())
    lines = text.partition("Examples:\n")[2].partition("\n\n")[0].splitlines()
    assert lines
    assert all(line.split()[:2] == ["stoker", name] for line in lines)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_the_first_sentence_of_each(name: str) -> None:
    assert load_command(name).help.partition("\n")[0] == COMMANDS[name]


def test_version_prints_the_release(run_main: RunMain) -> None:
    assert run_main("--version").strip() == stoker.__version__


def test_commands_make_and_show_versions_of_a_dataset(
    run_main: RunMain, photos: Path, tmp_path: Path
) -> None:
    train = tmp_path / "train"
    run_main("convert", photos, train)
    assert "nothing to do: version 1" in run_main("append", train, photos)
    (photos / "a" / "0.jpg").rename(photos / "a" / "new.jpg")
    output = run_main("append", train, photos)
    assert re.search(r"version 2: 12 samples, 6 added", output)
    assert "version 3: 6 samples, 6 left out" in run_main("remove", train, "--where", "shard == 1")
    (tmp_path / "keys.txt").write_text("a/2.jpg\ngone\n")
    assert "skipped 1: key that is not in the dataset" in run_main(
        "remove", train, "--keys", tmp_path / "keys.txt"
    )
    output = run_main("info", train, "--versions")
    assert re.search(r"remove where shard == 1 +3 +\d\S+Z +6 +0 +6\b", output)
    facts = json.loads(run_main("info", train, "--versions", "--json"))
    assert facts["dataset_version"] == 4
    assert [version["samples"] for version in facts["versions"]] == [6, 12, 6, 5]
    assert "6 samples" in run_main("verify", f"{train}@1")
    assert "version 1: 11 samples" in run_main("merge", train, f"{train}@1", "--into", tmp_path / "all")
    assert "The last one is 4" in run_main("info", f"{train}@9", status=1)
