"""Tests of Open Images, CrowdHuman and MOTChallenge as sources, and of their malformed objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.pictures import exif
from PIL import Image

import stoker
from stoker.errors import ConfigError, SourceError
from stoker.formats.dataset.columns.run_lengths import mask_of_runs

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

HEADER = "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsGroupOf"
GOOD = "a,xclick,/m/01,1,0.1,0.5,0.1,0.5,1,0"

# A line of Open Images, and the reason for which it is left out.
OPEN_IMAGES = {
    "ImageID is empty": (",x,/m/01,1,0.1,0.5,0.1,0.5,0,0", "object of an unknown image"),
    "ImageID leaves the folder": ("../a,x,/m/01,1,0.1,0.5,0.1,0.5,0,0", "path that leaves the source"),
    "LabelName is empty": ("a,x,,1,0.1,0.5,0.1,0.5,0,0", "object of an unknown category"),
    "line is cut": ("a,x,/m/01,1,0.1", "line that is no object"),
    "XMin is a word": ("a,x,/m/01,1,left,0.5,0.1,0.5,0,0", "object without a box"),
    "YMax is empty": ("a,x,/m/01,1,0.1,0.5,0.1,,0,0", "object without a box"),
    "XMax is left of XMin": ("a,x,/m/01,1,0.5,0.1,0.1,0.5,0,0", "object without an area"),
    "box is in pixels": ("a,x,/m/01,1,10,50,10,50,0,0", "object outside its image"),
}
# A line of Open Images' segmentations: the file of its mask decides.
MASK_HEADER = "MaskPath,ImageID,LabelName,BoxID,BoxXMin,BoxXMax,BoxYMin,BoxYMax,PredictedIoU,Clicks"
GOOD_MASK = "good.png,a,/m/01,b,0.1,0.5,0.1,0.5,0.9,"
OPEN_IMAGES_MASKS = {
    "MaskPath is empty": (",a,/m/01,b,0.1,0.5,0.1,0.5,0,", "object whose mask is missing"),
    "mask is missing": ("no.png,a,/m/01,b,0.1,0.5,0.1,0.5,0,", "object whose mask is missing"),
    "mask is cut short": ("cut.png,a,/m/01,b,0.1,0.5,0.1,0.5,0,", "object whose mask is left out"),
    "mask has colours": ("rgb.png,a,/m/01,b,0.1,0.5,0.1,0.5,0,", "object whose mask is left out"),
    "mask is a JPEG": ("x.jpg,a,/m/01,b,0.1,0.5,0.1,0.5,0,", "object whose mask is left out"),
    "mask has no pixel": ("black.png,a,/m/01,b,0.1,0.5,0.1,0.5,0,", "object whose mask is empty"),
    "mask leaves the folder": ("../x/no.png,a,/m/01,b,0.1,0.5,0.1,0.5,0,", "object whose mask is missing"),
}
# A box of CrowdHuman, or a whole line.
PERSON: dict[str, Any] = {"tag": "person", "fbox": [1, 1, 5, 5]}
CROWDHUMAN: dict[str, tuple[Any, str]] = {
    "tag is missing": ({"fbox": [1, 1, 5, 5]}, "object of an unknown category"),
    "tag is another word": (PERSON | {"tag": "dog"}, "object of an unknown category"),
    "box is a number": (7, "object of an unknown category"),
    "fbox is missing": ({"tag": "person"}, "object without a box"),
    "fbox has three numbers": (PERSON | {"fbox": [1, 1, 5]}, "object without a box"),
    "fbox has text": (PERSON | {"fbox": [1, 1, "5", 5]}, "object without a box"),
    "fbox has no height": (PERSON | {"fbox": [1, 1, 5, 0]}, "object without an area"),
    "fbox is outside": (PERSON | {"fbox": [90, 1, 5, 5]}, "object outside its image"),
    "fbox is partly outside, and clipped": (PERSON | {"fbox": [-3, -3, 9, 9]}, ""),
    "line is no JSON": ("{", "line that is no object with ID and gtboxes"),
    "ID is missing": ('{"gtboxes": []}', "line that is no object with ID and gtboxes"),
    "gtboxes is missing": ('{"ID": "a"}', "line that is no object with ID and gtboxes"),
}
# A line of gt.txt.
MOT = {
    "line has five cells": ("1,1,1,1,5", "line that is no object"),
    "left is a word": ("1,1,x,1,5,5,1,1,1", "line that is no object"),
    "track is NaN": ("1,nan,1,1,5,5,1,1,1", "line that is no object"),
    "frame is 0": ("0,1,1,1,5,5,1,1,1", "object of an unknown image"),
    "frame is after the last": ("3,1,1,1,5,5,1,1,1", "object of an unknown image"),
    "class is 13": ("1,1,1,1,5,5,1,13,1", "object of an unknown category"),
    "left is NaN": ("1,1,nan,1,5,5,1,1,1", "object without a box"),
    "width is negative": ("1,1,9,1,-5,5,1,1,1", "object without an area"),
    "box is outside": ("1,1,90,1,5,5,1,1,1", "object outside its image"),
}
TABLES: dict[str, dict[str, Any]] = {
    "Open Images": OPEN_IMAGES,
    "Open Images, masks": OPEN_IMAGES_MASKS,
    "CrowdHuman": CROWDHUMAN,
    "MOTChallenge": MOT,
}


def picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.zeros((20, 30, 3), np.uint8)).save(path)


def open_images(folder: Path, *lines: str) -> Path:
    picture(folder / "a.jpg")
    (folder / "x.csv").write_text("\n".join((HEADER, GOOD, *lines)))
    return folder / "x.csv"


def open_images_masks(folder: Path, *lines: str) -> Path:
    """An image on its side, whose objects have masks."""
    pixels = np.zeros((30, 20, 3), np.uint8)
    masks = folder / "masks"
    masks.mkdir(parents=True)
    Image.fromarray(pixels).save(folder / "a.jpg", exif=exif(6))  # turned by 90 degrees when it is shown
    good = np.zeros((10, 15), bool)
    good[1:5, 2:7] = True
    Image.fromarray(good).save(masks / "good.png")
    (masks / "cut.png").write_bytes((masks / "good.png").read_bytes()[:40])
    Image.fromarray(pixels).save(masks / "rgb.png")
    Image.fromarray(pixels[..., 0]).save(masks / "x.jpg")
    Image.fromarray(pixels[..., 0]).save(masks / "black.png")
    (folder / "x.csv").write_text("\n".join((MASK_HEADER, GOOD_MASK, *lines)))
    return folder / "x.csv"


def crowdhuman(folder: Path, *boxes: Any) -> Path:
    picture(folder / "Images" / "a.jpg")
    lines = [{"ID": "a", "gtboxes": [PERSON, *(one for one in boxes if not isinstance(one, str))]}]
    whole = [one for one in boxes if isinstance(one, str)]
    (folder / "x.odgt").write_text("\n".join([*map(json.dumps, lines), *whole]))
    return folder / "x.odgt"


def mot(folder: Path, *lines: str) -> Path:
    for frame in (1, 2):
        picture(folder / "img1" / f"{frame:06}.jpg")
    (folder / "gt").mkdir()
    (folder / "seqinfo.ini").write_text("[Sequence]\nseqLength=2\nimWidth=30\nimHeight=20\n")
    (folder / "gt" / "gt.txt").write_text("\n".join(("1,7,2,3,5,6,1,1,0.5", "2,7,4,3,5,6,0,8,1", *lines)))
    return folder


WRITE: dict[str, Callable[..., Path]] = {
    "Open Images": open_images,
    "Open Images, masks": open_images_masks,
    "CrowdHuman": crowdhuman,
    "MOTChallenge": mot,
}


CASES = [(name, kind, *case) for name, table in TABLES.items() for kind, case in table.items()]


@pytest.mark.parametrize(("name", "kind", "malformed", "reason"), CASES)
def test_a_malformed_object_is_left_out_with_its_reason(
    tmp_path: Path, name: str, kind: str, malformed: Any, reason: str
) -> None:
    source = WRITE[name](tmp_path / "source", malformed)
    masks = source.parent / "masks"
    instances = masks if masks.exists() else None
    summary = stoker.convert(source, tmp_path / "out", instances=instances, allow_loss=1)
    assert dict(summary.skipped) == ({reason: 1} if reason else {})


def test_the_page_of_errors_has_every_case(documented_rows: Callable[[Iterable[str]], list[str]]) -> None:
    rows = [f"| {name} | {kind} | {reason or 'read'} |" for name, kind, _, reason in CASES]
    assert documented_rows(TABLES) == rows


def test_open_images_has_names_of_classes_groups_and_flags(tmp_path: Path) -> None:
    source = open_images(tmp_path, "a,xclick,/m/02,1,0,1,0,1,0,1")
    (tmp_path / "oidv7-class-descriptions-boxable.csv").write_text("LabelName,DisplayName\n/m/01,Zebra\n")
    stoker.convert(source, tmp_path / "out")
    dataset = stoker.open(tmp_path / "out")
    found = dataset.annotations([0])
    assert dataset.classes == ("/m/02", "Zebra")
    assert found.labels.tolist() == [1, 0]
    np.testing.assert_allclose(found.boxes, [[3, 2, 15, 10], [0, 0, 30, 20]])
    assert found.crowd.tolist() == [False, True]
    assert found.extra["occluded"].tolist() == [1, 0]


def test_open_images_has_masks_of_objects_in_the_size_of_the_image(tmp_path: Path) -> None:
    source = open_images_masks(tmp_path / "a")
    stoker.convert(source, tmp_path / "out", instances=tmp_path / "a" / "masks")
    found = stoker.open(tmp_path / "out").annotations([0])
    np.testing.assert_allclose(found.boxes, [[3, 2, 15, 10]])
    assert found.runs is not None
    rows, columns = np.nonzero(mask_of_runs(found.runs[0], 20, 30))
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (2, 9, 4, 13)
    assert found.area == pytest.approx([8 * 10])


def test_masks_are_given_if_and_only_if_the_csv_names_them(tmp_path: Path) -> None:
    source = open_images_masks(tmp_path / "a")
    with pytest.raises(ConfigError, match=r"the folder of the masks is not given(?s:.)*--instances DIR"):
        stoker.convert(source, tmp_path / "other")
    with pytest.raises(ConfigError, match="the CSV names no masks of objects"):
        stoker.convert(open_images(tmp_path / "b"), tmp_path / "other", instances=tmp_path / "a" / "masks")


def test_ignored_boxes_of_crowdhuman_are_crowds(tmp_path: Path) -> None:
    ignored = [PERSON | {"extra": {"ignore": 1}}, PERSON | {"tag": "mask", "fbox": [9, 9, 3, 3]}]
    stoker.convert(crowdhuman(tmp_path, *ignored), tmp_path / "out")
    dataset = stoker.open(tmp_path / "out")
    found = dataset.annotations([0])
    assert dataset.classes == ("person",)
    assert found.boxes.tolist() == [[1, 1, 6, 6], [1, 1, 6, 6], [9, 9, 12, 12]]
    assert found.crowd.tolist() == [False, True, True]


@pytest.mark.parametrize(("kind", "name"), [("visible", "person"), ("head", "head")])
def test_crowdhuman_has_visible_parts_or_heads_if_asked(kind: str, name: str, tmp_path: Path) -> None:
    one = PERSON | {"vbox": [1, 2, 4, 3], "hbox": [1, 2, 4, 3], "head_attr": {"ignore": 1}}
    source = crowdhuman(tmp_path / "first", one, one)
    options: Any = {"person_box": kind, "allow_loss": 1}
    assert dict(stoker.convert(source, tmp_path / "out", **options).skipped) == {"object without a box": 1}
    stoker.append(tmp_path / "out", crowdhuman(tmp_path / "second", one), allow_loss=1)
    found = stoker.open(tmp_path / "out")
    assert found.classes == (name,)
    assert found.annotations([0, 1]).boxes.tolist() == [[1, 2, 5, 5]] * 3
    assert found.annotations([0]).crowd.tolist() == [kind == "head"] * 2


def test_a_box_of_people_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    source = crowdhuman(tmp_path / "c")
    with pytest.raises(ConfigError, match="person_box must be full, visible or head, not 'vbox'"):
        stoker.convert(source, tmp_path / "other", person_box="vbox")
    with pytest.raises(ConfigError, match="person_box is for sources of the format crowdhuman"):
        stoker.convert(open_images(tmp_path / "o"), tmp_path / "other", person_box="head")


def test_mot_has_pixels_from_0_tracks_and_ignored_objects(tmp_path: Path) -> None:
    for name in ("A", "B"):
        mot(tmp_path / "train" / name)
    stoker.convert(tmp_path / "train", tmp_path / "out")
    dataset = stoker.open(tmp_path / "out")
    found = dataset.annotations(range(4))
    assert dataset.keys([0, 1, 2]) == ["A/img1/000001.jpg", "A/img1/000002.jpg", "B/img1/000001.jpg"]
    assert found.boxes[:2].tolist() == [[1, 2, 6, 8], [3, 2, 8, 8]]
    assert [dataset.classes[label] for label in found.labels[:2]] == ["pedestrian", "distractor"]
    assert (found.id.tolist(), found.extra["ignored"].tolist()) == ([7] * 4, [0, 1, 0, 1])
    assert len(dataset.select(objects="ignored == 0").annotations(range(4))) == 2


def test_open_images_without_its_images_or_columns_is_refused(tmp_path: Path) -> None:
    source = open_images(tmp_path / "o")
    with pytest.raises(SourceError, match=r"(?s)not one of the 1 images that x.csv names.*--images DIR"):
        stoker.convert(source, tmp_path / "out", images=tmp_path)
    source.write_text("ImageID,LabelName\na,b\n")
    with pytest.raises(SourceError, match="the CSV has no column XMax, XMin, YMax, YMin"):
        stoker.convert(source, tmp_path / "out", source_format="open_images")


def test_crowdhuman_without_a_line_of_people_is_refused(tmp_path: Path) -> None:
    lines = crowdhuman(tmp_path / "c")
    lines.write_text("7\n")
    with pytest.raises(SourceError, match="no line of the file is an object with ID and gtboxes"):
        stoker.convert(lines, tmp_path / "out")


def test_a_sequence_of_mot_without_truth_or_size_is_refused(tmp_path: Path) -> None:
    sequence = mot(tmp_path / "m")
    (sequence / "gt" / "gt.txt").unlink()
    with pytest.raises(SourceError, match=r"a sequence has no gt/gt\.txt"):
        stoker.convert(sequence, tmp_path / "out")
    (sequence / "seqinfo.ini").write_text("[Sequence]\nseqLength=many\n")
    message = r"(?s)the sequence cannot be read.*seqLength, imWidth and imHeight"
    with pytest.raises(SourceError, match=message):
        stoker.convert(sequence, tmp_path / "out")
