"""``stoker.TextWriter``, and ``stoker.convert_text`` of texts in Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.datasets import WORDS, read_files
from helpers.options import convert_text

import stoker
from stoker.errors import ConfigError, DatasetError, LockedError, SourceError

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

TEXTS = ["one two", "three", "two two one", "four five six seven"]


def ids(target: Path, position: int) -> list[int]:
    dataset = stoker.open(target)
    return np.frombuffer(dataset.read(position), str(dataset.manifest.options["dtype"])).tolist()


@pytest.mark.parametrize("tokenizer", [WORDS, "bytes"])
def test_written_texts_have_the_tokens_of_the_same_lines_in_a_file(tmp_path: Path, tokenizer: str) -> None:
    (tmp_path / "lines.txt").write_text("\n".join(TEXTS))
    convert_text(tmp_path / "lines.txt", tmp_path / "file", tokenizer=tokenizer, shards=2)
    with stoker.TextWriter(
        tmp_path / "out", tokenizer=tokenizer, fields=["tokens"], storage=stoker.Storage(shards=2)
    ) as writer:
        for text in TEXTS:
            writer.write(text)
        assert len(writer) == 4
    for i in range(4):
        assert ids(tmp_path / "out", i) == ids(tmp_path / "file", i)
    assert stoker.open(tmp_path / "out").keys(range(4)) == [f"{i:08d}" for i in range(4)]
    assert stoker.verify(tmp_path / "out").ok


def test_columns_and_keys_are_in_the_dataset_and_its_batches(tmp_path: Path) -> None:
    with stoker.TextWriter(tmp_path / "out", tokenizer="bytes", seed=1) as writer:
        for i, text in enumerate(TEXTS):
            writer.write(text, key=f"k{i}", source="ab"[i % 2], score=i / 2)
    dataset = stoker.open(tmp_path / "out")
    keys = dataset.keys(range(4))
    assert sorted(keys) == ["k0", "k1", "k2", "k3"]
    assert dataset.column("score").tolist() == [int(key[1:]) / 2 for key in keys]
    with stoker.TextLoader(dataset, batch_size=2, columns=("input_ids", "source", "score")) as loader:
        sources = [source for batch in loader for source in batch.source]
    assert sorted(sources) == ["a", "a", "b", "b"]


def test_each_split_has_the_lengths_of_every_field(tmp_path: Path) -> None:
    with stoker.TextWriter(
        tmp_path / "out", fields=("source", "target"), val="25%", tokenizer=WORDS
    ) as writer:
        for text in TEXTS:
            writer.write(source=text, target=text[::-1])
    train, val = (stoker.open(tmp_path / "out" / split) for split in ("train", "val"))
    assert (len(train), len(val)) == (3, 1)
    assert all({"source_length", "target_length"} <= set(dataset.columns) for dataset in (train, val))


@pytest.mark.parametrize(
    "source",
    [
        lambda: iter(TEXTS),
        lambda: (text for text in TEXTS),
        lambda: [{"tokens": text, "id": i} for i, text in enumerate(TEXTS)],
    ],
)
def test_an_iterable_of_texts_or_of_dicts_is_converted(tmp_path: Path, source: Callable[[], Any]) -> None:
    with stoker.TextWriter(tmp_path / "written", tokenizer="bytes", fields=["tokens"]) as writer:
        for text in TEXTS:
            writer.write(text)
    convert_text(source(), tmp_path / "out", tokenizer="bytes", fields=["tokens"])
    assert read_files(tmp_path / "out") == read_files(tmp_path / "written")


def test_a_list_of_strings_names_files(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="No such file"):
        convert_text(TEXTS, tmp_path / "out")


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ({"text": None, "score": 1.0}, "no text in the field 'text'"),
        ({"text": "b"}, "do not both have 'score'"),
        ({"text": "b", "score": "x"}, "column 'score' holds a text"),
    ],
)
def test_a_sample_that_does_not_fit_is_refused_and_the_writer_goes_on(
    tmp_path: Path, sample: dict[str, Any], message: str
) -> None:
    with stoker.TextWriter(tmp_path / "out", tokenizer="bytes") as writer:
        writer.write("a", score=1.0)
        with pytest.raises(ConfigError, match=message) as caught:
            writer.write(**sample, key="second")
        assert caught.value.key == "second"
        writer.write("b", score=2.0)
    assert stoker.open(tmp_path / "out").column("score").tolist() == [1, 2]


def test_a_folder_has_one_writer_at_a_time_and_no_dataset_until_it_is_closed(tmp_path: Path) -> None:
    writer = stoker.TextWriter(tmp_path / "out", tokenizer=WORDS)
    writer.write("a")
    with pytest.raises(ZeroDivisionError), writer:
        1 / 0  # noqa: B018 - any error
    assert list((tmp_path / "out").iterdir()) == []
    with stoker.TextWriter(tmp_path / "out", tokenizer=WORDS) as writer:
        writer.write("a b")
        with pytest.raises(LockedError):
            stoker.TextWriter(tmp_path / "out", tokenizer=WORDS)
        with pytest.raises(DatasetError):
            stoker.open(tmp_path / "out")
    assert len(stoker.open(tmp_path / "out")) == 1


def test_a_writer_replaces_a_dataset_only_with_overwrite(tmp_path: Path) -> None:
    for text in ("a b", "c"):
        with stoker.TextWriter(tmp_path / "out", tokenizer="bytes", overwrite=text == "c") as writer:
            writer.write(text)
        with pytest.raises(DatasetError, match="there is a dataset in the folder already"):
            stoker.TextWriter(tmp_path / "out", tokenizer=WORDS)
    assert ids(tmp_path / "out", 0) == [ord("c")]


def test_a_writer_without_texts_or_with_contradicting_options_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no text was written"):
        stoker.TextWriter(tmp_path / "empty", tokenizer=WORDS).close()
    with pytest.raises(ConfigError, match="shards are made by one of"):
        stoker.TextWriter(
            tmp_path / "other", tokenizer=WORDS, storage=stoker.Storage(shards=2, shard_records=3)
        )


@pytest.mark.parametrize("label", [-1, True, 0.5, ""])
def test_a_label_is_the_name_or_the_number_of_a_class(tmp_path: Path, label: Any) -> None:
    with stoker.TextWriter(tmp_path / "d", tokenizer="bytes") as writer:
        writer.write("one", 0)
        with pytest.raises(ConfigError, match="label must be the name or the number of a class, found"):
            writer.write("two", label)
    assert stoker.open(tmp_path / "d").labels.tolist() == [0]
