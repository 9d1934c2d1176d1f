"""Datasets of Stoker, TFRecord files and LMDB folders as sources of conversions."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from helpers.datasets import jpeg
from helpers.images import noise
from helpers.options import convert
from PIL import Image

import stoker
from stoker.errors import ConfigError, DatasetError, SourceError
from stoker.formats.dataset.dataset import Dataset


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """Six samples with labels, objects with masks, a class mask, an array, a number and a text."""
    with stoker.Writer(tmp_path / "full", classes=["cat", "dog"]) as writer:
        for i in range(6):
            mask = np.zeros((24, 32), np.uint8)
            mask[4:12, 8:16] = 1
            writer.write(
                jpeg(i, 24, 32), key=f"k{i}", label=i % 2, boxes=[[8, 4, 16, 12]], box_labels=["dog"],
                masks=[mask], segmentation=mask, vector=np.arange(3, dtype=np.float32) * i,
                score=i / 2, name=f"n{i}",
            )  # fmt: skip
    return tmp_path / "full"


def _all_of(dataset: Dataset) -> list[object]:
    every = range(len(dataset))
    objects = dataset.annotations(every)
    return [
        dataset.classes, dataset.keys(every), dataset.labels.tolist(),
        objects.boxes.tolist(), objects.labels.tolist(),
        [runs.tolist() for runs in objects.runs or ()], [dataset.mask(i) for i in every],
        [dataset.array("vector", i).tolist() for i in every], dataset.column("score").tolist(),
        dataset.strings("name", every), [dataset.read(i) for i in every], dataset.arrays,
    ]  # fmt: skip


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_a_dataset_is_converted_with_all_that_it_has(full: Path, tmp_path: Path, container: str) -> None:
    assert convert(full, tmp_path / "out", container=container, shards=2).written == 6
    copied = stoker.open(tmp_path / "out")
    assert _all_of(copied) == _all_of(stoker.open(full))
    assert stoker.verify(tmp_path / "out", decode=True).found == 0


def test_a_resized_dataset_is_resized_again_and_leads_back_to_its_source(full: Path, tmp_path: Path) -> None:
    convert(full, tmp_path / "half", resize="shorter=12")
    convert(tmp_path / "half", tmp_path / "quarter", resize="shorter=6")
    dataset = stoker.open(tmp_path / "quarter")
    assert dataset[0].image.shape == (6, 8, 3)
    assert dataset.annotations([0]).boxes.tolist() == [[2, 1, 4, 3]]
    sizes, matrices = dataset.origins([0])
    assert (sizes.tolist(), matrices[0].diagonal().tolist()) == ([[24, 32]], [4, 4, 1])


def test_a_selection_is_converted_with_its_classes_and_objects(full: Path, tmp_path: Path) -> None:
    dataset = stoker.open(full)
    convert(dataset.select([4, 1], objects="area > 100"), tmp_path / "out")
    few = stoker.open(tmp_path / "out")
    assert (few.keys([0, 1]), len(few.annotations([0, 1]))) == (["k4", "k1"], 0)
    with stoker.Writer(tmp_path / "labelled") as writer:
        for i, name in enumerate(("cat", "dog", "eel")):
            writer.write(jpeg(i), key=name, label=name)
    chosen = stoker.open(tmp_path / "labelled").select(classes=["eel", "cat"], renumber=True)
    convert(chosen, tmp_path / "renumbered")
    out = stoker.open(tmp_path / "renumbered")
    assert (out.classes, dict(zip(out.keys([0, 1]), out.labels.tolist(), strict=True))) == (
        ("eel", "cat"),
        {"cat": 1, "eel": 0},
    )


def test_restart_markers_and_captions_stay(tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / f"{i}.jpg").write_bytes(jpeg(i, 64, 64))
    lines = [f"{i}.jpg,cat,hello {i}" for i in range(3)]
    (tmp_path / "list.csv").write_text("\n".join(["path,label,text", *lines]))
    convert(tmp_path / "list.csv", tmp_path / "in", restarts=True, caption_column="text", tokenizer="bytes")
    convert(tmp_path / "in", tmp_path / "out")
    first, second = stoker.open(tmp_path / "in"), stoker.open(tmp_path / "out")
    assert first.types == second.types
    assert (
        second.lists("caption_ids", [1]).values.tobytes() == first.lists("caption_ids", [1]).values.tobytes()
    )
    assert second.manifest.options["tokenizer"] == "bytes"
    assert second.samples([0]).bands is not None
    assert convert(tmp_path / "in", tmp_path / "out").already


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_shards_of_other_programs_are_converted(tmp_path: Path, container: str) -> None:
    for kind in ("cat", "dog"):
        for i in range(2):
            (tmp_path / "photos" / kind).mkdir(parents=True, exist_ok=True)
            (tmp_path / "photos" / kind / f"{i}.jpg").write_bytes(jpeg(i, 32, 32))
    convert(tmp_path / "photos", tmp_path / "in", container=container, shards=1)
    (tmp_path / "shards").mkdir()
    suffix = {"tfrecord": ".tfrecord", "lmdb": ".lmdb"}[container]
    shard = next((tmp_path / "in").glob(f"*{suffix}"))
    source = tmp_path / "shards" / ("train-00000-of-00001" if container == "tfrecord" else "data")
    shard.rename(source)
    for path in (source, *([source.parent] if container == "tfrecord" else [])):
        convert(path, tmp_path / "out", resize="shorter=16", overwrite=True)
        out = stoker.open(tmp_path / "out")
        assert [key[-9:] for key in out.keys(range(4))] == [
            "cat/0.jpg",
            "cat/1.jpg",
            "dog/0.jpg",
            "dog/1.jpg",
        ]
        assert (out.labels.tolist(), out[0].image.shape) == ([0, 0, 1, 1], (16, 16, 3))
    if container == "tfrecord":
        (source.parent / "validation-00000-of-00001").write_bytes(source.read_bytes())
        with pytest.raises(SourceError, match="splits train and val"):
            convert(source.parent, tmp_path / "out2")


def test_datasets_that_are_no_images_are_refused_by_name(full: Path, tmp_path: Path) -> None:
    convert(full, tmp_path / "raw", encoding="raw", resize="crop=8x8")
    stoker.convert_text(iter(["some", "text"]), tmp_path / "text", tokenizer="bytes")
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    Image.fromarray(noise(0, 8, 8)).save(tmp_path / "photos" / "cat" / "0.png")
    dataset = stoker.open(full)
    (tmp_path / "splits").mkdir()
    for split in ("train", "val"):
        convert(full, tmp_path / "splits" / split)
    for source, words in (
        (tmp_path / "raw", "raw pixels"),
        (tmp_path / "text", "holds text"),
        (stoker.open(tmp_path / "photos"), "image files in place"),
        (dataset.select(each="object"), "samples are objects"),
        (dataset.select([]), "no sample"),
        (tmp_path / "splits", r"the datasets train and val.*\n.*stoker convert .*/splits/train TARGET/train"),
    ):
        with pytest.raises(SourceError, match=words):
            convert(source, tmp_path / "out")
    with pytest.raises(ConfigError, match="the dataset itself"):
        stoker.append(full, full)


def test_a_dataset_is_never_overwritten_by_its_own_conversion(full: Path) -> None:
    url = f"file://{full}"
    for source in (full, url, f"{full}@1", f"{url}@1", stoker.open(full).select([0]), f"{full}/*.tfrecord"):
        for target in (full, url, f"{full.parent}/./full/"):
            with pytest.raises(ConfigError, match="would mix with shards"):
                convert(source, target, overwrite=True, resize="shorter=8", allow_loss=1)
    assert stoker.verify(full).found == 0


@pytest.mark.parametrize("place", ["{}", "file://{}"])
def test_a_dataset_that_was_repaired_is_read_again(full: Path, tmp_path: Path, place: str) -> None:
    (shard,) = full.glob("*.tfrecord")
    whole = shard.read_bytes()
    shard.write_bytes(bytes(len(whole)))
    os.utime(shard, ns=(10**18, 10**18))
    with pytest.raises(SourceError, match="checksum does not match"):
        convert(place.format(full), tmp_path / "out")
    shard.write_bytes(whole)
    assert convert(place.format(full), tmp_path / "out", overwrite=True).written == 6


def test_captions_of_a_dataset_at_a_url_stay(tmp_path: Path) -> None:
    words = pytest.importorskip("tokenizers")
    model = words.models.WordLevel({"[UNK]": 0, "hello": 1, "you": 2}, unk_token="[UNK]")
    tokenizer = words.Tokenizer(model)
    tokenizer.pre_tokenizer = words.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "words.json"))
    (tmp_path / "0.jpg").write_bytes(jpeg(0))
    (tmp_path / "list.csv").write_text("path,text\n0.jpg,hello you\n")
    convert(
        tmp_path / "list.csv", tmp_path / "in", caption_column="text", tokenizer=str(tmp_path / "words.json")
    )
    convert(f"file://{tmp_path}/in", tmp_path / "out")
    out = stoker.open(tmp_path / "out")
    assert (out.lists("caption_ids", [0]).values.tolist(), out.token_id("you")) == ([1, 2], 2)
    assert stoker.open(f"file://{tmp_path}/out", cache=tmp_path / "cache").token_id("you") == 2
    (tmp_path / "in" / "tokenizer.json").write_bytes(b"{}")
    with pytest.raises(DatasetError, match=r"tokenizer\.json has changed"):
        convert(tmp_path / "in", tmp_path / "out2")


def test_samples_are_made_of_a_dataset(full: Path, tmp_path: Path) -> None:
    convert(
        stoker.open(full), tmp_path / "out", make=lambda sample: {"image": sample.image, "key": sample.key}
    )
    assert stoker.open(tmp_path / "out").keys([0]) == ["k0"]


def test_a_damaged_record_is_left_out(full: Path, tmp_path: Path) -> None:
    at = stoker.open(full).samples([2])
    file = next(full.glob("*.tfrecord"))
    content = bytearray(file.read_bytes())
    content[int(at.offset[0]) + int(at.length[0]) // 2] ^= 1
    file.write_bytes(content)
    summary = convert(full, tmp_path / "out", allow_loss=1)
    assert summary.skipped == {"record whose checksum does not match": 1}
    assert summary.written == 5
