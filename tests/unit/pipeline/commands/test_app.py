"""Tests of the commands for datasets of images, and of the command line itself."""

import io
import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from helpers.annotations import FOLDERS
from helpers.command_line import run
from helpers.datasets import flip_bit

import stoker
from stoker import _native
from stoker.__main__ import main as script
from stoker.augment import Resize
from stoker.benchmarks.comparison import bench
from stoker.formats.codecs.codec import Codec
from stoker.formats.files import temporary_folder
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
    run_main("index", photos, "--into", tmp_path / "flat", "--unlabelled", "--format", "auto")
    assert "label" not in stoker.open(tmp_path / "flat").columns
    output = run_main("index", photos, photos, "--into", tmp_path / "x", "--unlabelled", status=1)
    assert "one folder" in output
    run_main("convert", photos, tmp_path / "shards", "--unlabelled")
    with stoker.ImageLoader(tmp_path / "shards", batch_size=1, transforms=[Resize((8, 8))]) as loader:
        assert loader.columns == ("image",)


def test_index_reads_shards_of_other_programs(run_main: RunMain, shards: Path, tmp_path: Path) -> None:
    shard, names = stoker.open(shards).data_files[0], tmp_path / "names.txt"
    assert "6 samples of 1 shard" in run_main("index", shard, "--into", tmp_path / "external")
    assert stoker.open(tmp_path / "external").classes == ("a", "b")
    output = run_main("index", shard, "--into", tmp_path / "unlabelled", "--label", "lable")
    assert "no labels: no record has 'lable'" in output
    assert "no labels" not in run_main("index", shard, "--into", tmp_path / "unwanted", "--label", "")
    names.write_text("sea\nland, flat\nair\n")
    run_main("index", shard, "--into", tmp_path / "file", "--classes", names)
    assert stoker.open(tmp_path / "file").classes == ("sea", "land, flat", "air")
    assert "land, flat" in run_main("info", tmp_path / "file")
    names.write_text("sea\n")
    for classes, message in {"sea,": "label 1 has an empty name", names: "1 classes are named"}.items():
        few = ("--into", tmp_path / "few", "--classes", classes)
        assert message in run_main("index", shard, *few, status=1)
    assert not (tmp_path / "few" / "dataset.json").exists()
    (tmp_path / "f").touch()
    output = run_main("index", shard, "--into", tmp_path / "f" / "in", status=1)
    assert output == f"error: Not a directory (path '{tmp_path / 'f' / 'in'}')\n"


