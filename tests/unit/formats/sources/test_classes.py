"""Tests of classes that the user names: how names are read, and how they number labels."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.annotations import convert, document
from helpers.command_line import run
from helpers.datasets import converted
from helpers.options import convert_options

import stoker
from stoker.errors import ConfigError, DatasetError, SourceError
from stoker.formats.sources.classes import parse_class_names

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


def class_by_key(dataset: Path) -> dict[str, str]:
    opened = stoker.open(dataset)
    return {
        key: opened.classes[label]
        for key, label in zip(opened.keys(range(len(opened))), opened.labels.tolist(), strict=True)
    }


def test_a_missing_class_does_not_change_labels(photos: Path, tmp_path: Path) -> None:
    stoker.convert(photos, tmp_path / "train")
    names = ["cat:pet", "dog:pet"]
    joined = converted(photos, tmp_path / "joined", classes=["eel", "pet"], class_map=names)
    assert sorted(set(joined.labels.tolist())) == [0, 1]
    shutil.rmtree(photos / "cat")
    classes = stoker.open(tmp_path / "train").classes
    val = converted(photos, tmp_path / "val", classes=classes)
    assert val.classes == ("cat", "dog", "eel")
    assert sorted(set(val.labels.tolist())) == [1, 2]
    assert all(key.startswith(f"{name}/") for key, name in class_by_key(tmp_path / "val").items())


def test_classes_may_be_named_in_any_order_and_without_images(photos: Path, tmp_path: Path) -> None:
    stoker.convert(photos, tmp_path / "out", classes=["eel", "fox", "cat", "dog"], val="20%")
    assert all(key.startswith(f"{name}/") for key, name in class_by_key(tmp_path / "out/val").items())
    assert set(class_by_key(tmp_path / "out/train").values()) == {"cat", "dog", "eel"}


def test_labels_that_are_numbers_or_several_get_names(photos: Path, tmp_path: Path) -> None:
    (photos / "list.csv").write_text("path,labels\ncat/0.jpg,sea|boat\ncat/1.jpg,\ncat/2.jpg,boat\n")
    several = converted(photos / "list.csv", tmp_path / "several", classes=["sky", "sea", "boat"])
    found = several.index.lists("label")
    assert (found.values.tolist(), found.counts.tolist()) == ([1, 2, 2], [2, 0, 1])
    with pytest.raises(ConfigError, match="one label each, and these have several"):
        converted(photos / "list.csv", tmp_path / "none", max_per_class=1)
    (photos / "list.csv").write_text("path,label\ncat/0.jpg,1\ncat/1.jpg,0\n")
    stoker.convert(photos / "list.csv", tmp_path / "out", classes=["off", "on"])
    assert class_by_key(tmp_path / "out") == {"cat/0.jpg": "on", "cat/1.jpg": "off"}
    with pytest.raises(SourceError, match="label 1, and there are 1 names"):
        stoker.convert(photos / "list.csv", tmp_path / "few", classes=["off"])


@pytest.fixture
def pets(tree: Callable[..., Path]) -> Path:
    """Two images of cats, six of dogs and four of eels."""
    counts = {"cat": 2, "dog": 6, "eel": 4}
    return tree(*(f"{name}/{number}.jpg" for name, count in counts.items() for number in range(count)))


def classes_of(dataset: stoker.Dataset) -> dict[str, int]:
    return dict(Counter(key.split("/")[0] for key in dataset.keys(range(len(dataset)))))


def test_small_classes_are_left_out_and_large_ones_cut(pets: Path, tmp_path: Path) -> None:
    dataset = converted(pets, tmp_path / "out", min_per_class=3, max_per_class=4, seed=1)
    assert classes_of(dataset) == {"dog": 4, "eel": 4}
    assert dataset.classes == ("dog", "eel")
    assert all(
        dataset.classes[label] == key.split("/")[0]
        for key, label in zip(dataset.keys(range(8)), dataset.labels, strict=True)
    )
    assert dataset.manifest.skipped == {
        "beyond the 4 images of a class": 2,
        "class with fewer than 3 images": 2,
    }
    lines = (dataset.path / "skipped.jsonl").read_text().splitlines()
    assert [json.loads(line)["key"].split("/")[0] for line in lines] == ["cat", "cat", "dog", "dog"]
    assert stoker.convert(
        pets, dataset.path, seed=1, selection=stoker.Selection(min_per_class=3, max_per_class=4)
    ).already


def test_the_seed_and_the_keys_choose_the_images_of_a_large_class(pets: Path, tmp_path: Path) -> None:
    def chosen(target: str, seed: int) -> set[str]:
        return set(converted(pets, tmp_path / target, max_per_class=3, seed=seed).keys(range(8)))

    first = chosen("first", 1)
    assert chosen("second", 2) != first
    (pets / "dog" / "5.jpg").unlink()
    assert first - {"dog/5.jpg"} <= chosen("fewer", 1)


def test_chosen_classes_have_the_numbers_of_the_given_names(pets: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="not among the 2 given"):
        stoker.convert(pets, tmp_path / "none", classes=["eel", "cat"])
    dataset = converted(
        pets, tmp_path / "out", classes=["eel", "yak", "cat"], skip_other_classes=True, min_per_class=3
    )
    assert classes_of(dataset) == {"eel": 4}
    assert dataset.classes == ("eel", "yak", "cat")
    assert dataset.labels.tolist() == [0] * 4
    assert dataset.manifest.skipped == {"class that was not chosen": 6, "class with fewer than 3 images": 2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_per_class": 0}, "min_per_class must be at least 1"),
        ({"min_per_class": 3, "max_per_class": 2}, "at most max_per_class, found 3 and 2"),
        ({"skip_other_classes": True}, "skip_other_classes needs classes"),
        ({"min_per_class": 7}, "no sample is left: class with fewer than 7 images"),
        ({"classes": ["yak"], "skip_other_classes": True}, "no sample is left: class that was not chosen"),
    ],
)
def test_limits_that_leave_no_sample_or_contradict_each_other_are_refused(
    pets: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises((ConfigError, SourceError), match=message):
        stoker.convert(pets, tmp_path / "none", **convert_options(options))


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


@pytest.mark.parametrize("kind", ["folder", "list"])
def test_renamed_classes_are_numbered_as_folders_with_these_names(
    photos: Path, tmp_path: Path, kind: str
) -> None:
    (photos / "list.csv").write_text("path,label\ncat/0.jpg,cat\ndog/0.jpg,dog\neel/0.jpg,eel\n")
    source = photos if kind == "folder" else photos / "list.csv"
    renamed = converted(source, tmp_path / "renamed", class_map=["eel:ant", "cat:cow"])
    assert renamed.classes == ("ant", "cow", "dog")
    of_key = {"cat": "cow", "dog": "dog", "eel": "ant"}
    names = class_by_key(tmp_path / "renamed").items()
    assert all(of_key[key.partition("/")[0]] == name for key, name in names)


def test_renamed_classes_of_a_list_of_names_keep_its_order(photos: Path, tmp_path: Path) -> None:
    info = {"info": {"features": {"label": {"_type": "ClassLabel", "names": ["ox", "gnu", "ape"]}}}}
    columns = {"image": [(photos / "cat/0.jpg").read_bytes()] * 3, "label": [0, 1, 2]}
    table = pa.table(columns).replace_schema_metadata({"huggingface": json.dumps(info)})
    pq.write_table(table, tmp_path / "a.parquet")
    dataset = converted(tmp_path / "a.parquet", tmp_path / "out", class_map={"gnu": "bee"})
    assert (dataset.classes, dataset.labels.tolist()) == (("ox", "bee", "ape"), [0, 1, 2])


def test_classes_that_get_one_name_become_one_class(folder: Path) -> None:
    path = folder / "instances.json"
    convert(folder, document(), "whole")
    mapped = ["--map", "mouse:animal", "--map", "zebra:animal"]
    run("convert", path, folder / "out", "--images", folder / "images", *mapped)
    dataset = stoker.open(folder / "out")
    assert (dataset.classes, dataset.category_ids) == (("ape", "animal"), (3, -1))
    assert dataset.annotations(range(4)).labels.tolist() == [1, 0, 1, 1]
    # A class that others join keeps its id.
    joined = convert(folder, document(), "joined", class_map={"mouse": "ape", "zebra": "horse"})
    assert (joined.classes, joined.category_ids) == (("ape", "horse"), (3, 90))


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


@pytest.mark.parametrize(
    ("name", "text", "classes"),
    [
        ("a,b", "cat\nwild dog, tame\n", ("cat", "wild dog, tame")),
        ("a,b", "\ufeffcat\r\n  wild dog, tame", ("cat", "wild dog, tame")),
        ("names", "", "label 0 has an empty name"),
        ("names", "cat\n\ndog\n", "label 1 has an empty name"),
        ("binary", "\udcff", "cannot be read"),
        ("nowhere.txt", None, "nowhere"),
    ],
)
def test_a_file_has_a_name_on_each_line(
    tmp_path: Path, name: str, text: str | None, classes: tuple[str, ...] | str
) -> None:
    if text is not None:
        (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    if isinstance(classes, tuple):
        assert parse_class_names(str(tmp_path / name)) == classes
    else:
        with pytest.raises((ConfigError, SourceError), match=classes):
            parse_class_names(str(tmp_path / name))


def test_a_dataset_or_an_argument_has_the_names_of_classes(photos: Path, tmp_path: Path) -> None:
    stoker.convert(photos, tmp_path / "shards")
    assert parse_class_names(str(tmp_path / "shards")) == ("cat", "dog", "eel")
    assert parse_class_names("cat, wild dog,crane,crane") == ("cat", "wild dog", "crane", "crane")
    assert parse_class_names("wild dog") == ("wild dog",)
    with pytest.raises(DatasetError, match="not a dataset"):
        parse_class_names(str(photos))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": ["cat", "eel"]}, "not among the 2 given: dog"),
        *(({"classes": one}, "classes") for one in ("cat,dog", [], ["cat", ""], ["cat", 3], ["cat", "cat"])),
        ({"class_map": {"gnu": "ape"}}, "the source does not have: gnu"),
        ({"class_map": ["ape"]}, "pairs such as van:car"),
        ({"class_map": [":ape"]}, "pairs such as van:car"),
        ({"class_map": ["ape:a", "ape:b"]}, "two new names for one class"),
        ({"class_map": {"ape": 3}}, "must have names of classes"),
    ],
)
def test_classes_and_maps_that_do_not_fit_are_refused(
    photos: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises((ConfigError, SourceError), match=message):
        converted(photos, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()
    with pytest.raises(ConfigError, match="this source has none"):
        converted(
            photos, tmp_path / "out", classes=["cat"], masks=shutil.copytree(photos, tmp_path / "masks")
        )


@pytest.mark.parametrize("name", ["caf\u00e9", "golden retriever ", "'quoted'", "a,b"])
def test_classes_of_a_dataset_are_taken_as_they_are(
    tree: Callable[..., Path], tmp_path: Path, name: str
) -> None:
    root = tree(f"{name}/1.jpg", "cat/1.jpg")
    converted(root, tmp_path / "train")
    classes = parse_class_names(str(tmp_path / "train"))
    assert sorted(classes) == sorted([name, "cat"])
    assert converted(root, tmp_path / "val", classes=classes).classes == classes


@pytest.mark.parametrize(
    ("have", "given"), [("cafe\u0301", "caf\u00e9"), ("cat ", "cat"), ('"cat"', "cat"), ("Cat", "cat")]
)
def test_names_that_look_alike_are_named(
    tree: Callable[..., Path], tmp_path: Path, have: str, given: str, caplog: pytest.LogCaptureFixture
) -> None:
    root = tree(f"{have}/1.jpg", "dog/1.jpg")
    with pytest.raises(SourceError, match="in capitals, blanks, quotes or the form of Unicode") as caught:
        converted(root, tmp_path / "out", classes=["dog", given])
    assert "class_map" in str(caught.value.hint)
    dataset = converted(root, tmp_path / "out", classes=["dog", given], class_map={have: given})
    assert dataset.labels.tolist() == [1, 0]
    tree(f"{given}/1.jpg")
    converted(root, tmp_path / "both")
    assert "names that look alike" in caplog.text


def test_classes_without_an_order_are_refused(tree: Callable[..., Path], tmp_path: Path) -> None:
    root = tree("cat/1.jpg", "dog/1.jpg")
    for given in ({"cat", "dog"}, {"dog": 0, "cat": 1}):
        with pytest.raises(ConfigError, match="sequence of names, label 0 first") as caught:
            stoker.open(root, classes=given)
        assert bool(caught.value.hint) is isinstance(given, dict)


def test_a_label_below_0_is_refused(tree: Callable[..., Path], tmp_path: Path) -> None:
    list_file = tree("a.jpg", "b.jpg") / "list.csv"
    for header, label in (("label", "-1"), ("labels", "1|-1")):
        list_file.write_text(f"path,{header}\na.jpg,3\nb.jpg,{label}\n")
        with pytest.raises(SourceError, match="a label must be 0 or more, found -1") as caught:
            converted(list_file, tmp_path / "out")
        assert caught.value.key == "b.jpg"
