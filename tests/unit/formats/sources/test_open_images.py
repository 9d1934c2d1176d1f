"""Tests of Open Images as a source, and of its malformed objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from helpers.datasets import converted
from helpers.images import exif
from PIL import Image

import stoker
from stoker.errors import ConfigError, SourceError
from stoker.formats.dataset.annotations import mask_of_runs

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
    "box is in pixels": ("a,x,/m/01,1,0,50,0,50,0,0", "coordinates that are not shares of the image"),
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
TABLES = {"Open Images": OPEN_IMAGES, "Open Images, masks": OPEN_IMAGES_MASKS}


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


WRITE: dict[str, Callable[..., Path]] = {
    "Open Images": open_images,
    "Open Images, masks": open_images_masks,
}


CASES = [(name, kind, *case) for name, table in TABLES.items() for kind, case in table.items()]


@pytest.mark.parametrize("name", TABLES)
def test_a_malformed_object_is_left_out_with_its_reason(tmp_path: Path, name: str) -> None:
    lines = [line for line, _ in TABLES[name].values()]
    source = WRITE[name](tmp_path / "source", *lines)
    options = {"instances": source.parent / "masks"} if name == "Open Images, masks" else {}
    dataset = converted(source, tmp_path / "out", allow_loss=1, **options)
    assert Counter(dataset.manifest.skipped) == Counter(reason for _, reason in TABLES[name].values())
    assert len(dataset.annotations([0])) == 1


def test_the_page_of_errors_has_every_case(documented_rows: Callable[[Iterable[str]], list[str]]) -> None:
    rows = [f"| {name} | {kind} | {reason} |" for name, kind, _, reason in CASES]
    assert documented_rows(TABLES) == rows


def test_a_short_line_is_left_out_where_the_header_repeats_a_column(tmp_path: Path) -> None:
    source = open_images(tmp_path)
    source.write_text(f"{HEADER},IsGroupOf\n{GOOD},1\n{GOOD}\n")
    dataset = converted(source, tmp_path / "out", allow_loss=1)
    assert dataset.manifest.skipped == {"line that is no object": 1}


def test_open_images_has_names_of_classes_groups_and_flags(tmp_path: Path) -> None:
    source = open_images(tmp_path, "a,xclick,/m/02,1,0,1,0,1,0,1")
    (tmp_path / "oidv7-class-descriptions-boxable.csv").write_text("LabelName,DisplayName\n/m/01,Zebra\n")
    dataset = converted(source, tmp_path / "out")
    found = dataset.annotations([0])
    assert dataset.classes == ("/m/02", "Zebra")
    assert found.labels.tolist() == [1, 0]
    np.testing.assert_allclose(found.boxes, [[3, 2, 15, 10], [0, 0, 30, 20]])
    assert found.crowd.tolist() == [False, True]
    assert found.extra["occluded"].tolist() == [1, 0]


def test_open_images_has_masks_of_objects_in_the_size_of_the_image(tmp_path: Path) -> None:
    source = open_images_masks(tmp_path / "a")
    found = converted(source, tmp_path / "out", instances=tmp_path / "a" / "masks").annotations([0])
    np.testing.assert_allclose(found.boxes, [[3, 2, 15, 10]])
    assert found.runs is not None
    rows, columns = np.nonzero(mask_of_runs(found.runs[0], 20, 30))
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (2, 9, 4, 13)
    assert found.area == pytest.approx([8 * 10])


def test_masks_are_given_if_and_only_if_the_csv_names_them(tmp_path: Path) -> None:
    source = open_images_masks(tmp_path / "a")
    with pytest.raises(ConfigError, match=r"the folder of the masks is not given(?s:.)*instances"):
        stoker.convert(source, tmp_path / "other")
    with pytest.raises(ConfigError, match="the CSV names no instance masks"):
        converted(open_images(tmp_path / "b"), tmp_path / "other", instances=tmp_path / "a" / "masks")


def test_open_images_without_its_images_or_columns_is_refused(tmp_path: Path) -> None:
    source = open_images(tmp_path / "o")
    with pytest.raises(SourceError, match=r"(?s)not one of the 1 images that x.csv names is there.*images"):
        converted(source, tmp_path / "out", images=tmp_path)
    source.write_text("ImageID,LabelName\na,b\n")
    with pytest.raises(SourceError, match="the CSV has no column XMax, XMin, YMax, YMin"):
        converted(source, tmp_path / "out", source_format="open_images")
