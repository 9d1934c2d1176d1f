"""Text sources: lines, JSON Lines and parallel files, compressed or not, intact or broken."""

from __future__ import annotations

import bz2
import errno
import gzip
import json
import lzma
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.options import convert_text
from hypothesis import given
from hypothesis import strategies as st

import stoker
from stoker.errors import ConfigError, DatasetError, SourceError
from stoker.formats.sources.listing import Skip
from stoker.formats.text import listing as text_listing
from stoker.formats.text.lines import Copies, open_lines
from stoker.formats.text.listing import TextListing, open_text

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


def texts_of(listing: TextListing, rows: Any) -> list[Any]:
    return list(map(listing.format.values, listing.read(rows)))


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_rows(path: Path, rows: list[Any]) -> Path:
    return write(path, "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows).encode())


def all_texts(paths: list[Path], fields: tuple[str, ...] | None = None, **options: Any) -> list[Any]:
    """The texts of a source; of a skip its key and reason."""
    listing = open_text(paths, fields, paths[0].parent, **options)
    texts = texts_of(listing, np.arange(len(listing)))
    return [text[:2] if isinstance(text, Skip) else text for text in texts]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_lines_with_any_line_breaks_are_found(tmp_path: Path, name: str, end: bytes) -> None:
    path = write(tmp_path / name, b"\xef\xbb\xbfone\r\ntwo words\n\nlast" + end)
    assert all_texts([path]) == [("one",), ("two words",), ("",), ("last",)]


@given(st.lists(st.binary(max_size=9).map(lambda b: b.translate(None, b"\n\r\0")), min_size=1))
def test_lines_in_any_order_are_those_of_split(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    content = b"\n".join([b"x", *lines, b"y"])
    path = write(tmp_path_factory.mktemp("lines") / "a.txt", content)
    file = open_lines(path, Copies(path.parent))
    assert len(file) == len(lines) + 2
    rows = np.random.default_rng(0).permutation(len(file))
    assert file.read(rows) == [content.split(b"\n")[row] for row in rows]
    assert file.sizes.sum() == len(content)


def test_lines_longer_than_a_block_are_found(tmp_path: Path) -> None:
    lines = [b"a" * 5_000_000, b"b", b"c" * 9_000_000]
    file = open_lines(write(tmp_path / "a.txt", b"\n".join(lines)), Copies(tmp_path))
    assert file.read(np.array([2, 0, 1])) == [lines[2], lines[0], lines[1]]


def test_lines_that_are_no_sample_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"q": "a b", "a": "c", "n": 1}, {"q": "d"}, ["q"], {"q": 5, "a": "x"}, "{broken"]
    path = write_rows(tmp_path / "a.jsonl", [*rows, '{"q": "\\ud800", "a": "x"}'])
    assert all_texts([path], ("q", "a")) == [
        ("a b", "c"),
        ("a.jsonl:2", "no text in field 'a'"),
        ("a.jsonl:3", "not a JSON object"),
        ("a.jsonl:4", "no text in field 'q'"),
        ("a.jsonl:5", "not JSON"),
        ("a.jsonl:6", "not Unicode"),
    ]
    monkeypatch.setattr(text_listing, "LONGEST", 8)  # a line beyond the real limit has 256 MB
    path = write(tmp_path / "a.txt", b"short\nb\xffd\nmuch too long\nlast\n")
    not_utf8, too_long = ("a.txt:2", "not UTF-8"), ("a.txt:3", "line too long")
    assert all_texts([path]) == [("short",), not_utf8, too_long, ("last",)]
    assert all_texts([write(tmp_path / "b.txt", b"much too long\n")]) == [("b.txt:1", "line too long")]


def test_lines_of_one_number_in_parallel_files_are_one_sample(tmp_path: Path) -> None:
    paths = [write(tmp_path / "train.en.gz", b"one\ntwo\n"), write(tmp_path / "train.de", b"eins\nzwei")]
    listing = open_text(paths, None, tmp_path, parallel=True)
    assert listing.format.fields == ("en", "de")
    assert list(listing.names()) == ["train.en.gz:1", "train.en.gz:2"]
    assert texts_of(listing, np.array([1])) == [("two", "zwei")]
    write(paths[1], b"eins\n")
    for files, message in ((paths, r"2 in .*gz, 1 in train\.de"), (paths[::-1], r"1 in .*de, 2 in .*gz")):
        with pytest.raises(SourceError, match=message):
            all_texts(files, parallel=True)


