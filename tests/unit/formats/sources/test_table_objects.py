"""Tests of objects in columns of tables and in datasets of Hugging Face."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.datasets import converted
from helpers.images import encode, smooth

import stoker
from stoker.errors import ConfigError, SourceError

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

BOXES = [[[1.0, 2.0, 30.0, 20.0], [3.0, 1.0, 2.0, 5.0]], [], [[2.0, 2.0, 9.0, 9.0]]]
CORNERS = [[1, 2, 31, 22], [3, 1, 5, 6], [2, 2, 11, 11]]
CATEGORIES = [[1, 0], [], [1]]
AREAS = [[600.0, 7.0], [], [81.0]]
NAMES = ["cat", "dog"]
PICTURE = encode(smooth(36, 48), "PNG")


def check(dataset: stoker.Dataset, classes: tuple[str, ...] = ("cat", "dog")) -> None:
    found = dataset.annotations(range(3))
    assert dataset.classes == classes
    assert found.owner.tolist() == [0, 0, 2]
    assert found.boxes.tolist() == CORNERS
    assert found.labels.tolist() == [1, 0, 1]
    assert found.area.tolist() == [600, 7, 81]


def features(form: str) -> Any:
    """The features of a dataset whose objects are a list of structs, or a struct of lists."""
    datasets = pytest.importorskip("datasets")
    box, category = datasets.List(datasets.Value("float64"), length=4), datasets.ClassLabel(names=NAMES)
    one = {"bbox": box, "category": category, "area": datasets.Value("float64")}
    listed = {name: datasets.List(feature) for name, feature in one.items()}
    objects = (
        datasets.List(one) if form == "list" else datasets.Sequence(one) if form == "sequence" else listed
    )
    return datasets.Features({"image": datasets.Image(), "objects": objects})


@pytest.mark.parametrize("door", ["dataset", "stream", "parquet", "saved"])
@pytest.mark.parametrize("form", ["list", "sequence", "struct"])
def test_objects_of_hugging_face_become_boxes(tmp_path: Path, form: str, door: str) -> None:
    datasets = pytest.importorskip("datasets")
    columns = {"bbox": BOXES, "category": CATEGORIES, "area": AREAS}
    rows: list[Any] = [{name: values[i] for name, values in columns.items()} for i in range(3)]
    if form == "list":
        rows = [[dict(zip(row, one, strict=True)) for one in zip(*row.values(), strict=True)] for row in rows]
    images = [{"bytes": PICTURE, "path": None}] * 3
    made = datasets.Dataset.from_dict({"image": images, "objects": rows}, features=features(form))
    source: Any = made
    if door == "parquet":
        made.to_parquet(source := tmp_path / "a.parquet")
    elif door == "saved":
        made.save_to_disk(source := tmp_path / "saved")
    elif door == "stream":
        source = made.to_iterable_dataset()
    check(converted(source, tmp_path / "out"))


def write(path: Path, boxes: list[Any], categories: list[Any], **columns: Any) -> Path:
    objects = [
        {"bbox": box, "category_id": category} for box, category in zip(boxes, categories, strict=True)
    ]
    images = [PICTURE] * len(boxes)
    pq.write_table(pa.table({"image": images, "objects": objects, **columns}), path)
    return path


@pytest.mark.parametrize(
    ("categories", "classes", "labels"),
    [
        ([[5, 0], [], [5]], ("0", "1", "2", "3", "4", "5"), [5, 0, 5]),
        ([["owl", "jay"], [], ["owl"]], ("jay", "owl"), [1, 0, 1]),
    ],
)
def test_categories_without_names_are_numbers_or_sorted_texts(
    tmp_path: Path, categories: list[Any], classes: tuple[str, ...], labels: list[int]
) -> None:
    dataset = converted(write(tmp_path / "a.parquet", BOXES, categories), tmp_path / "out")
    assert dataset.classes == classes
    assert dataset.annotations(range(3)).labels.tolist() == labels


@pytest.mark.parametrize("door", ["parquet", "dataset"])
@pytest.mark.parametrize(
    ("boxes", "sizes", "message"),
    [
        ([[[0.1, 0.1, 0.5, 0.5]]] * 3, {}, "must be in pixels, found numbers from 0 to 1"),
        ([[[1.0, 1.0, 9.0, 8.0]]] * 20, {}, "fit left, top, right and bottom better"),
        ([[[30.0, 20.0, 40.0, 30.0]]], {"height": [36], "width": [48]}, "fit left, top, right and bottom"),
    ],
)
def test_boxes_that_do_not_fit_cocos_format_need_box_format(
    tmp_path: Path, boxes: list[Any], sizes: dict[str, Any], message: str, door: str
) -> None:
    source: Any = write(tmp_path / "a.parquet", boxes, [[0]] * len(boxes), **sizes)
    if door == "dataset":
        source = pytest.importorskip("datasets").Dataset.from_parquet(str(source), cache_dir=str(tmp_path))
    with pytest.raises(SourceError, match=message):
        stoker.convert(source, tmp_path / "out")
    if "pixels" in message:
        with pytest.raises(SourceError, match=message):
            converted(source, tmp_path / "given", box_format="cxcywh")
    if "fit" in message:
        given = converted(source, tmp_path / "given", box_format="xyxy")
        assert {f"{name}_" for name in sizes} <= {*given.columns}
        assert given.annotations([0]).boxes.tolist() == [boxes[0][0]]


def test_objects_that_cannot_be_used_are_left_out_and_named(tmp_path: Path) -> None:
    boxes = [
        [[1.0, 1.0, 0.0, 4.0], [1.0, 1.0], None, [1.0, 1.0, 3.0, 4.0], [1.0, 1.0, 2.0, 4.0]],
        None,
        [[9.0] * 4],
    ]
    source = write(tmp_path / "a.parquet", boxes, [[0, 0, 0, -1, 1], None, [None]])
    dataset = converted(source, tmp_path / "out", allow_loss=1)
    assert dataset.annotations(range(3)).boxes.tolist() == [[1, 1, 3, 5]]
    skipped = [json.loads(line) for line in (dataset.path / "skipped.jsonl").read_text().splitlines()]
    assert [(one["key"], one["reason"]) for one in skipped] == [
        ("a/00000000", "object of an unknown category"),
        ("a/00000000", "object without a box"),
        ("a/00000000", "object without a box"),
        ("a/00000000", "object without an area"),
        ("a/00000002", "object of an unknown category"),
    ]


def test_lists_of_several_lengths_and_other_fields_of_objects_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    objects = [
        {"bbox": BOXES[0], "category": [0], "segmentation": [[1, 1, 9, 1, 9, 9]]},
        {"bbox": BOXES[0], "category": None, "segmentation": []},
        {"bbox": BOXES[2], "category": [0], "segmentation": []},
    ]
    pq.write_table(pa.table({"image": [PICTURE] * 3, "objects": objects}), tmp_path / "a.parquet")
    dataset = converted(tmp_path / "a.parquet", tmp_path / "out", allow_loss=1)
    assert dataset.annotations(range(3)).boxes.tolist() == [CORNERS[0], CORNERS[2]]
    assert dict(dataset.manifest.skipped) == {"object of an unknown category": 3}
    assert "fields of the objects in column 'objects' are left out: segmentation" in caplog.text


def test_labels_beside_objects_need_a_choice(tmp_path: Path) -> None:
    source = write(tmp_path / "a.parquet", BOXES, [[1, 0], [], [1]], label=[0, 1, 0])
    with pytest.raises(ConfigError, match="labels and objects, in the columns 'label' and 'objects'"):
        stoker.convert(source, tmp_path / "out")
    assert len(converted(source, tmp_path / "boxes", label_column="").annotations(range(3)).owner) == 3
    labelled = converted(source, tmp_path / "labels", label_column="label")
    assert labelled.labels.tolist() == [0, 1, 0]
    assert "boxes" not in labelled.tasks


def test_files_whose_categories_have_other_names_are_refused(tmp_path: Path) -> None:
    for number, names in enumerate((NAMES, NAMES[::-1])):
        category = {"feature": {"names": names, "_type": "ClassLabel"}, "_type": "Sequence"}
        info = {"info": {"features": {"objects": {"category_id": category}}}}
        path = write(tmp_path / f"{number}.parquet", BOXES, CATEGORIES)
        pq.write_table(pq.read_table(path).replace_schema_metadata({"huggingface": json.dumps(info)}), path)
    with pytest.raises(
        SourceError, match=r"'objects.category_id' must be those of .* cat, dog, found dog, cat"
    ):
        stoker.convert(tmp_path / "*.parquet", tmp_path / "out")
    assert converted(tmp_path / "1.parquet", tmp_path / "one").classes == ("dog", "cat")
