"""Tests of malformed annotations of COCO, YOLO and Pascal VOC: the table of docs/reference/errors.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.datasets import converted
from PIL import Image

NAN, INFINITY = float("nan"), float("inf")
SQUARE = [1, 1, 5, 1, 5, 5]
READ = ""  # the object is read

# A change of a good annotation of COCO, and the reason for which it, or a part of it, is left out.
COCO: dict[str, tuple[Any, str]] = {
    "bbox is missing, without an outline": ({"bbox": ...}, "object without a box"),
    "bbox is null, without an outline": ({"bbox": None}, "object without a box"),
    "bbox is text": ({"bbox": "1 1 3 3"}, "object without a box"),
    "bbox has three numbers": ({"bbox": [1, 1, 3]}, "object without a box"),
    "bbox has five numbers": ({"bbox": [1, 1, 3, 3, 3]}, "object without a box"),
    "bbox has a string": ({"bbox": [1, "1", 3, 3]}, "object without a box"),
    "bbox has a truth value": ({"bbox": [1, True, 3, 3]}, "object without a box"),
    "bbox is a list of lists": ({"bbox": [[1, 1], [3, 3]]}, "object without a box"),
    "bbox has NaN": ({"bbox": [1, NAN, 3, 3]}, "object without a box"),
    "bbox has Infinity": ({"bbox": [1, 1, INFINITY, 3]}, "object without a box"),
    "bbox has 1e300": ({"bbox": [1e300, 1, 3, 3]}, "object without a box"),
    "bbox has no width": ({"bbox": [1, 1, 0, 3]}, "object without an area"),
    "bbox has a negative width": ({"bbox": [9, 1, -3, 3]}, "object without an area"),
    "bbox has a negative height": ({"bbox": [1, 9, 3, -3]}, "object without an area"),
    "bbox is right of the image": ({"bbox": [30, 1, 3, 3]}, "object outside its image"),
    "bbox is left of the image": ({"bbox": [-9, 1, 9, 3]}, "object outside its image"),
    "bbox is below the image": ({"bbox": [1, 20, 3, 3]}, "object outside its image"),
    "bbox is above the image": ({"bbox": [1, -5, 3, 4]}, "object outside its image"),
    "bbox is partly outside, and clipped": ({"bbox": [-5, -5, 90, 90]}, READ),
    "category_id is missing": ({"category_id": ...}, "object of an unknown category"),
    "category_id is null": ({"category_id": None}, "object of an unknown category"),
    "category_id names no category": ({"category_id": 5}, "object of an unknown category"),
    "category_id is a fraction": ({"category_id": 1.5}, "object of an unknown category"),
    "category_id is a list": ({"category_id": [1]}, "object of an unknown category"),
    "image_id is missing": ({"image_id": ...}, "annotation without an image"),
    "image_id is null": ({"image_id": None}, "annotation without an image"),
    "image_id is a list": ({"image_id": [1]}, "annotation without an image"),
    "image_id is a fraction": ({"image_id": 1.5}, "annotation without an image"),
    "image_id names no image": ({"image_id": 77}, "object of an unknown image"),
    "image_id is text for a number": ({"image_id": "1"}, "object of an unknown image"),
    "annotation is a list": ([1], "annotation without an image"),
    "annotation is a number": (7, "annotation without an image"),
    "annotation is null": (None, "annotation without an image"),
    "annotation is panoptic": ({"segments_info": []}, "panoptic annotation, which is not read"),
    "annotation is a caption": ({"bbox": ..., "caption": "a dog"}, "caption, which is not an object"),
    "iscrowd is a word": ({"iscrowd": "no"}, "object with an iscrowd that is not a number"),
    "iscrowd is a list": ({"iscrowd": [1]}, "object with an iscrowd that is not a number"),
    "iscrowd is NaN": ({"iscrowd": NAN}, "object with an iscrowd that is not a number"),
    "area is negative; the area of the box counts": ({"area": -3}, READ),
    "area is text; the area of the box counts": ({"area": "3"}, READ),
    "area is NaN; the area of the box counts": ({"area": NAN}, READ),
    "id is missing; the position counts": ({"id": ...}, READ),
    "ids are floats of whole numbers": ({"image_id": 1.0, "category_id": 1.0}, READ),
    "polygon has two points": ({"segmentation": [[1, 1, 5, 5]]}, "polygon of less than three points"),
    "polygon is empty, for a box alone": ({"segmentation": [[]]}, READ),
    "polygon has an odd number": ({"segmentation": [[*SQUARE, 1]]}, "polygon whose last point has no y"),
    "polygon has NaN": ({"segmentation": [[*SQUARE, 1, NAN]]}, "polygon with values that are not numbers"),
    "polygon has Infinity": (
        {"segmentation": [[*SQUARE, 1, INFINITY]]}, "polygon with values that are not numbers"
    ),
    "polygon has strings": ({"segmentation": [["1"] * 6]}, "polygon with values that are not numbers"),
    "polygon has null": ({"segmentation": [[*SQUARE, 1, None]]}, "polygon with values that are not numbers"),
    "polygon is a list of points": (
        {"segmentation": [[[1, 1], [5, 1], [5, 5]]]}, "polygon with values that are not numbers"
    ),
    "polygon is text": ({"segmentation": "1 1 5 1 5 5"}, "polygon with values that are not numbers"),
    "polygon is a number": ({"segmentation": 3}, "polygon with values that are not numbers"),
    "one of two polygons is good": ({"segmentation": [SQUARE, [1]]}, "polygon whose last point has no y"),
    "polygon is not in a list": ({"segmentation": SQUARE}, READ),
    "run lengths have no size": ({"segmentation": {"counts": [600]}}, "run lengths without a size"),
    "run lengths have a size of text": (
        {"segmentation": {"counts": [600], "size": "20x30"}}, "run lengths without a size"
    ),
    "run lengths have three sizes": (
        {"segmentation": {"counts": [600], "size": [20, 30, 1]}}, "run lengths without a size"
    ),
    "run lengths have a size of 0": (
        {"segmentation": {"counts": [0], "size": [0, 30]}}, "run lengths without a size"
    ),
    "run lengths are of a turned image": (
        {"segmentation": {"counts": [600], "size": [30, 20]}}, "run lengths of another size than the image"
    ),
    "run lengths do not fill the mask": (
        {"segmentation": {"counts": [599], "size": [20, 30]}}, "broken run lengths"
    ),
    "run lengths are missing": ({"segmentation": {"size": [20, 30]}}, "broken run lengths"),
    "run lengths are negative": (
        {"segmentation": {"counts": [700, -100], "size": [20, 30]}}, "broken run lengths"
    ),
    "run lengths are fractions": (
        {"segmentation": {"counts": [299.5, 300.5], "size": [20, 30]}}, "broken run lengths"
    ),
    "run lengths are cut short": ({"segmentation": {"counts": "o", "size": [20, 30]}}, "broken run lengths"),
    "run lengths have other letters": (
        {"segmentation": {"counts": "\u00e4", "size": [20, 30]}}, "broken run lengths"
    ),
    "keypoints are of another number": (
        {"keypoints": [1, 1, 2]}, "keypoints of another number than categories declare"
    ),
    "keypoints are not triples": (
        {"keypoints": [1, 1, 2, 3]}, "keypoints that are not triples of numbers"
    ),
    "keypoints are text": ({"keypoints": "1 1 2"}, "keypoints that are not triples of numbers"),
    "keypoints have NaN": ({"keypoints": [1, NAN, 2, 1, 1, 2]}, "keypoints that are not triples of numbers"),
    "a visibility is 7": ({"keypoints": [1, 1, 7, 1, 1, 2]}, "keypoint whose visibility is not 0, 1 or 2"),
    "a visibility is -1": ({"keypoints": [1, 1, -1, 1, 1, 2]}, "keypoint whose visibility is not 0, 1 or 2"),
    "visibility is 0.5": ({"keypoints": [1, 1, 0.5, 1, 1, 2]}, "keypoint whose visibility is not 0, 1 or 2"),
    "a keypoint is far outside": ({"keypoints": [99, 1, 2, 1, 1, 2]}, "keypoint far outside its image"),
    "there are 501 keypoints": ({"keypoints": [1, 1, 2] * 501}, "more than 500 keypoints"),
}  # fmt: skip

# A line of YOLO's labels, for two classes.
YOLO: dict[str, tuple[str, str]] = {
    "class is a word": ("cat 0.5 0.5 0.1 0.1", "line that is no object"),
    "class is negative": ("-1 0.5 0.5 0.1 0.1", "object of an unknown category"),
    "class is beyond the names": ("2 0.5 0.5 0.1 0.1", "object of an unknown category"),
    "class is a fraction": ("0.5 0.5 0.5 0.1 0.1", "object of an unknown category"),
    "class is NaN": ("nan 0.5 0.5 0.1 0.1", "object of an unknown category"),
    "there is a class alone": ("0", "line that is no object"),
    "there are three numbers": ("0 0.5 0.5 0.1", "line that is no object"),
    "outline has an odd number": ("0 0.1 0.1 0.5 0.1 0.5 0.5 0.1", "line that is no object"),
    "numbers have commas": ("0 0,5 0,5 0,1 0,1", "line that is no object"),
    "box has NaN": ("0 nan 0.5 0.1 0.1", "coordinates that are not shares of the image"),
    "box has no width": ("0 0.5 0.5 0 0.1", "object without an area"),
    "box is outside": ("0 1.5 0.5 0.1 0.1", "coordinates that are not shares of the image"),
    "box is in pixels": ("0 320 240 100 80", "coordinates that are not shares of the image"),
    "a corner of the box is outside, and clipped": ("0 0.95 0.5 0.2 0.1", READ),
    "outline is in pixels": ("0 3 4 20 4 20 16", "coordinates that are not shares of the image"),
    "outline is outside by rounding": ("0 0.1 0.1 1.004 0.1 0.5 0.5", READ),
    "keypoints are without kpt_shape": (
        "0 0.5 0.5 0.1 0.1 0.5 0.5 2 0.6 0.5 2",
        "coordinates that are not shares of the image",
    ),
}

# An object of Pascal VOC.
BOX = "<bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox>"
VOC: dict[str, tuple[str, str]] = {
    "name is missing": (BOX.format(1, 1, 5, 5), "object of an unknown category"),
    "name is empty": ("<name> </name>" + BOX.format(1, 1, 5, 5), "object of an unknown category"),
    "bndbox is missing": ("<name>a</name>", "object without a box"),
    "xmin is a word": ("<name>a</name>" + BOX.format("one", 1, 5, 5), "object without a box"),
    "ymax is empty": ("<name>a</name>" + BOX.format(1, 1, 5, ""), "object without a box"),
    "xmax is NaN": ("<name>a</name>" + BOX.format(1, 1, "nan", 5), "object without a box"),
    "xmax is left of xmin": ("<name>a</name>" + BOX.format(9, 1, 5, 5), "object without an area"),
    "box is outside": ("<name>a</name>" + BOX.format(40, 1, 50, 5), "object outside its image"),
}


TABLES: dict[str, dict[str, Any]] = {"COCO": COCO, "YOLO": YOLO, "Pascal VOC": VOC}
CASES = [(name, kind, case[1]) for name, table in TABLES.items() for kind, case in table.items()]


@pytest.fixture(scope="module")
def reasons_of(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], set[str]]:
    """The reasons for which each kind was left out: all kinds of a format are in one conversion."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        conversions = {"COCO": _coco, "YOLO": _yolo, "Pascal VOC": _voc}
        return {
            (name, kind): reasons
            for name, convert in conversions.items()
            for kind, reasons in convert(tmp_path_factory.mktemp("source")).items()
        }