def test_several_files_are_one_corpus_in_the_order_given(tmp_path: Path) -> None:
    lines = {"b.txt": ["one", "two"], "a.txt.gz": ["three"], "c.txt": [], "d.txt": ["four", "five"]}
    paths = [write_rows(tmp_path / name, list(content)) for name, content in lines.items()]
    listing = open_text(paths, None, tmp_path)
    assert listing.format.fields == ("tokens",)
    keys = [f"{name}:{number + 1}" for name, content in lines.items() for number in range(len(content))]
    assert list(listing.names()) == keys
    assert texts_of(listing, np.arange(5)) == [("one",), ("two",), ("three",), ("four",), ("five",)]
    assert texts_of(listing, np.array([4, 0, 2])) == [("five",), ("one",), ("three",)]
    assert listing.path_of("d.txt:2") == paths[3]
    assert listing.sizes.tolist() == [4, 3, 5, 5, 4]
    first = listing.fingerprint()
    listing = open_text(paths[::-1], None, tmp_path)
    assert listing.fingerprint() != first


def test_several_files_of_json_lines_are_one_corpus(tmp_path: Path) -> None:
    paths = [write_rows(tmp_path / name, [{"text": name}]) for name in ("a.jsonl", "b.ndjson")]
    assert all_texts(paths) == [("a.jsonl",), ("b.ndjson",)]
    write_rows(paths[1], [{"body": "x", "n": 1}])
    with pytest.raises(SourceError, match=r"no field 'text'[\s\S]*body") as caught:  # perhaps misspelt
        all_texts(paths)
    assert caught.value.path == str(paths[1])


def test_files_of_one_name_in_different_folders_have_different_keys(tmp_path: Path) -> None:
    paths = [tmp_path / folder / "part.txt" for folder in ("x", "y")]
    for path in paths:
        path.parent.mkdir()
        write(path, b"line")
    listing = open_text(paths, None, tmp_path)
    assert list(listing.names()) == ["x/part.txt:1", "y/part.txt:1"]
    assert listing.root == tmp_path


@pytest.mark.parametrize(
    ("names", "fields", "parallel", "message"),
    [
        ([], None, False, "no source"),
        (["a.txt"], ("x", "y"), False, "one corpus with one field, and there are 2 fields"),
        (["a.txt", "b.txt"], ("x", "y"), False, "one corpus with one field, and there are 2 fields"),
        (["a.txt", "b.txt"], ("x", "x"), False, "different names"),
        (["a.txt"], ("x,y",), False, "without commas"),
        (["a.txt", "b.jsonl"], None, False, "cannot form one corpus"),
        (["a.txt", "a.txt"], None, False, "named twice"),
        (["a.txt", "link.txt"], None, False, "named twice"),
        (["a.txt"], None, True, "two or more"),
        (["a.txt", "b.txt"], ("x", "y", "z"), True, "2 parallel files and 3 fields"),
        (["a.jsonl", "b.jsonl"], None, True, "parallel files hold lines"),
    ],
)
def test_files_and_fields_that_do_not_fit_are_refused(
    tmp_path: Path, names: list[str], fields: Any, parallel: bool, message: str
) -> None:
    (tmp_path / "link.txt").symlink_to(tmp_path / "a.txt")
    paths = [write(tmp_path / name, b"x\n") for name in names]
    with pytest.raises(ConfigError, match=message):
        open_text(paths, fields, tmp_path, parallel=parallel)


def test_a_full_disk_while_unpacking_is_not_blamed_on_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tempfile.TemporaryFile", fail)
    with pytest.raises(OSError, match="No space") as caught:
        all_texts([write(tmp_path / "a.txt.gz", b"one\n")])
    assert not isinstance(caught.value, SourceError)


@pytest.mark.parametrize(("content", "time"), [(b"one\ntwo\nthree\n", 7), (b"one\nten\n", 8)])
def test_a_file_that_changes_while_it_is_open_is_refused(tmp_path: Path, content: bytes, time: int) -> None:
    path = write(tmp_path / "a.txt", b"one\ntwo\n")
    os.utime(path, ns=(7, 7))
    listing = open_text([path], None, tmp_path)
    path.write_bytes(content)
    os.utime(path, ns=(time, time))
    with pytest.raises(SourceError, match="changed"):
        texts_of(listing, np.array([0]))


