"""Tests of conversions that keep some classes of objects, or give them other names."""

from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import run
from helpers.data.annotations.coco_files import convert, document

import stoker
from stoker.errors import ConfigError, SourceError

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


def test_objects_of_other_classes_are_left_out_but_no_image(folder: Path) -> None:
    whole = convert(folder, document(), "whole").annotations(range(4))
    dataset = convert(folder, document(), classes=["zebra", "ape"], skip_other_classes=True)
    assert (len(dataset), dataset.classes, dataset.category_ids) == (4, ("zebra", "ape"), (90, 3))
    found = dataset.annotations(range(4))
    assert list(zip(found.id.tolist(), found.labels.tolist(), strict=True)) == [(20, 0), (21, 1)]
    assert found.keypoints is not None
    assert whole.keypoints is not None
    assert found.keypoints.tolist() == whole.keypoints[:2].tolist()
    assert found.polygons is not None
    assert [len(some) for some in found.polygons] == [2, 0]
    with pytest.raises(SourceError, match="no object is of the classes gnu"):
        convert(folder, document(), "none", classes=["gnu"], skip_other_classes=True)


def test_classes_that_get_one_name_become_one_class(folder: Path) -> None:
    path = folder / "instances.json"
    convert(folder, document(), "whole")
    mapped = ["--map", "mouse:animal", "--map", "zebra:animal"]
    run("convert", path, folder / "out", "--images", folder / "images", *mapped)
    dataset = stoker.open(folder / "out")
    assert (dataset.classes, dataset.category_ids) == (("ape", "animal"), (3, -1))
    assert dataset.annotations(range(4)).labels.tolist() == [1, 0, 1, 1]


def test_a_merged_dataset_keeps_the_ids_of_categories(folder: Path) -> None:
    first = convert(folder, document(), "first")
    content = document()
    content["categories"] = [
        {**one, "id": one["id"] + (one["name"] == "zebra")} for one in content["categories"]
    ]
    content["categories"].append({"id": 4, "name": "gnu"})
    content["annotations"] = [one for one in content["annotations"] if one["category_id"] != 90]
    second = convert(folder, content, "second")
    stoker.merge([first.path, second.path], folder / "all")
    merged = stoker.open(folder / "all")
    assert dict(zip(merged.classes, merged.category_ids, strict=True)) == {
        "ape": 3, "mouse": 7, "zebra": -1, "gnu": 4
    }  # fmt: skip


def test_a_class_that_others_join_keeps_its_id(folder: Path) -> None:
    dataset = convert(folder, document(), class_map={"mouse": "ape", "zebra": "horse"})
    assert (dataset.classes, dataset.category_ids) == (("ape", "horse"), (3, 90))


def test_classes_of_images_are_renamed_too(tmp_path: Path, make_jpeg: Any) -> None:
    for name in ("cat", "dog", "eel"):
        (tmp_path / "src" / name).mkdir(parents=True)
        (tmp_path / "src" / name / "0.jpg").write_bytes(make_jpeg(0))
    stoker.convert(
        tmp_path / "src", tmp_path / "out", class_map=["cat:pet", "dog:pet"], classes=["eel", "pet"]
    )
    assert stoker.open(tmp_path / "out").labels.tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"gnu": "ape"}, "the source does not have: gnu"),
        (["ape"], "pairs such as van:car"),
        ([":ape"], "pairs such as van:car"),
        (["ape:a", "ape:b"], "two new names for one class"),
        ({"ape": 3}, "must have names of classes"),
    ],
)
def test_a_value_that_is_no_map_of_classes_is_refused(folder: Path, value: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        convert(folder, document(), class_map=value)
