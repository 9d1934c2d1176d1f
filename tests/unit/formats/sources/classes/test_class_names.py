"""Tests of classes that the user names: how names are read, and how they number labels."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker.errors import ConfigError, DatasetError, SourceError
from stoker.formats.sources.classes.class_names import parse_class_names

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


def class_by_key(dataset: Path) -> dict[str, str]:
    opened = stoker.open(dataset)
    return {
        key: opened.classes[label]
        for key, label in zip(opened.keys(range(len(opened))), opened.labels.tolist(), strict=True)
    }


def test_a_missing_class_does_not_change_labels(photos: Path, tmp_path: Path) -> None:
    stoker.convert(photos, tmp_path / "train")
    shutil.rmtree(photos / "cat")
    classes = stoker.open(tmp_path / "train").classes
    stoker.convert(photos, tmp_path / "val", classes=classes)
    val = stoker.open(tmp_path / "val")
    assert val.classes == ("cat", "dog", "eel")
    assert sorted(set(val.labels.tolist())) == [1, 2]
    assert all(key.startswith(f"{name}/") for key, name in class_by_key(tmp_path / "val").items())


def test_classes_may_be_named_in_any_order_and_without_images(photos: Path, tmp_path: Path) -> None:
    stoker.convert(photos, tmp_path / "out", classes=["eel", "fox", "cat", "dog"], val="20%")
    assert all(key.startswith(f"{name}/") for key, name in class_by_key(tmp_path / "out/val").items())
    assert set(class_by_key(tmp_path / "out/train").values()) == {"cat", "dog", "eel"}


def test_a_class_that_is_not_listed_is_refused(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="not among the 2 given: dog") as caught:
        stoker.convert(photos, tmp_path / "out", classes=["cat", "eel"])
    assert caught.value.path == str(photos)
    assert not (tmp_path / "out").exists()


def test_several_labels_of_a_sample_are_numbered_by_the_names(photos: Path, tmp_path: Path) -> None:
    (photos / "list.csv").write_text("path,labels\ncat/0.jpg,sea|boat\ncat/1.jpg,\ncat/2.jpg,boat\n")
    stoker.convert(photos / "list.csv", tmp_path / "out", classes=["sky", "sea", "boat"])
    found = stoker.open(tmp_path / "out").index.lists("label")
    assert (found.values.tolist(), found.counts.tolist()) == ([1, 2, 2], [2, 0, 1])


def test_labels_that_are_numbers_get_names(photos: Path, tmp_path: Path) -> None:
    (photos / "list.csv").write_text("path,label\ncat/0.jpg,1\ncat/1.jpg,0\n")
    stoker.convert(photos / "list.csv", tmp_path / "out", classes=["off", "on"])
    assert class_by_key(tmp_path / "out") == {"cat/0.jpg": "on", "cat/1.jpg": "off"}
    with pytest.raises(SourceError, match="label 1, and there are 1 names"):
        stoker.convert(photos / "list.csv", tmp_path / "few", classes=["off"])


def test_labels_of_objects_are_numbered_too(tmp_path: Path, encode_picture: Callable[..., bytes]) -> None:
    (tmp_path / "0.jpg").write_bytes(encode_picture(0))
    boxes = [{"id": n, "image_id": 0, "category_id": n, "bbox": [n, 0, 9, 9], "area": 81} for n in (7, 9)]
    categories = [{"id": 7, "name": "cup"}, {"id": 8, "name": "fork"}, {"id": 9, "name": "bowl"}]
    image = {"id": 0, "file_name": "0.jpg", "height": 24, "width": 32}
    document = {"images": [image], "annotations": boxes, "categories": categories}
    (tmp_path / "coco.json").write_text(json.dumps(document))
    stoker.convert(tmp_path / "coco.json", tmp_path / "out", classes=["bowl", "cup"])
    objects = stoker.open(tmp_path / "out").annotations([0])
    assert (objects.id.tolist(), objects.labels.tolist()) == ([7, 9], [1, 0])
    with pytest.raises(SourceError, match="given: bowl"):
        stoker.convert(tmp_path / "coco.json", tmp_path / "few", classes=["fork", "cup"])


def test_classes_of_a_source_without_labels_are_refused(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="this source has none"):
        stoker.convert(photos, tmp_path / "out", masks=photos, classes=["cat"])


@pytest.mark.parametrize("classes", ["cat,dog", [], ["cat", ""], ["cat", 3], ["cat", "cat"]], ids=str)
def test_classes_that_are_no_names_are_refused(photos: Path, tmp_path: Path, classes: Any) -> None:
    with pytest.raises(ConfigError, match="classes"):
        stoker.convert(photos, tmp_path / "out", classes=classes)


def test_an_argument_has_names_with_commas_between_them() -> None:
    assert parse_class_names("cat, wild dog,crane,crane") == ("cat", "wild dog", "crane", "crane")
    assert parse_class_names("wild dog") == ("wild dog",)


@pytest.mark.parametrize("text", ["cat\nwild dog, tame\n", "\ufeffcat\r\n  wild dog, tame"])
def test_a_file_has_a_name_on_each_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a,b"
    file.write_text(text, encoding="utf-8")
    assert parse_class_names(str(file)) == ("cat", "wild dog, tame")


@pytest.mark.parametrize(("text", "label"), [("", 0), ("cat\n\ndog\n", 1)])
def test_a_file_with_an_empty_name_is_refused(tmp_path: Path, text: str, label: int) -> None:
    (tmp_path / "names").write_text(text)
    with pytest.raises(ConfigError, match=f"label {label} has an empty name"):
        parse_class_names(str(tmp_path / "names"))


def test_a_file_of_names_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        parse_class_names(str(tmp_path / "nowhere.txt"))
    (tmp_path / "binary").write_bytes(b"\xff")
    with pytest.raises(SourceError, match="cannot be read"):
        parse_class_names(str(tmp_path / "binary"))


def test_a_dataset_has_the_names_of_its_classes(photos: Path, tmp_path: Path) -> None:
    stoker.convert(photos, tmp_path / "shards")
    assert parse_class_names(str(tmp_path / "shards")) == ("cat", "dog", "eel")
    with pytest.raises(DatasetError, match="not a dataset"):
        parse_class_names(str(photos))