def test_the_fingerprint_follows_the_content_and_the_fields(tmp_path: Path) -> None:
    fingerprints = []
    for content, fields in [(b"one\n", None), (b"two\n", None), (b"one\n", ("words",)), (b"one\n", None)]:
        listing = open_text([write(tmp_path / "a.txt", content)], fields, tmp_path)
        fingerprints.append(listing.fingerprint())
    assert fingerprints[0] == fingerprints[3]
    assert len(set(fingerprints)) == 3


def parquet() -> bytes:
    stream = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": ["one", "two"]}), stream)
    return stream.getvalue().to_pybytes()


# Its header states a window of 2 GiB, as that of zstd --long=31.
WIDE_ZSTD = b"\x28\xb5\x2f\xfd\x00\xa8\x19\x00\x00one"
ZSTD = pa.compress(b"one", codec="zstd", asbytes=True)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.txt", None, "No such file"),
        ("folder", None, "cannot be read"),
        ("pipe.txt", None, "not a regular file"),
        ("cut.txt.gz", None, "cannot be unpacked"),
        ("empty.txt", b"", "no lines"),
        ("a.txt.gz", parquet(), "no text in UTF-8, but Parquet"),
        ("a.txt.gz", gzip.compress(ZSTD, mtime=0), "compressed twice"),
        ("a.txt.gz", gzip.compress(b"one", mtime=0), "compressed twice"),
        ("a.txt", lzma.compress(b"one"), "compressed with xz"),
        ("a.txt", bz2.compress(b"one"), "compressed with bzip2"),
        ("a.txt", "one\ntwo".encode("utf-16"), "no text in UTF-8, but UTF-16"),
        ("a.txt", "one\ntwo".encode("utf-32"), "no text in UTF-8, but UTF-32"),
        ("a.txt", "one\ntwo".encode("utf-16-le"), "it has zero bytes"),
        ("part-0.gz", b'[\n  {\n    "text": "one"}', "not a JSON array, or not a whole one"),
        ("part-0.gz", b'{\n  "data": [\n    {"text": "one"}]}', "a JSON object of several lines"),
        ("a.json", b'["one"]', "must hold an object in each line"),
        ("a.orc", b"one\n", "a .orc file is a table"),
        (
            "a.zst",
            WIDE_ZSTD,
            r"(?s)requires too much memory.*zstd -dc --long=31 .*a\.zst \| stoker convert-text",
        ),
        ("a.csv", b"text,label\none,1,2\n", "line 2 cannot be parsed: 3 fields where the header has 2"),
        ("a.csv", b'text\n"one\\"s" word\n', r"(?s)line 2 cannot be parsed.*its own quotes doubled"),
        ("a.csv", "n\xf6,text\na,b\n".encode("latin-1"), r"(?s)header is not UTF-8.*iconv -f LATIN1"),
        ("a.csv", b"body;label\none, two;1\n", r"(?s)the table has no field 'text'.*from: body, label"),
        ("a.csv", b'text\n"one\ntwo\n', "cannot be parsed: unexpected end of data"),
        ("a.tsv", b"text\ttext\none\t1\n", "two columns have the same name"),
        ("a.csv", b"body,label\none,1\n", r"(?s)the table has no field 'text'.*from: body, label"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_files_that_are_no_lines_of_text_are_refused(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(b"line\n" * 1000)[:-12])
    if content is not None:
        write(tmp_path / name, content)
    with pytest.raises(SourceError, match=message) as caught:
        all_texts([tmp_path / name])
    assert caught.value.path == str(tmp_path / name)
    assert caught.value.hint or not content or "array" in message


OBJECTS = [{"text": "one"}, {"text": "two"}]


@pytest.mark.parametrize("name", ["part-00000", "part-00001.gz", "web.txt", "web.json-lines", "WEB.TXT.gz"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf", b"\n \r\n"])
def test_objects_are_json_lines_under_any_name(tmp_path: Path, name: str, start: bytes) -> None:
    path = write(tmp_path / name, start + b"".join(json.dumps(row).encode() + b"\r\n" for row in OBJECTS))
    empty = write(tmp_path / "part-2", b"")
    named = write_rows(tmp_path / "more.jsonl", OBJECTS)
    texts = [text for text in all_texts([path, empty, named]) if len(text) == 1]
    assert texts == [("one",), ("two",)] * 2


@pytest.mark.parametrize("lines", ['{"text": "a"}\none', "{}\n{}", "{one}", '["a"]', "{", '"a"', "1"])
def test_lines_that_only_look_like_objects_are_text(tmp_path: Path, lines: str) -> None:
    path = write(tmp_path / "a.txt", lines.encode())
    assert all_texts([path]) == [(line,) for line in lines.split("\n")]
    with pytest.raises(ConfigError, match="cannot form one corpus") as caught:
        all_texts([write_rows(tmp_path / "part-0", OBJECTS), path])
    assert caught.value.path == str(path)


def test_lines_of_parallel_files_may_be_objects(tmp_path: Path) -> None:
    paths = [write(tmp_path / "a.in", b"hello\n"), write(tmp_path / "a.out", b'{"intent": "greet"}\n')]
    assert all_texts(paths, parallel=True) == [("hello", '{"intent": "greet"}')]


@pytest.mark.parametrize("text", ["ORC armies", "PK is a key", "BZh, said the bee", "%d PDF", "ARROW 1"])
def test_text_that_begins_like_a_binary_file_is_text(tmp_path: Path, text: str) -> None:
    assert all_texts([write(tmp_path / "a.txt", text.encode())]) == [(text,)]


ROWS: list[dict[str, Any]] = [
    {"review": "w " * (1 + i % 5), "stars": ("bad", "good", "fine")[i % 3 % (1 + i % 2 * 2)], "score": i / 4}
    for i in range(30)
]


@pytest.mark.parametrize("source", ["jsonl", "parquet", "dicts"])
def test_labels_and_columns_reach_the_batches(tmp_path: Path, source: str) -> None:
    src: Any = ROWS
    if source == "jsonl":
        src = write_rows(tmp_path / "t.jsonl", ROWS)
    elif source == "parquet":
        src = tmp_path / "t.parquet"
        pq.write_table(pa.Table.from_pylist(ROWS), src)
    convert_text(src, tmp_path / "d", fields=["review"], label="stars", columns=["score"], seed=2)
    dataset = stoker.open(tmp_path / "d")
    assert dataset.classes == ("bad", "fine", "good")
    assert len(dataset.select(classes="bad")) == sum(row["stars"] == "bad" for row in ROWS)
    loader = stoker.TextLoader(dataset, batch_size=4, columns=("input_ids", "label", "score"))
    seen = [pair for batch in loader for pair in zip(batch.label.tolist(), batch.score.tolist(), strict=True)]
    named = {score: dataset.classes[label] for label, score in seen}
    assert named == {row["score"]: row["stars"] for row in ROWS}
    columns, sampler = ("input_ids", "label"), stoker.ClassBalanced()
    balanced = stoker.TextLoader(dataset, batch_size=4, columns=columns, sampler=sampler)
    assert set(Counter(label for batch in balanced for label in batch.label.tolist()).values()) == {10}


def test_a_line_without_a_label_is_skipped_and_integers_stay_as_they_are(tmp_path: Path) -> None:
    rows = [{"text": "a", "y": 4}, {"text": "b"}, {"text": "c", "y": None}, {"text": "d", "y": 7, "n": 1}]
    source = write_rows(tmp_path / "t.jsonl", [*rows, "no object"])
    with pytest.raises(SourceError, match="3 of 5 samples would be left out, more than 1%"):
        convert_text(source, tmp_path / "d", label="y")
    summary = convert_text(source, tmp_path / "d", label="y", allow_loss=0.6)
    assert summary.skipped == {"no label in 'y'": 2, "not JSON": 1}
    dataset = stoker.open(tmp_path / "d")
    assert (dataset.labels.tolist(), dataset.classes) == ([4, 7], ())
    assert convert_text(source, tmp_path / "d", label="y", allow_loss=0.6).already
    with pytest.raises(DatasetError, match="already"):
        convert_text(source, tmp_path / "d")


@pytest.mark.parametrize("form", ["jsonl", "dicts"])
def test_a_missing_value_does_not_change_large_integers(tmp_path: Path, form: str) -> None:
    rows = [{"text": "a", "id": (1 << 53) + 1}, {"text": "b", "id": 1}, {"text": "c", "id": None}]
    made: dict[int, Any] = {
        n: rows[:n] if form == "dicts" else write_rows(tmp_path / str(n), rows[:n]) for n in (2, 3)
    }
    convert_text(made[2], tmp_path / "d", tokenizer="bytes", columns=["id"])
    assert stoker.open(tmp_path / "d").column("id").tolist() == [(1 << 53) + 1, 1]
    with pytest.raises(SourceError, match="column 'id' must keep its integers, found 9007199254740993"):
        convert_text(made[3], tmp_path / "e", tokenizer="bytes", columns=["id"])


def test_labels_are_numbered_in_the_order_of_the_classes_option(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "t.jsonl", ROWS)
    options: dict[str, Any] = {"fields": ["review"], "label": "stars"}
    convert_text(source, tmp_path / "d", classes=["good", "fine", "bad"], **options)
    names = [("good", "fine", "bad")[label] for label in stoker.open(tmp_path / "d").labels]
    assert names == [row["stars"] for row in ROWS]
    with pytest.raises(SourceError, match="fine"):
        convert_text(source, tmp_path / "e", classes=["good", "bad"], **options)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"label": "star"}, SourceError, "no value 'star'"),
        ({"columns": ["record"]}, ConfigError, "index uses"),
        ({"columns": ["review_length"]}, ConfigError, "index and batches use"),
        ({"columns": ["input_ids"]}, ConfigError, "index and batches use"),
        ({"classes": ["a", "b"]}, ConfigError, "no label is read"),
        ({"columns": ["score", "score"]}, ConfigError, "different"),
        ({"lines": True, "label": "y"}, ConfigError, "files of lines"),
    ],
)
def test_labels_columns_and_classes_that_do_not_fit_the_source_are_refused(
    tmp_path: Path, options: Any, error: Any, message: str
) -> None:
    rows: list[Any] = ["one", "two"] if options.pop("lines", False) else ROWS
    with pytest.raises(error, match=message):
        convert_text(write_rows(tmp_path / "t", rows), tmp_path / "d", fields=["review"], **options)


