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
from stoker.formats.containers.image_record import FeatureNames
from stoker.formats.containers.protobuf import encode_example
from stoker.formats.containers.registry import CONTAINERS, ContainerRow
from stoker.formats.dataset.columns.list_column import ListColumn
from stoker.formats.dataset.manifest import MANIFEST_NAME
from stoker.formats.in_place import shards as external_index

Make = Callable[..., Path]


@pytest.mark.parametrize("external", [False, True])
def test_a_wrong_index_file_of_dali_is_found_and_a_missing_one_is_not_needed(
    tmp_path: Path, make_jpeg: Callable[..., bytes], external: bool
) -> None:
    (tmp_path / "photos" / "a").mkdir(parents=True)
    (tmp_path / "photos" / "a" / "0.jpg").write_bytes(make_jpeg(0))
    stoker.convert(tmp_path / "photos", tmp_path / "shards")
    folder, shard = tmp_path / "shards", stoker.open(tmp_path / "shards").data_files[0]
    if external:
        folder = tmp_path / "external"
        external_index.index([shard], folder)
    assert stoker.verify(folder).ok
    file = folder / (f"{shard.name}.idx" if external else "shard-00000-of-00001.idx")
    content = file.read_text()
    for wrong in (content.replace("0 ", "1 ", 1), content + content, ""):
        file.write_text(wrong)
        (problem,) = stoker.verify(folder).problems
        assert ".idx" in problem.message
    file.unlink()
    assert stoker.verify(folder).ok, "only DALI's reader needs it"


def test_two_names_of_one_label_in_the_records_of_external_shards_are_found(
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
    # Earlier releases indexed such shards, and took the first name of a label.
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
    texts = iter(["cat", "cat", "cat", "bird"])  # indexing reads two records, then verification reads them
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
def test_a_label_that_is_not_a_class_is_found(make_dataset: Make, several: bool) -> None:
    folder = make_dataset()
    classes = stoker.open(folder).num_classes
    labels = [0, classes, 0, -1, 0, 0]
    column = ListColumn.of_counts([1, 1, 0, 2, 1, 1], np.array(labels)).to_arrow()
    rewrite_index(folder, label=column if several else np.array(labels))
    problems = stoker.verify(folder).problems
    assert [problem.key for problem in problems] == ["k1", "k3"]
    assert problems[0].message == f"label {classes} is none of the {classes} classes"
