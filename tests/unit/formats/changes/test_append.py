"""``stoker.append``: the samples of a further source become the next version of a dataset."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import annotations as coco_files
from helpers.command_line import run
from helpers.datasets import jpeg
from helpers.options import convert_options, text_options
from PIL import Image

import stoker
from stoker.errors import ConfigError, DatasetError, LockedError, SourceError
from stoker.formats.files import folder_lock

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


@pytest.fixture
def more(tmp_path: Path, make_jpeg: Callable[..., bytes]) -> Path:
    """Four more pictures of the classes of ``photos``."""
    for number in range(4):
        file = tmp_path / "more" / ("cat", "dog")[number % 2] / f"new-{number}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(make_jpeg(number, 40, 50))
    return tmp_path / "more"


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_new_photographs_are_converted_as_the_dataset_was(
    photos: Path, more: Path, tmp_path: Path, container: str
) -> None:
    target = tmp_path / "out"
    options = {"format": container, "resize": "squash=24x32", "encoding": "jpeg", "shards": 2}
    stoker.convert(photos, target, **convert_options(options))
    before = {path: path.read_bytes() for path in target.rglob("*") if path.is_file()}
    summary = stoker.append(target, more)
    assert (summary.version, summary.samples, summary.added) == (2, 34, 4)
    dataset = stoker.open(target)
    assert np.bincount(dataset.labels).tolist() == [12, 12, 10]
    assert dataset.keys([30, 33]) == ["cat/new-0.jpg", "dog/new-3.jpg"]
    assert set(dataset.column("height").tolist()) == {24}
    assert (dataset.lists("jpeg_bands", range(34)).counts > 0).all(), "restart markers as in the dataset"
    assert stoker.verify(target, decode=True).ok
    changed = {path.name for path, content in before.items() if path.read_bytes() != content}
    assert changed == {"dataset.json", "sha256.json"}, "shards and the first index stay as they are"
    assert stoker.open(target, version=1).keys(range(30)) == dataset.keys(range(30))
    assert not list(target.glob(".*"))


def test_the_same_command_adds_the_samples_once(photos: Path, more: Path, tmp_path: Path) -> None:
    stoker.convert(photos, tmp_path / "out")
    stoker.append(tmp_path / "out", more)
    again = stoker.append(tmp_path / "out", more)
    assert again.already
    assert (again.version, again.samples, again.added) == (2, 34, 0)


def test_text_is_tokenized_as_the_dataset_was(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo words\n")
    (tmp_path / "b.txt").write_text("three\n")
    stoker.convert_text(tmp_path / "a.txt", tmp_path / "out", tokenizer="bytes")
    assert stoker.append(tmp_path / "out", tmp_path / "b.txt").samples == 3
    dataset = stoker.open(tmp_path / "out")
    assert dataset.keys([2]) == ["b.txt:1"]
    assert np.frombuffer(dataset.read(2), "<u2").tolist() == list(b"three")
    assert stoker.verify(tmp_path / "out").ok


def test_texts_with_labels_and_columns_are_appended_on_the_command_line(tmp_path: Path) -> None:
    rows = [{"text": "one", "topic": "a", "score": 0.5}, {"text": "two", "topic": "b", "score": 2}]
    first, more, out = tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "out"
    first.write_text("".join(json.dumps(row) + "\n" for row in rows))
    more.write_text(json.dumps(rows[1]) + "\n" + "bad\n" * 3)
    run("convert-text", first, out, "--label", "topic", "--columns", "score", "--tokenizer", "bytes")
    with pytest.raises(ConfigError, match=r"label= which value.* On the command line: --label"):
        run("append", out, more)
    with pytest.raises(SourceError, match="On the command line: --allow-loss"):
        run("append", out, more, "--label", "topic")
    run("append", out, more, "--label", "topic", "--allow-loss", "75%")
    dataset = stoker.open(out)
    assert (dataset.labels.tolist(), dataset.column("score").tolist()) == ([0, 1, 1], [0.5, 2, 2])
    more.write_text(json.dumps({**rows[1], "score": (1 << 53) + 1}))
    with pytest.raises(ConfigError, match="numbers that a float holds"):
        run("append", out, more, "--label", "topic")


def test_samples_with_objects_masks_and_columns_are_appended(
    write_objects: Callable[..., Path], samples: Callable[[range], list[dict[str, Any]]]
) -> None:
    folder = write_objects("out", range(4))
    stoker.append(folder, samples(range(4, 9)))
    dataset = stoker.open(folder)
    assert dataset.column("number").tolist() == list(range(9))
    assert [dataset.array("vector", i).tolist() for i in (3, 7)] == [[0, 1, 2]] * 2
    objects = dataset.annotations(range(9))
    assert np.bincount(objects.owner, minlength=9).tolist() == [i % 3 for i in range(9)]
    assert objects.labels.tolist() == [0, 0, 1] * 3
    assert stoker.verify(folder, decode=True).ok


def test_a_class_that_the_dataset_lacks_must_be_named(
    photos: Path, tmp_path: Path, make_jpeg: Callable[..., bytes]
) -> None:
    (tmp_path / "more" / "fox").mkdir(parents=True)
    (tmp_path / "more" / "fox" / "1.jpg").write_bytes(make_jpeg(1))
    stoker.convert(photos, tmp_path / "out")
    with pytest.raises(SourceError, match="not among the 3 given: fox"):
        stoker.append(tmp_path / "out", tmp_path / "more")
    with pytest.raises(ConfigError, match="do not begin with the 3 of the dataset"):
        stoker.append(tmp_path / "out", tmp_path / "more", classes=["fox", "cat", "dog", "eel"])
    assert len(stoker.open(tmp_path / "out")) == 30
    stoker.append(tmp_path / "out", tmp_path / "more", classes=["cat", "dog", "eel", "fox"])
    dataset = stoker.open(tmp_path / "out")
    assert dataset.classes[dataset.labels[30]] == "fox"
    assert stoker.open(tmp_path / "out", version=1).classes == ("cat", "dog", "eel")


def test_an_append_that_is_refused_leaves_the_dataset_as_it_is(
    photos: Path, more: Path, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    stoker.convert(photos, target)
    before = {path.name: path.read_bytes() for path in target.iterdir()}
    with pytest.raises(TypeError, match="resize"):
        stoker.append(target, more, resize="shorter=8")
    with pytest.raises(ConfigError, match="changes are made to the last version"):
        stoker.append(f"{target}@1", more)
    with folder_lock(target), pytest.raises(LockedError, match="another process is writing"):
        stoker.append(target, more)
    with pytest.raises(ConfigError, match="the datasets differ in column number: none"):
        stoker.append(target, [{"image": np.zeros((4, 4, 3), np.uint8), "label": "cat", "number": 1}])
    with pytest.raises(DatasetError, match="not a dataset"):
        stoker.append(photos, more)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before


def test_classes_are_renamed_by_the_class_map_of_the_dataset(
    photos: Path, more: Path, tmp_path: Path
) -> None:
    class_map = {"cat": "dog", "dog": "cat", "eel": "fish"}
    stoker.convert(photos, tmp_path / "out", selection=stoker.Selection(class_map=class_map))
    stoker.append(tmp_path / "out", more)  # it has no eel
    dataset = stoker.open(tmp_path / "out")
    assert dataset.keys([30]) == ["cat/new-0.jpg"]
    names = [dataset.classes[label] for label in dataset.labels]
    pairs = {(key.partition("/")[0], name) for key, name in zip(dataset.keys(range(34)), names, strict=True)}
    assert pairs == {("cat", "dog"), ("dog", "cat"), ("eel", "fish")}


def test_values_of_masks_are_mapped_by_the_mask_map_of_the_dataset(tmp_path: Path) -> None:
    for name, value in (("old", 3), ("new", 4)):
        for kind in ("images", "masks"):
            (tmp_path / name / kind).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / name / "images" / f"{name}.png")
        Image.new("L", (8, 8), value).save(tmp_path / name / "masks" / f"{name}.png")
    options = {"masks": tmp_path / "old" / "masks", "mask_map": {3: 0, 4: 1}}
    stoker.convert(tmp_path / "old" / "images", tmp_path / "out", **convert_options(options))
    masks = stoker.SourceOptions(masks=tmp_path / "new" / "masks")
    stoker.append(tmp_path / "out", tmp_path / "new" / "images", source_options=masks)
    dataset = stoker.open(tmp_path / "out")
    values = [np.unique(Image.open(io.BytesIO(dataset.mask(row)))).tolist() for row in range(2)]
    assert values == [[0], [1]]


def test_images_without_labels_are_appended_from_a_folder(photos: Path, more: Path, tmp_path: Path) -> None:
    stoker.convert(photos, tmp_path / "out", source_options=stoker.SourceOptions(unlabelled=True))
    assert stoker.append(tmp_path / "out", more).added == 4
    assert "label" not in stoker.open(tmp_path / "out").columns


def test_images_whose_annotations_have_changed_are_not_appended_a_second_time(tmp_path: Path) -> None:
    document = coco_files.document()
    coco_files.write_coco_images(tmp_path)
    folder = coco_files.convert(tmp_path, document).path
    options = {"images": tmp_path / "images", "allow_loss": 1}
    document["categories"].reverse()  # other numbers of the same names
    assert stoker.append(folder, coco_files.write(tmp_path, document), **convert_options(options)).already
    document["annotations"][0]["bbox"] = [3, 3, 9, 9]
    with pytest.raises(SourceError, match="4 of the 4 samples are in the dataset already"):
        stoker.append(folder, coco_files.write(tmp_path, document), **convert_options(options))
    assert stoker.open(folder).manifest.dataset_version == 1


def test_a_folder_that_has_grown_is_not_appended_with_its_old_images(photos: Path, tmp_path: Path) -> None:
    folder, new = tmp_path / "out", photos / "cat" / "new.jpg"
    stoker.convert(photos, folder)
    new.write_bytes(jpeg(99))
    with pytest.raises(SourceError, match="30 of the 31 samples are in the dataset"):
        stoker.append(folder, photos)
    assert stoker.open(folder).manifest.dataset_version == 1
    new.rename(photos / "cat" / "0.jpg")  # another image of an old name is new
    for old in [*photos.glob("*/[1-9].jpg"), photos / "dog/0.jpg", photos / "eel/0.jpg"]:
        old.unlink()
    assert stoker.append(folder, photos, selection=stoker.Selection(allow_missing_classes=True)).added == 1


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_conversion_with_overwrite_removes_all_versions(photos: Path, tmp_path: Path, scheme: str) -> None:
    folder = tmp_path / "out"
    stoker.convert(photos, f"{scheme}{folder}")
    stoker.remove(folder, where="label == 0")
    stoker.convert(photos, f"{scheme}{folder}", overwrite=True, seed=1)
    assert {path.name for path in folder.iterdir()} == {
        "dataset.json",
        "index.arrow",
        "sha256.json",
        "shard-00000-of-00001.idx",
        "shard-00000-of-00001.tfrecord",
        "skipped.jsonl",
    }


def test_appended_texts_have_the_special_tokens_labels_and_trained_tokens_of_the_dataset(
    tmp_path: Path,
) -> None:
    rows = [{"q": f"{n} ", "a": f"{n + 1}", "kind": "abc"[n % 3]} for n in range(6)]
    for name, part in (("all", rows), ("first", rows[:3]), ("more", rows[3:])):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, part)))
    options = {"fields": ["q", "a"], "train_on": "a", "tokenizer": "bytes", "eos": True, "label": "kind"}
    for name, target in (("all", "whole"), ("first", "grown")):
        stoker.convert_text(tmp_path / f"{name}.jsonl", tmp_path / target, **text_options(options))
    stoker.append(tmp_path / "grown", tmp_path / "more.jsonl", label="kind")
    whole, grown = (stoker.open(tmp_path / name) for name in ("whole", "grown"))
    assert [grown.read(row) for row in range(6)] == [whole.read(row) for row in range(6)]
    assert grown.labels.tolist() == whole.labels.tolist()
    assert grown.lists("text_trained", range(6)).values.tolist() == [2, 4] * 6


def test_samples_from_python_take_the_names_of_keypoints_of_the_dataset(
    tmp_path: Path, make_jpeg: Callable[..., bytes]
) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.jpg").write_bytes(make_jpeg(0, 30, 30))
    person = {"id": 1, "name": "person", "keypoints": ["nose", "left_eye", "right_eye"], "skeleton": [[1, 2]]}
    annotation = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 1, 20, 20], "area": 400, "iscrowd": 0}
    document = {
        "images": [{"id": 1, "file_name": "a.jpg", "width": 30, "height": 30}],
        "categories": [person],
        "annotations": [{**annotation, "keypoints": [5, 5, 2, 6, 6, 2, 7, 7, 1], "num_keypoints": 3}],
    }
    (tmp_path / "coco.json").write_text(json.dumps(document))
    images = stoker.SourceOptions(images=tmp_path / "images")
    stoker.convert(tmp_path / "coco.json", tmp_path / "out", source_options=images)
    points = np.array([[[2, 2, 2], [3, 3, 2], [4, 4, 1]]], np.float32)
    boxes = {"boxes": np.array([[1, 1, 9, 9]], np.float32), "box_labels": [0], "image_id": 2}
    sample = {"image": make_jpeg(1, 30, 30), "key": "b", **boxes}
    stoker.append(tmp_path / "out", [{**sample, "keypoints": points}])
    dataset = stoker.open(tmp_path / "out")
    assert dataset.manifest.annotations == stoker.open(tmp_path / "out@1").manifest.annotations
    assert np.array_equal(dataset.annotations([1]).keypoints, points)
    with pytest.raises(ConfigError, match=r"2 keypoints, .* has 3: nose, left_eye, right_eye"):
        stoker.append(tmp_path / "out", [{**sample, "key": "c", "keypoints": points[:, :2]}])
    assert len(stoker.open(tmp_path / "out")) == 2
