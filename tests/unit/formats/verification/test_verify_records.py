"""Verification of what records and their indexes say beside the pixels."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.data.datasets import rewrite_index
from helpers.data.shards.toy_container import TOY

import stoker
from stoker.formats.containers import tfrecord
from stoker.formats.containers.messages.example import encode_example
from stoker.formats.containers.messages.image_record import FeatureNames
from stoker.formats.containers.registry import CONTAINERS, ContainerRow
from stoker.formats.dataset.columns.list_column import ListColumn
from stoker.formats.dataset.manifest import MANIFEST_NAME
from stoker.formats.external import external_index

Make = Callable[..., Path]


def test_the_index_that_dali_reads(tmp_path: Path, make_jpeg: Callable[..., bytes]) -> None:
    (tmp_path / "photos" / "a").mkdir(parents=True)
    (tmp_path / "photos" / "a" / "0.jpg").write_bytes(make_jpeg(0))
    stoker.convert(tmp_path / "photos", tmp_path / "shards")
    shard = stoker.open(tmp_path / "shards").data_files[0]
    external_index.index([shard], tmp_path / "external")
    for folder, name in (("shards", "shard-00000-of-00001.idx"), ("external", f"{shard.name}.idx")):
        assert stoker.verify(tmp_path / folder).ok
        index = tmp_path / folder / name
        good = index.read_text()
        for bad in (good.replace("0 ", "1 ", 1), good + good, ""):
            index.write_text(bad)
            assert [".idx" in problem.message for problem in stoker.verify(tmp_path / folder).problems] == [
                True
            ]
        index.unlink()
        assert stoker.verify(tmp_path / folder).ok, "only DALI's reader needs it"


def test_records_that_contradict_the_classes_of_their_dataset(
    tmp_path: Path, make_jpeg: Callable[..., bytes]
) -> None:
    shards = []
    for name, classes in (("a", [b"cat", b"dog"]), ("b", [b"bird", b"dog"])):
        shards.append(tmp_path / name)
        with tfrecord.TFRecordWriter(shards[-1]) as writer:
            for label, text in enumerate(classes):
                features = {"image/class/label": [label], "image/class/text": text}
                record = encode_example({"image/encoded": make_jpeg(label), **features})[0]
                writer.write(b"", record, b"", b"")
            writer.finish()
    # As it was indexed when the first name of a label counted.
    external_index.index(shards, tmp_path / "into", names=FeatureNames(text=None), classes=["cat", "dog"])
    manifest = json.loads((tmp_path / "into" / MANIFEST_NAME).read_text())
    manifest["options"]["text"] = "image/class/text"
    (tmp_path / "into" / MANIFEST_NAME).write_text(json.dumps(manifest))
    assert [str(problem) for problem in stoker.verify(tmp_path / "into").problems] == [
        "shard b, record 0: records contradict each other: label 0 is 'bird' here and 'cat' before"
    ]


def test_classes_are_compared_in_any_container_whose_records_name_them(
    tmp_path: Path, make_jpeg: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = iter(["cat", "cat", "cat", "bird"])  # as indexing and verification read two records
    parse = TOY.parse_image
    named = replace(TOY, parse_image=lambda *record: replace(parse(*record), text=next(texts)))
    monkeypatch.setitem(CONTAINERS, "toy", ContainerRow(lambda: named, "toys"))
    assert TOY.writing is not None
    with TOY.writing.writer(tmp_path / "a.toy") as writer:
        for number in range(2):
            writer.write(b"%d" % number, b"0\n", make_jpeg(number), b"")
        writer.finish()
    external_index.index([tmp_path / "a.toy"], tmp_path / "into")
    assert [str(problem) for problem in stoker.verify(tmp_path / "into").problems] == [
        "shard a.toy, record 1: records contradict each other: label 0 is 'bird' here and 'cat' before"
    ]


@pytest.mark.parametrize("several", [False, True], ids=["one label", "lists of labels"])
def test_labels_without_a_class(make_dataset: Make, several: bool) -> None:
    folder = make_dataset()
    classes = stoker.open(folder).num_classes
    labels = [0, classes, 0, -1, 0, 0]
    column = ListColumn.of_counts([1, 1, 0, 2, 1, 1], np.array(labels)).to_arrow()
    rewrite_index(folder, label=column if several else np.array(labels))
    problems = stoker.verify(folder).problems
    assert [problem.key for problem in problems] == ["k1", "k3"]
    assert problems[0].message == f"label {classes} is none of the {classes} classes"