def test_a_writer_takes_labels_and_splits_each_class(tmp_path: Path) -> None:
    with stoker.TextWriter(tmp_path / "d", val="50%", tokenizer="bytes") as writer:
        for i in range(8):
            writer.write("one two", ("no", "yes")[i % 2], score=np.float32(i))
        with pytest.raises(ConfigError, match="both have a label"):
            writer.write("one", score=np.float32(1))
    for split in ("train", "val"):
        dataset = stoker.open(tmp_path / "d" / split)
        assert dataset.classes == ("no", "yes")
        assert np.bincount(dataset.labels).tolist() == [2, 2]  # the share is taken of each class
        assert (dataset.column("score") % 2 == dataset.labels).all()


def test_packed_rows_name_the_sample_of_each_segment(tmp_path: Path) -> None:
    rows = [{"text": f"w{i} " * (1 + i % 5)} for i in range(40)]
    convert_text(rows, tmp_path / "d")
    dataset = stoker.open(tmp_path / "d")
    columns = ("input_ids", "segment_ids", "row")
    loader = stoker.TextLoader(dataset, batch_size=3, pack=12, shuffle=True, columns=columns)
    shapes = {spec.name: spec.shape for spec in loader.element_spec()}
    first = {row: int(np.frombuffer(dataset.read(row), "<u2")[0]) for row in range(40)}
    seen: list[int] = []
    for ids, segments, samples in loader:
        assert samples.shape[1:] == shapes["row"]
        for number in range(1, samples.shape[1] + 1):
            for row in np.flatnonzero((segments == number).any(axis=1)):
                sample = int(samples[row, number - 1])
                assert set(ids[row][segments[row] == number].tolist()) == {first[sample]}
                seen.append(sample)
            assert (samples[(segments != number).all(axis=1), number - 1] == -1).all()
    assert sorted(seen) == list(range(40))
