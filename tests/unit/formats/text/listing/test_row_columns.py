"""Labels and columns of text: in the index, in batches, and as classes of selections and samplers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stoker
from stoker.errors import ConfigError, DatasetError, SourceError

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

ROWS: list[dict[str, Any]] = [
    {"review": "w " * (1 + i % 5), "stars": ("bad", "good", "fine")[i % 3 % (1 + i % 2 * 2)], "score": i / 4}
    for i in range(30)
]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.mark.parametrize("source", ["jsonl", "parquet", "dicts"])
def test_labels_and_columns_reach_the_batches(tmp_path: Path, source: str) -> None:
    src: Any = ROWS
    if source == "jsonl":
        src = write(tmp_path / "t.jsonl", ROWS)
    elif source == "parquet":
        src = tmp_path / "t.parquet"
        pq.write_table(pa.Table.from_pylist(ROWS), src)
    stoker.convert_text(
        src, tmp_path / "d", tokenizer="bytes", fields=["review"], label="stars", columns=["score"], seed=2
    )
    dataset = stoker.open(tmp_path / "d")
    assert dataset.classes == ("bad", "fine", "good")
    assert len(dataset.select(classes="bad")) == sum(row["stars"] == "bad" for row in ROWS)
    loader = stoker.TextLoader(dataset, batch_size=4, columns=("input_ids", "label", "score"))
    seen = [pair for batch in loader for pair in zip(batch.label.tolist(), batch.score.tolist(), strict=True)]
    assert {score: dataset.classes[label] for label, score in seen} == {
        row["score"]: row["stars"] for row in ROWS
    }
    balanced = stoker.TextLoader(
        dataset, batch_size=4, columns=("input_ids", "label"), sampler=stoker.ClassBalanced()
    )
    assert set(Counter(label for batch in balanced for label in batch.label.tolist()).values()) == {10}


def test_a_line_without_a_label_is_skipped_and_integers_stay_as_they_are(tmp_path: Path) -> None:
    rows = [{"text": "a", "y": 4}, {"text": "b"}, {"text": "c", "y": None}, {"text": "d", "y": 7, "n": 1}]
    (tmp_path / "t.jsonl").write_text("\n".join([*map(json.dumps, rows), "no object"]))
    summary = stoker.convert_text(tmp_path / "t.jsonl", tmp_path / "d", label="y")
    assert summary.skipped == {"no label in 'y'": 2, "not JSON": 1}
    dataset = stoker.open(tmp_path / "d")
    assert (dataset.labels.tolist(), dataset.classes) == ([4, 7], ())


def test_a_conversion_with_another_label_is_another_conversion(tmp_path: Path) -> None:
    source = write(tmp_path / "t.jsonl", [{"text": "a", "y": 4}, {"text": "b", "y": 7}])
    stoker.convert_text(source, tmp_path / "d", label="y")
    assert stoker.convert_text(source, tmp_path / "d", label="y").already
    with pytest.raises(DatasetError, match="already"):
        stoker.convert_text(source, tmp_path / "d")


def test_labels_are_numbered_in_the_order_of_the_classes_option(tmp_path: Path) -> None:
    source = write(tmp_path / "t.jsonl", ROWS)
    stoker.convert_text(
        source, tmp_path / "d", fields=["review"], label="stars", classes=["good", "fine", "bad"]
    )
    names = [("good", "fine", "bad")[label] for label in stoker.open(tmp_path / "d").labels]
    assert names == [row["stars"] for row in ROWS]
    with pytest.raises(SourceError, match="fine"):
        stoker.convert_text(source, tmp_path / "e", fields=["review"], label="stars", classes=["good", "bad"])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"label": "star"}, SourceError, "no value 'star'"),
        ({"columns": ["record"]}, ConfigError, "index uses"),
        ({"columns": ["review_length"]}, ConfigError, "index uses"),
        ({"classes": ["a", "b"]}, ConfigError, "no label is read"),
        ({"columns": ["score", "score"]}, ConfigError, "different"),
    ],
)
def test_labels_columns_and_classes_that_do_not_fit_the_source_are_refused(
    tmp_path: Path, options: Any, error: Any, message: str
) -> None:
    source = write(tmp_path / "t.jsonl", ROWS)
    with pytest.raises(error, match=message):
        stoker.convert_text(source, tmp_path / "d", fields=["review"], **options)


def test_a_label_of_plain_lines_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("one\ntwo")
    with pytest.raises(ConfigError, match="files of lines"):
        stoker.convert_text(tmp_path / "t.txt", tmp_path / "d", label="y")


def test_a_writer_takes_labels_and_splits_each_class(tmp_path: Path) -> None:
    with stoker.TextWriter(tmp_path / "d", val="50%") as writer:
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
    stoker.convert_text(rows, tmp_path / "d")
    dataset = stoker.open(tmp_path / "d")
    loader = stoker.TextLoader(
        dataset, batch_size=3, pack=12, shuffle=True, columns=("input_ids", "segment_ids", "row")
    )
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
