"""Tests of annotations that lie beside their images, in whatever folders, as labelling tools write them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import run
from helpers.datasets import converted
from PIL import Image

import stoker
from stoker.errors import SourceError
from stoker.formats.sources.options import SourceOptions
from stoker.formats.sources.registry import find_format, list_source
from stoker.formats.sources.source import Source

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk", "cache")

VOC = (
    "<annotation><filename>{name}</filename><size><width>40</width><height>30</height></size><object>"
    "<name>owl</name><bndbox><xmin>3</xmin><ymin>4</ymin><xmax>12</xmax><ymax>14</ymax></bndbox></object>"
    "</annotation>"
)
YOLO = "0 0.175 0.28333333 0.25 0.36666667\n"
LABELME = json.dumps(
    {
        "imagePath": "{name}",
        "imageHeight": 30,
        "imageWidth": 40,
        "shapes": [{"label": "owl", "shape_type": "rectangle", "points": [[12, 14], [2, 3]]}],
    }
)
CONTENTS = {"xml": VOC, "txt": YOLO, "json": LABELME}


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    """``make("img/0.png xml/0.xml", "classes.txt: owl")`` writes images, and annotations of one box each."""

    def make(names: str, *others: str) -> Path:
        root = tmp_path / "source"
        for number, name in enumerate(names.split()):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix.lower() in (".png", ".jpg"):
                Image.new("RGB", (40, 30), (number, 0, 0)).save(path)
            else:
                image = (
                    json.dumps(f"..\\images\\{path.stem}.png")[1:-1] if path.suffix == ".json" else path.stem
                )
                path.write_text(CONTENTS[path.suffix[1:]].replace("{name}", image))
        for other in others:
            name, _, text = other.partition(": ")
            (root / name).write_text(text)
        return root

    return make


PLACES = {
    "beside": "0.png 0.{0} 1.JPG 1.{0}",
    "in-folders": "a/0.png a/0.{0} b/1.png b/1.{0}",
    "apart": "images/0.png images/1.jpg notes/0.{0} notes/1.{0}",
    "apart-in-folders": "Photos/a/0.png Photos/b/1.png Boxes/a/0.{0} Boxes/b/1.{0}",
    "below-the-images": "0.png 1.png boxes/0.{0} boxes/1.{0}",
    "above-the-images": "img/0.png img/1.png 0.{0} 1.{0}",
}


@pytest.mark.parametrize("folder", ["", "Annotations"])
def test_annotations_in_capitals_are_read(make: Callable[..., Path], folder: str) -> None:
    root = make("JPEGImages/0.jpg" if folder else "0.jpg")
    (root / folder).mkdir(exist_ok=True)
    (root / folder / "0.XML").write_text(VOC.replace("{name}", "0.jpg"))
    listing = list_source(Source(root), find_format(Source(root)))
    assert (len(listing), listing.classes) == (1, ("owl",))


def test_names_of_classes_lie_in_the_folders_of_labels_and_agree(make: Callable[..., Path]) -> None:
    root = make("data/a/0.png data/a/0.txt data/b/1.png data/b/1.txt", "data/obj.names: owl\njay")
    listing = list_source(Source(root), find_format(Source(root)))
    assert listing.classes == ("owl", "jay")
    assert [skip.key for skip in listing.skipped] == ["data/obj.names"]  # no file that has been read
    (root / "data/b/classes.txt").write_text("jay\nowl\n")
    with pytest.raises(SourceError, match="the folders data/b and data name different classes"):
        list_source(Source(root), find_format(Source(root)))


@pytest.mark.parametrize("names", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize(("suffix", "name"), [("xml", "voc"), ("txt", "yolo"), ("json", "labelme")])
def test_annotations_are_read_where_labelling_tools_put_them(
    make: Callable[..., Path], tmp_path: Path, names: str, suffix: str, name: str
) -> None:
    root = make(names.format(suffix), *(["classes.txt: owl\njay\n"] if suffix == "txt" else []))
    assert find_format(Source(root)).name == name
    dataset = converted(root, tmp_path / "out")
    assert dataset.classes[0] == "owl"
    found = dataset.annotations(range(2))
    assert found.owner.tolist() == [0, 1]
    assert found.boxes.ravel().tolist() == pytest.approx([2, 3, 12, 14] * 2, abs=1e-4)
    with pytest.raises(SourceError, match=f"the source has the format {name}, which cannot be read in place"):
        stoker.open(root)


@pytest.mark.parametrize(
    "names",
    [
        "{s}/0.png {s}/0.xml",
        "data/{s}/0.png data/{s}/0.txt",
        "pictures/{s}/0.png boxes/{s}/0.json",
        "JPEGImages/{s}/0.png Annotations/{s}/0.xml",
        "images/{s}/0.png label/{s}/0.txt",
        "{s}/images/0.png {s}/annotations/0.xml",
    ],
)
def test_splits_of_annotated_images_are_refused_with_commands_that_run(
    make: Callable[..., Path], tmp_path: Path, names: str
) -> None:
    root = make(" ".join(names.format(s=split) for split in ("train", "valid")))
    with pytest.raises(SourceError, match="splits") as caught:
        stoker.convert(root, tmp_path / "out")
    commands = str(caught.value.hint).removeprefix("Take each by itself: ").split("; ")[:2]
    for command, split in zip(commands, ("train", "valid"), strict=True):
        run(*shlex.split(command.replace("TARGET", str(tmp_path / "out")))[1:])
        assert len(stoker.open(tmp_path / "out" / split).annotations([0])) == 1


def test_the_list_of_darknet_names_splits_and_classes(make: Callable[..., Path], tmp_path: Path) -> None:
    root = make(
        "obj_train_data/0.png obj_train_data/0.txt obj_train_data/1.png obj_train_data/1.txt",
        "obj.data: classes = 1\ntrain = data/train.txt\nvalid = data/valid.txt\nnames = data/obj.names\n",
        "obj.names: owl\n",
        "train.txt: data/obj_train_data/0.png\n",
        "valid.txt: data/obj_train_data/1.png\n",
    )
    with pytest.raises(SourceError, match=r"(?s)several splits of YOLO.* stoker convert .*/obj.data TARGET;"):
        stoker.convert(root, tmp_path / "out")
    datasets = stoker.convert(root / "obj.data", tmp_path / "out").datasets
    assert {split: stoker.open(folder).keys([0]) for split, folder in datasets.items()} == {
        "train": ["obj_train_data/0.png"],
        "val": ["obj_train_data/1.png"],
    }
    (root / "obj.data").write_text("train = data/train.txt\nnames = data/obj.names\n")
    dataset = converted(root, tmp_path / "whole")
    assert (len(dataset), dataset.classes) == (2, ("owl",))
    (root / "obj.names").unlink()
    with pytest.raises(SourceError, match=r"there is no file of names data/obj\.names"):
        stoker.convert(root / "obj.data", tmp_path / "none")


def test_an_annotation_belongs_to_the_image_of_its_stem(make: Callable[..., Path]) -> None:
    root = make("0.png 0.xml 1.png 1.xml")
    (root / "0.xml").write_text(VOC.replace("{name}", "1.png").replace("owl", "jay"))  # a copied one
    listing = list_source(Source(root), find_format(Source(root)))
    assert (listing.classes, listing.skipped) == (("jay", "owl"), ())
    assert listing.objects is not None
    assert listing.objects.columns["object_labels"].to_pylist() == [[0], [1]]


def test_annotations_may_have_their_images_elsewhere(make: Callable[..., Path], tmp_path: Path) -> None:
    root = make("there/0.png there/1.png xml/deep/0.xml xml/deep/1.xml")
    options = SourceOptions(images=root / "there")
    stoker.convert(root / "xml" / "deep", tmp_path / "out", source_options=options)
    assert stoker.open(tmp_path / "out").keys(range(2)) == ["0.png", "1.png"]


# Boxes alone have minus their area until they are clipped.
SHAPES: dict[str, tuple[dict[str, Any], Any]] = {
    "polygon": ({"points": [[1, 1], [9, 1], [9, 7]]}, ([1, 1, 9, 7], 24, 1)),
    "turned": ({"shape_type": "rotation", "points": [[5, 1], [9, 5], [5, 9], [1, 5]]}, ([1, 1, 9, 9], 32, 1)),
    "rectangle": ({"shape_type": "rectangle", "points": [[1, 9], [5, 2]]}, ([1, 2, 5, 9], -28, 0)),
    "four-corners": (
        {"shape_type": "rectangle", "points": [[1, 2], [5, 2], [5, 9], [1, 9]]},
        ([1, 2, 5, 9], -28, 0),
    ),
    "circle": ({"shape_type": "circle", "points": [[10, 10], [10, 14]]}, ([6, 6, 14, 14], 48, 1)),
    "point": ({"shape_type": "point", "points": [[3, 3]]}, "shape that is no box and no outline"),
    "line": ({"shape_type": "linestrip", "points": [[3, 3], [4, 4], [5, 3]]}, "shape that is no box"),
    "two-points": ({"points": [[1, 1], [9, 1]]}, "polygon of less than three points"),
    "no-points": ({"points": None}, "shape without points"),
    "no-label": ({"label": None, "points": [[1, 1], [9, 1], [9, 7]]}, "object of an unknown category"),
}


@pytest.mark.parametrize(("shape", "expected"), SHAPES.values(), ids=SHAPES)
def test_shapes_of_labelme_become_objects(
    make: Callable[..., Path], shape: dict[str, Any], expected: Any
) -> None:
    shapes = [{"label": "owl", **shape}]
    root = make("0.png", f"0.json: {json.dumps({'imagePath': 'x.png', 'shapes': shapes})}")
    listing = list_source(Source(root), find_format(Source(root)))
    if isinstance(expected, str):
        assert [skip.key for skip in listing.skipped] == ["0.png"]
        assert listing.skipped[0].reason.startswith(expected)
        return
    assert listing.objects is not None
    columns = {name: column.to_pylist()[0] for name, column in listing.objects.columns.items()}
    box, area, polygons = expected
    assert columns["object_boxes"] == pytest.approx(box)
    assert columns["object_area"] == pytest.approx([area])
    assert len(columns.get("object_polygon_sizes", [])) == polygons


def test_turned_boxes_and_rectangles_of_labelme_have_corners(make: Callable[..., Path]) -> None:
    shapes = [{"label": "owl", **SHAPES[name][0]} for name in ("turned", "rectangle")]
    root = make("0.png", f"0.json: {json.dumps({'imagePath': 'x.png', 'shapes': shapes})}")
    listing = list_source(Source(root), find_format(Source(root)))
    assert listing.objects is not None
    (corners,) = listing.objects.columns["object_corners"].to_pylist()
    assert corners == [5, 1, 9, 5, 5, 9, 1, 5, 1, 2, 5, 2, 5, 9, 1, 9]


def test_polygons_of_one_group_are_one_object(make: Callable[..., Path]) -> None:
    one, other = [[1, 1], [5, 1], [5, 5]], [[21, 1], [25, 1], [25, 5]]
    shapes = [{"label": "owl", "points": points, "group_id": 7} for points in (one, other)]
    shapes += [{"label": "owl", "points": one, "group_id": None} for _ in range(2)]
    root = make("0.png", f"0.json: {json.dumps({'imagePath': '0.png', 'shapes': shapes})}", "x.json: {}")
    listing = list_source(Source(root), find_format(Source(root)))
    assert listing.objects is not None
    assert listing.objects.columns["object_area"].to_pylist() == [[16, 8, 8]]
    assert listing.objects.columns["object_polygon_owner"].to_pylist() == [[0, 0, 1, 2]]
    assert [skip[:2] for skip in listing.skipped] == [("x.json", "not an image")]


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("x.xml: <?xml version='1.0'?><annotations>", "annotations of CVAT, which is not read"),
        ('x.json: [{"id": 1, "annotations": [], "data": {}}]', "annotations of Label Studio"),
        ('x.json: {"filename": "0.png", "regions": []}', "annotations of VGG Image Annotator"),
        ("x.csv: 0.png,1,2,9,9,owl", "a table of boxes, which is not read"),
        ("x.csv: filename,class,xmin,ymin,xmax,ymax", "a table of boxes"),
        ("x.csv: path;label;x_min;y_min;x_max;y_max", "a table of boxes"),
        ("x.tsv: path\tlabel\tx1\ty1\tx2\ty2", "a table of boxes"),
        ("x.csv: path,label,x,y,w,h", "a table of boxes"),
        ("x.csv: filename,region_count,region_shape_attributes", "annotations of VGG Image Annotator"),
        ('x.json: [{"path": "0.png", "boxes": [[1, 2, 3, 4]]}]', "a table of boxes"),
        ('x.jsonl: {"file_name": "0.png", "objects": {"bbox": []}}', "metadata with objects"),
        ("0.xml: <annotation>", "annotations of Pascal VOC, one file of several"),
    ],
)
def test_a_file_of_another_tool_is_refused_by_its_name(
    make: Callable[..., Path], file: str, words: str
) -> None:
    root = make("0.png", file)
    with pytest.raises(SourceError, match=f"the file holds {words}"):
        find_format(Source(root / file.partition(":")[0]))


def test_paths_of_windows_are_found(make: Callable[..., Path], tmp_path: Path) -> None:
    root = make(
        "img/0.png img/a/1.png img/a/0.txt", "img\\0.png: x", "list.csv: path,label\nimg\\a\\1.png,owl\n"
    )
    (root / "img\\0.png").unlink()
    images = [{"id": 1, "file_name": "img\\0.png"}, {"id": 2, "file_name": "img\\a\\1.png"}]
    box = {"category_id": 1, "image_id": 1, "bbox": [1, 2, 3, 4]}
    (root / "coco.json").write_text(
        json.dumps({"images": images, "annotations": [box], "categories": [{"id": 1, "name": "owl"}]})
    )
    assert converted(root / "coco.json", tmp_path / "coco").keys(range(2)) == ["img/0.png", "img/a/1.png"]
    assert converted(root / "list.csv", tmp_path / "list").keys([0]) == ["img/a/1.png"]
    (root / "img" / "a" / "1.txt").write_text(YOLO)
    (root / "train.txt").write_text("img\\a\\1.png\n")
    (root / "data.yaml").write_text("path: .\\\ntrain: train.txt\nval: img\\a\nnc: 2\n")
    datasets = stoker.convert(root / "data.yaml", tmp_path / "yolo").datasets
    assert [stoker.open(folder).classes for folder in datasets.values()] == [("class_0", "class_1")] * 2
