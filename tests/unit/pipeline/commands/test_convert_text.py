"""Tests of the commands ``stoker convert-text`` and ``stoker buckets``."""

import json
from pathlib import Path

import pytest
from helpers.command_line import run
from helpers.datasets import WORDS

import stoker
from stoker.pipeline.text.token_reader import text_lengths


@pytest.fixture
def pairs(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "t.en", tmp_path / "t.de"]
    for path, period in zip(paths, (13, 7), strict=True):
        path.write_text("\n".join("w " * (1 + i % period) for i in range(200)))
    return paths


def test_parallel_files_become_fields_of_a_sample(tmp_path: Path, pairs: list[Path]) -> None:
    options = ("--parallel", "--seed", 1, "--val", "10%", "--fields", "en, de", "--tokenizer", WORDS)
    output = run("convert-text", *pairs, tmp_path / "d", *options)
    assert "200 samples" in output
    assert len(stoker.open(tmp_path / "d" / "val")) == 20
    assert text_lengths(stoker.open(tmp_path / "d" / "train")).shape == (180, 2)


def test_skipped_lines_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo")
    output = run(
        "convert-text", tmp_path / "a.txt", tmp_path / "d", "--tokenizer", "bytes", "--format", "lmdb"
    )
    assert "skipped 1: no tokens" in output
    assert stoker.open(tmp_path / "d").manifest.container == "lmdb"


def test_buckets_compares_methods_and_writes_both_files(tmp_path: Path, pairs: list[Path]) -> None:
    run("convert-text", pairs[0], tmp_path / "d", "--tokenizer", WORDS)
    output = run("buckets", tmp_path / "d", "--buckets", 4, "--pack", 26, "--batch-size", 10, "--ranks", 2,
               "--json", tmp_path / "b.json", "--png", tmp_path / "b.png")  # fmt: skip
    figures = json.loads((tmp_path / "b.json").read_text())
    assert f"{figures['optimal']['padding']:.2f}" in output
    assert set(figures) > {"random", "sorted", "optimal", "packed 26"}
    assert figures["optimal"]["padding"] < figures["quantile"]["padding"] < figures["random"]["padding"]
    assert (tmp_path / "b.png").read_bytes()[:4] == b"\x89PNG"


def test_buckets_of_two_fields_have_two_lengths(tmp_path: Path, pairs: list[Path]) -> None:
    stoker.convert_text(pairs, tmp_path / "d", parallel=True, tokenizer=WORDS)
    run("buckets", tmp_path / "d", "--buckets", 4, "--json", tmp_path / "b.json")
    reports = json.loads((tmp_path / "b.json").read_text())
    assert len(reports["optimal"]["buckets"][0]["length"]) == 2
    assert text_lengths(stoker.open(tmp_path / "d"), ["de"]).max() == 7


def test_three_fields_are_compared_without_the_optimum_of_two(tmp_path: Path) -> None:
    lines = [
        json.dumps({name: "a " * (1 + i % k) for name, k in (("x", 3), ("y", 5), ("z", 7))})
        for i in range(40)
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    run("convert-text", tmp_path / "t.jsonl", tmp_path / "d", "--fields", "x,y,z", "--tokenizer", WORDS)
    output = run("buckets", tmp_path / "d", "--batch-size", 4)
    assert "sorted" in output
    assert "optimal  " not in output


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--fields", "fr"], "en, de"), (["--method", "best"], "optimal"), (["--pack", "9"], "capacity")],
)
def test_wrong_options_of_buckets_are_refused(
    tmp_path: Path, pairs: list[Path], options: list[str], message: str
) -> None:
    stoker.convert_text(pairs, tmp_path / "d", parallel=True, tokenizer=WORDS)
    with pytest.raises(stoker.errors.ConfigError, match=message):
        run("buckets", tmp_path / "d", *options)


def test_buckets_compares_shapes_of_images(dataset: Path, tmp_path: Path) -> None:
    shapes = ["--buckets", 2, "--area", 4096, "--pad-to-multiple-of", 8, "--batch-size", 2, "--seed", 1]
    output = run("buckets", dataset, *shapes, "--json", tmp_path / "b.json", "--png", tmp_path / "b.png")
    figures = json.loads((tmp_path / "b.json").read_text())
    assert f"{figures['optimal']['cropped']:.2f}" in output
    assert set(figures) == {"one", "even", "optimal", "all"}
    assert figures["optimal"]["cropped"] < figures["one"]["cropped"]
    assert figures["optimal"]["intraclass_correlation"] > figures["one"]["intraclass_correlation"]
    assert (tmp_path / "b.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(stoker.errors.ConfigError, match="method must be one of one, even, optimal, all"):
        run("buckets", dataset, "--method", "quantile")


OBJECTS = '{"text": "one two"}\n{"text": "three"}\n'


@pytest.mark.parametrize("content", ["one two\nthree\n", OBJECTS, "\ufeff" + OBJECTS])
def test_convert_text_reads_standard_input(tmp_path: Path, content: str) -> None:
    run("convert-text", "-", tmp_path / "d", "--tokenizer", "bytes", input=content)
    field = "text" if OBJECTS in content else "tokens"
    assert stoker.open(tmp_path / "d").column(f"{field}_length").tolist() == [7, 5]