def test_verify_prints_problems_and_ends_with_status_1(
    run_main: RunMain, shards: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    report = json.loads(run_main("verify", shards, "--json"))
    assert (report["ok"], report["samples"], report["problems"]) == (True, 6, [])
    flip_bit(stoker.open(shards), 0)
    run_main("verify", shards, status=1)
    (shards / "index.arrow").unlink()
    with pytest.raises(typer.Exit) as ended:
        verify(str(shards), as_json=True)
    assert ended.value.exit_code == 1
    report = json.loads(capfd.readouterr().out)
    assert not report["ok"]
    assert report["found"] == len(report["problems"])
    assert any("index" in problem["message"] for problem in report["problems"])


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


def test_bench_and_preview_take_recipes_for_objects(run_main: RunMain, photos: Path, tmp_path: Path) -> None:
    source, target, sheet = FOLDERS["coco"](tmp_path / "scene"), tmp_path / "shards", tmp_path / "sheet.png"
    run_main("convert", source.src, target, "--encoding", "jpeg")
    assert "has a size of its own" in run_main("bench", target, "--size", "5", status=1), (
        "coco-hflip by default"
    )
    assert "recipe 'yolox' is neither a file" in run_main("bench", target, "--transforms", "yolox", status=1)
    rules = ("--min-visible", "0.9", "--min-size", "2", "--draws", "1", "--cell", "48")
    assert "6 images" in run_main("preview", target, "--transforms", "coco-ssd", "--out", sheet, *rules)


def test_doctor_names_decoders_and_the_engine(run_main: RunMain, monkeypatch: pytest.MonkeyPatch) -> None:
    output = run_main("doctor")
    assert "native engine" in output
    assert re.search(r"JPEG decoder .*libjpeg-turbo \d+\.\d+\.\d+", output)
    assert re.search(r"PNG decoder .*libdeflate \d+\.\d+", output)
    assert "engine='auto'" in output
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


def test_commands_make_and_show_versions_of_a_dataset(
    run_main: RunMain, photos: Path, tmp_path: Path
) -> None:
    train = tmp_path / "train"
    run_main("convert", photos, train)
    assert "nothing to do: version 1" in run_main("append", train, photos)
    for file in sorted(photos.glob("*/*.jpg")):
        file.rename(file.with_name(f"new-{file.name}"))
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


def test_names_are_escaped(
    run_main: RunMain, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (photos / "a").rename(photos / "a\x1b]0;mine\x07")
    (photos / "b").rename(photos / "été")
    run_main("convert", photos, tmp_path / "shards")
    assert "a\\x1b]0;mine\\x07" in run_main("info", tmp_path / "shards")
    output = run_main("convert", photos, tmp_path / "other", "--classes", "x,y", status=1)
    assert "\x1b" not in output
    assert "a\\x1b]0;mine" in output
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, "ascii", write_through=True))
    run_main("info", tmp_path / "shards")
    assert b"\\xe9t\\xe9" in printed.getvalue()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        *((f"{command} {paths}", name) for command in ("convert", "convert-text", "stage")
          for paths, name in (("'' new", "source"), ("a ''", "target"))),
        ("info ''", "dataset"), ("verify ''", "dataset"), ("index x --into ''", "into"),
        ("index '' --into x", "shard"),
    ],
)  # fmt: skip
def test_an_empty_path_is_refused(
    run_main: RunMain, photos: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, name: str
) -> None:
    monkeypatch.chdir(photos)
    before = sorted(photos.rglob("*"))
    assert f"{name} is empty" in run_main(*shlex.split(arguments), status=1)
    assert sorted(photos.rglob("*")) == before


def test_version_prints_the_release(run_main: RunMain) -> None:
    assert run_main("--version").strip() == stoker.__version__
    ran = subprocess.run([sys.executable, "-m", "stoker", "--version"], capture_output=True, check=True)
    assert ran.stdout.decode().strip() == stoker.__version__


def test_bench_refuses_wrong_targets_options_and_datasets(
    run_main: RunMain, shards: Path, tmp_path: Path
) -> None:
    target = tmp_path / "nowhere" / "result.json"
    assert "does not exist" in run_main("bench", shards, "--against", "", "--json", target, status=1)
    output = run_main("bench", shards, "--min-visible", "0.1", status=1)
    assert "name a recipe, such as --transforms coco-ssd" in output
    assert "workers must be ray" in run_main("bench", shards, "--workers", "x", status=1)
    (tmp_path / "text").write_text("a few words\n")
    run_main("convert-text", tmp_path / "text", tmp_path / "words", "--tokenizer", "bytes")
    assert "images with one label each, or boxes" in run_main("bench", tmp_path / "words", status=1)


@pytest.mark.parametrize(
    ("options", "against"),
    [
        ([], ["torch", "tfdata", "dali"]),
        (["--device", "cuda"], ["all"]),
        (["--device", "cuda:1"], ["all"]),
        (["--device", "cuda", "--against", "torch"], ["torch"]),
    ],
)
def test_bench_compares_all_installed_loaders_on_a_gpu(
    thumbnails: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], against: list[str]
) -> None:
    asked: list[list[str]] = []

    def run_bench(dataset: str, names: list[str], *_: Any, **__: Any) -> None:
        asked.append(names)
        raise SystemExit(0)

    monkeypatch.setattr(bench, "run_bench", run_bench)
    run("bench", thumbnails, *options)
    assert asked == [against]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_that_end_a_command_remove_its_temporary_files_as_ctrl_c_does(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def work() -> None:
        with temporary_folder("stoker-test-") as folder:
            made.append(folder)
            signal.raise_signal(number)

    monkeypatch.setattr("stoker.pipeline.commands.app.main", work)
    before = signal.signal(number, signal.SIG_DFL)  # the tests may run under nohup
    try:
        with pytest.raises(SystemExit) as ended:
            script()
        assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, before)
    assert ended.value.code == 128 + number
    assert not Path(made[0]).exists()