def _picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.zeros((20, 30, 3), np.uint8)).save(path)


def _skips(folder: Path, source: Path) -> list[dict[str, str]]:
    converted(source, folder / "out", allow_loss=1)
    return [json.loads(line) for line in (folder / "out" / "skipped.jsonl").read_text().splitlines()]


def _coco(folder: Path) -> dict[str, set[str]]:
    _picture(folder / "a.png")
    annotations: list[Any] = []
    for number, (change, _) in enumerate(COCO.values()):
        if isinstance(change, dict):
            changed = {"id": number, "image_id": 1, "category_id": 1, "bbox": [1, 1, 3, 3], **change}
            annotations.append({name: value for name, value in changed.items() if value is not ...})
        else:
            annotations.append(change)
    content = {
        "images": [{"id": 1, "file_name": "a.png", "height": 20, "width": 30}],
        "annotations": annotations,
        "categories": [{"id": 1, "name": "thing", "keypoints": ["a", "b"]}],
    }
    (folder / "x.json").write_text(json.dumps(content))
    skips = _skips(folder, folder / "x.json")
    reasons: dict[str, set[str]] = {kind: set() for kind in COCO}
    kinds = list(COCO)
    for skip in skips:
        reasons[kinds[int(skip["detail"].split()[1])]].add(skip["reason"])
    return reasons


