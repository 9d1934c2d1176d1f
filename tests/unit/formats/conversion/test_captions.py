"""Captions that a conversion turns into token ids beside the images, from every kind of source."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.command_line import run
from helpers.datasets import write_words
from helpers.images import encode
from helpers.options import convert, image_writer
from helpers.shards import write_mds, write_samples
from PIL import Image

import stoker
from stoker.errors import ConfigError, SourceError

CAPTIONS = [["a red cat", "the cat"], ["dogs, three"], ['a "big" bird'], []]
KEPT = CAPTIONS[:3]


def _image(number: int) -> bytes:
    return encode(Image.new("RGB", (8, 8), (number * 40, 10, 10)), "PNG")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root: Path = tmp_path_factory.mktemp("captions")
    for number in range(4):
        (root / f"{number}.png").write_bytes(_image(number))
    return root


def _jsonl(root: Path, rows: list[dict[str, Any]]) -> Path:
    (root / "list.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return root / "list.jsonl"


def _captions(path: Path) -> list[list[str]]:
    """The captions of a dataset whose tokens are bytes."""
    dataset = stoker.open(path)
    everything = np.arange(len(dataset))
    ids, lengths = (dataset.lists(name, everything) for name in ("caption_ids", "caption_lengths"))
    text = bytes(ids.values.tolist()).decode()
    ends = np.cumsum(lengths.values)
    texts = [text[end - length : end] for end, length in zip(ends, lengths.values, strict=True)]
    return [texts[a:b] for a, b in zip(lengths.starts, lengths.starts[1:], strict=False)]


def _source(kind: str, folder: Path, target: Path) -> tuple[Any, dict[str, Any]]:
    if kind == "jsonl":
        rows = [{"file": f"{n}.png", "texts": texts} for n, texts in enumerate(CAPTIONS)]
        return _jsonl(folder, rows), {"path_column": "file", "caption_column": "texts"}
    if kind == "csv":
        with (folder / "list.csv").open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["path", "text"])
            writer.writerows([f"{n}.png", json.dumps(texts)] for n, texts in enumerate(CAPTIONS))
        return folder / "list.csv", {"caption_column": "text"}
    if kind == "tar":
        samples = [
            {"__key__": str(n), "png": _image(n), "json": {"texts": texts}}
            for n, texts in enumerate(CAPTIONS)
        ]
        return write_samples(target / "a.tar", samples), {"caption_column": "json:texts"}
    images = [{"bytes": _image(n), "path": None} for n in range(4)]
    pq.write_table(pa.table({"image": images, "texts": CAPTIONS}), target / "a.parquet")
    return target / "a.parquet", {"caption_column": "texts"}


@pytest.mark.parametrize("kind", ["jsonl", "csv", "tar", "parquet"])
def test_all_captions_of_an_image_become_token_ids_and_an_image_without_one_is_left_out(
    kind: str, folder: Path, tmp_path: Path
) -> None:
    source, options = _source(kind, folder, tmp_path)
    summary = convert(source, tmp_path / "out", tokenizer="bytes", **options)
    assert _captions(tmp_path / "out") == KEPT
    assert summary.skipped == {"no caption": 1}
    assert convert(source, tmp_path / "out", tokenizer="bytes", **options).already
    printed = " ".join(run("info", tmp_path / "out").split())
    assert "4 of 39 tokens: 50 % up to 9, 90 % up to 12, 99 % up to 12, longest 12" in printed


def _write(kind: str, values: list[Any], folder: Path, target: Path) -> tuple[Path, str]:
    """A source whose images have values as captions, and the name of the column."""
    if kind == "jsonl":
        return _jsonl(folder, [{"path": f"{n}.png", "c": value} for n, value in enumerate(values)]), "c"
    if kind == "json:c":
        samples = [
            {"__key__": str(n), "png": _image(n), "json": {"c": value}} for n, value in enumerate(values)
        ]
        return write_samples(target / "a.tar", samples), kind
    if kind == "txt":
        samples = [{"__key__": str(n), "png": _image(n), "txt": value} for n, value in enumerate(values)]
        return write_samples(target / "a.tar", samples), kind
    if kind == "mds":
        rows = [{"image": _image(n), "c": value} for n, value in enumerate(values)]
        return write_mds(target / "mds", {"image": "png", "c": "json"}, [rows]), "c"
    images = [{"bytes": _image(n), "path": None} for n in range(len(values))]
    pq.write_table(pa.table({"image": images, "c": values}), target / "a.parquet")
    return target / "a.parquet", "c"


@pytest.mark.parametrize("kind", ["jsonl", "json:c", "txt", "mds", "parquet"])
def test_a_caption_that_looks_like_a_list_is_one_caption(kind: str, folder: Path, tmp_path: Path) -> None:
    texts = ['["a", "b"]', "[sic] a cat", "plain"]
    source, column = _write(kind, texts, folder, tmp_path)
    convert(source, tmp_path / "out", tokenizer="bytes", caption_column=column)
    assert _captions(tmp_path / "out") == [[text] for text in texts]


@pytest.mark.parametrize("kind", ["jsonl", "json:c", "mds", "parquet"])
def test_a_missing_caption_of_a_list_is_left_out(kind: str, folder: Path, tmp_path: Path) -> None:
    source, column = _write(kind, [["a", None, '["b"]'], [None, ""], ["c"]], folder, tmp_path)
    summary = convert(source, tmp_path / "out", tokenizer="bytes", caption_column=column)
    assert _captions(tmp_path / "out") == [["a", '["b"]'], ["c"]]
    assert summary.skipped == {"no caption": 1}


TURNS = [{"from": "human", "value": "what?"}]


@pytest.mark.parametrize("kind", ["jsonl", "json:c", "parquet"])
@pytest.mark.parametrize("values", [[TURNS, TURNS], [{"en": "a"}, {"en": "b"}], [[["a"]], [["b"]]]])
def test_captions_that_are_no_texts_are_refused(
    kind: str, values: list[Any], folder: Path, tmp_path: Path
) -> None:
    source, column = _write(kind, values, folder, tmp_path)
    with pytest.raises(
        (ConfigError, SourceError), match=r"(?s)(must hold texts or|column 'c' holds .*)"
    ) as caught:
        convert(source, tmp_path / "out", tokenizer="bytes", caption_column=column)
    assert Path(str(caught.value.path)).name == source.name


@pytest.mark.parametrize("wrong", [7, True, {"a": 1}, ["a", 7]])
def test_one_value_among_captions_that_is_no_text_is_refused_by_its_image(
    wrong: Any, folder: Path, tmp_path: Path
) -> None:
    source, column = _write("jsonl", ["a", wrong], folder, tmp_path)
    with pytest.raises(SourceError, match="must hold texts or lists of texts, found") as caught:
        convert(source, tmp_path / "out", tokenizer="bytes", caption_column=column)
    assert caught.value.key == "1.png"


def test_captions_of_validation_data_have_the_vocabulary_of_the_training_data(tmp_path: Path) -> None:
    options: dict[str, Any] = {"tokenizer": write_words(tmp_path / "words.json", ("a", "cat", "red"))}
    for name, text in (("train", "a red cat"), ("val", "a green cat")):
        source = write_samples(tmp_path / f"{name}.tar", [{"__key__": "1", "png": _image(1), "txt": text}])
        convert(source, tmp_path / name, caption_column="txt", eos=True, **options)
        options = {"vocabulary": tmp_path / "train"}
    words = {"[UNK]": 0, "[EOS]": 3, "a": 4, "cat": 5, "red": 6}
    ids = stoker.open(tmp_path / "val").lists("caption_ids", [0]).values.tolist()
    assert ids == [words[word] for word in ("a", "[UNK]", "cat", "[EOS]")]


def test_samples_from_python_have_captions_and_appended_ones_the_same_tokenizer(tmp_path: Path) -> None:
    pixels = np.zeros((8, 8, 3), np.uint8)
    with image_writer(tmp_path / "written", caption_column="texts", tokenizer="bytes") as writer:
        for texts in (CAPTIONS[0], "dogs, three"):
            writer.write(pixels, texts=texts)
    with stoker.Writer(tmp_path / "written", append=True) as writer:
        writer.write(pixels, texts=CAPTIONS[2])
    items = [{"image": pixels, "texts": texts} for texts in KEPT]
    convert(items, tmp_path / "out", caption_column="texts", tokenizer="bytes")
    assert _captions(tmp_path / "written") == _captions(tmp_path / "out") == KEPT


def test_append_tokenizes_captions_as_those_of_the_dataset(folder: Path, tmp_path: Path) -> None:
    rows = [{"path": f"{n}.png", "text": f"photo {n}"} for n in range(3)]
    convert(_jsonl(folder, rows[:2]), tmp_path / "out", caption_column="text", tokenizer="bytes")
    stoker.append(tmp_path / "out", _jsonl(folder, rows[2:]))
    assert _captions(tmp_path / "out") == [["photo 0"], ["photo 1"], ["photo 2"]]


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"path": "0.png", "label": 1}], {"caption_column": "text"}, "no captions in 'text'"),
        ([{"path": "0.png", "text": 7}], {"caption_column": "text"}, "must hold texts"),
        (
            [{"path": "0.png", "text": " "}],
            {"caption_column": "text", "tokenizer": "bytes"},
            "no sample has a caption",
        ),
        ([{"path": "0.png", "text": "a"}], {}, "has no label"),
        ([{"path": "0.png", "label": 1}], {"tokenizer": "bytes"}, "tokenizer is for captions"),
        (
            [{"path": "0.png", "label": 1, "text": "a"}, {"path": "1.png", "text": "a"}],
            {"caption_column": "text"},
            "some entries have a label",
        ),
    ],
)
def test_captions_that_cannot_be_read_are_refused(
    rows: list[dict[str, Any]], options: dict[str, Any], message: str, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises((ConfigError, SourceError), match=message):
        convert(_jsonl(folder, rows), tmp_path / "out", **options)


def test_a_writer_refuses_captions_without_a_tokenizer_and_samples_without_captions(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="need a tokenizer"):
        image_writer(tmp_path / "a", caption_column="text")
    with pytest.raises(ConfigError, match="bos is for captions"):
        image_writer(tmp_path / "a", bos=True)
    with (
        pytest.raises(ConfigError, match="text is missing"),
        image_writer(tmp_path / "b", caption_column="text", tokenizer="bytes") as writer,
    ):
        writer.write(np.zeros((8, 8, 3), np.uint8))