def _yolo(folder: Path) -> dict[str, set[str]]:
    for number, (line, _) in enumerate(YOLO.values()):
        _picture(folder / "set" / "images" / f"{number:02}.png")
        (folder / "set" / "labels").mkdir(exist_ok=True)
        (folder / "set" / "labels" / f"{number:02}.txt").write_text(f"1 0.5 0.5 0.1 0.1\n{line}\n")
    (folder / "set" / "classes.txt").write_text("cat\ndog\n")
    return _by_image(YOLO, _skips(folder, folder / "set"))


def _voc(folder: Path) -> dict[str, set[str]]:
    for number, (body, _) in enumerate(VOC.values()):
        _picture(folder / "set" / "JPEGImages" / f"{number:02}.png")
        (folder / "set" / "Annotations").mkdir(exist_ok=True)
        good = "<object><name>a</name>" + BOX.format(1, 1, 5, 5) + "</object>"
        text = f"<annotation><filename>{number:02}.png</filename>{good}<object>{body}</object></annotation>"
        (folder / "set" / "Annotations" / f"{number:02}.xml").write_text(text)
    return _by_image(VOC, _skips(folder, folder / "set"))


def _by_image(table: dict[str, Any], skips: list[dict[str, str]]) -> dict[str, set[str]]:
    kinds = list(table)
    reasons: dict[str, set[str]] = {kind: set() for kind in kinds}
    for skip in skips:
        reasons[kinds[int(Path(skip["key"]).stem)]].add(skip["reason"])
    return reasons


@pytest.mark.parametrize(("name", "kind", "reason"), CASES)
def test_a_malformed_annotation_is_left_out_with_its_reason(
    reasons_of: dict[tuple[str, str], set[str]], name: str, kind: str, reason: str
) -> None:
    assert reasons_of[name, kind] == ({reason} if reason else set())


def test_the_page_of_errors_has_every_case(documented_rows: Callable[[Iterable[str]], list[str]]) -> None:
    rows = [f"| {name} | {kind} | {reason or 'read'} |" for name, kind, reason in CASES]
    assert documented_rows(TABLES) == rows
