"""Tests of finding the format of a source, and of roots of datasets, which are refused with a command."""

from pathlib import Path
from typing import get_args

import pytest

from stoker.errors import ConfigError, SourceError
from stoker.formats.sources.options import SourceFormatName, SourceOptions
from stoker.formats.sources.registry import SOURCE_FORMATS, SourceFormat, find_format, list_source
from stoker.formats.sources.source import Source


def _root(folder: Path, *files: str) -> Path:
    """Write files, such as ``a.txt`` or, with a content, ``a.txt: content``."""
    for file in files:
        name, _, content = file.partition(": ")
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text('{"images": []}' if name.endswith(".json") else content)
    return folder


@pytest.mark.parametrize(
    ("files", "kind", "commands"),
    [
        (
            ["VOC2007/Annotations/1.xml", "VOC2007/JPEGImages/1.jpg", "VOC2012/Annotations/1.xml",
             "VOC2012/JPEGImages/1.jpg", "VOC2012/ImageSets/Main/train.txt: 1"],
            "Pascal VOC's datasets",
            ["stoker convert {root}/VOC2007 TARGET", "stoker convert {root}/VOC2012 TARGET",
             "one split: stoker convert {root}/VOC2012/ImageSets/Main/train.txt TARGET;"],
        ),
        (
            ["annotations/captions_train2017.json", "annotations/instances_train2017.json", "train2017/1"],
            "COCO's datasets",
            ["stoker convert {root}/annotations/instances_train2017.json TARGET --images {root}/train2017;"],
        ),
        (
            ["annotations/instances_val2017.json", "images/val2017/1.jpg"],
            "COCO's datasets",
            ["annotations/instances_val2017.json TARGET --images {root}/images/val2017;"],
        ),
        (
            ["train/_annotations.coco.json", "train/1.jpg", "valid/_annotations.coco.json"],
            "COCO's datasets",
            ["stoker convert {root}/train/_annotations.coco.json TARGET --images {root}/train;"],
        ),
        (
            ["data.yaml", "train/images/1.jpg", "train/labels/1.txt", "valid/images/2", "valid/labels/2.txt"],
            "YOLO's splits",
            ["stoker convert {root}/train TARGET", "stoker convert {root}/valid TARGET"],
        ),
        (["data.yaml", "train/1.jpg", "train/1.txt"], "YOLO's splits", ["{root}/images/x.jpg"]),
        (
            ["data.yaml: {train: ../train/images, names: [cat]}", "train/images/1.jpg", "train/labels/1.txt"],
            "YOLO's splits",
            ["Convert all splits: stoker convert {root}/data.yaml TARGET;"],
        ),
        (
            ["images/validation/ADE_val_1.jpg", "annotations/validation/ADE_val_1.png",
             "images/training/ADE_train_1.jpg", "annotations/training/ADE_train_1.png"],
            "images and masks",
            ["stoker convert {root}/images/training TARGET --masks {root}/annotations/training "
             "--mask-map ade20k (and in the same way, each with another TARGET: validation);"],
        ),
        (
            ["leftImg8bit/train/ulm/1.png", "gtFine/train/ulm/1.png", "leftImg8bit/val/bonn/2.png",
             "gtFine/val/bonn/2.png", "leftImg8bit/test/berlin/3.png"],
            "images and masks",
            ["stoker convert {root}/leftImg8bit/train TARGET --instances {root}/gtFine/train "
             "(and in the same way, each with another TARGET: val);",
             "TARGET --masks {root}/gtFine/train --mask-map cityscapes"],
        ),
        (
            ["images/1.jpg", "masks/1.png"],
            "images and masks",
            ["Convert with masks: stoker convert {root}/images TARGET --masks {root}/masks;"],
        ),
        (
            ["img_dir/train/1.jpg", "ann_dir/train/1.png", "img_dir/val/2.jpg", "ann_dir/val/2.png"],
            "images and masks",
            ["stoker convert {root}/img_dir/train TARGET --masks {root}/ann_dir/train (and"],
        ),
        (
            ["train/1.jpg", "train_masks/1_mask.gif"],
            "images and masks",
            ["stoker convert {root}/train TARGET --masks {root}/train_masks;"],
        ),
    ],
    ids=["voc", "coco", "coco-in-images", "roboflow-coco", "yolo", "darknet", "roboflow-yolo", "ade20k",
         "cityscapes", "masks", "mmseg", "carvana"],
)  # fmt: skip
def test_the_root_of_a_dataset_does_not_become_classes(
    tmp_path: Path, files: list[str], kind: str, commands: list[str]
) -> None:
    root = _root(tmp_path, *files)
    with pytest.raises(SourceError, match=f"the folder is the root of {kind}") as caught:
        find_format(Source(root))
    for command in commands:
        assert command.format(root=root) in str(caught.value)
    assert find_format(Source(root), "folder").name == "folder"
    assert find_format(Source(root, SourceOptions(unlabelled=True))).name == "folder"


@pytest.mark.parametrize(
    ("data", "command"),
    [
        ("", "stoker convert {root}/images/train TARGET/train; stoker convert {root}/images/val TARGET/val;"),
        ("train: images/train\nval: images/val\nnames: [cat]", "stoker convert {root}/data.yaml TARGET"),
    ],
)
def test_several_splits_of_yolo_do_not_become_one_dataset(tmp_path: Path, data: str, command: str) -> None:
    files = {"images": "1.jpg", "labels": "1.txt"}
    root = _root(
        tmp_path, *(f"{kind}/{split}/{file}" for kind, file in files.items() for split in ("train", "val"))
    )
    if data:
        (root / "data.yaml").write_text(data)
    with pytest.raises(SourceError, match="several splits of YOLO, which would become one dataset") as caught:
        find_format(Source(root))
    assert command.format(root=root) in str(caught.value)
    assert find_format(Source(root), "yolo").name == "yolo"
    assert find_format(Source(root / "images" / "val")).name == "yolo"
    (root / "data.yaml").write_text("train: images/train\nval: images/train\nnames: [cat]")
    (root / "images" / "val" / "1.jpg").unlink()
    (root / "images" / "val").rmdir()
    assert find_format(Source(root)).name == "yolo", "coco128's data.yaml names one folder twice"


def test_a_folder_of_classes_named_images_and_cat_is_no_root(tmp_path: Path) -> None:
    root = _root(tmp_path, "images/1.jpg", "cat/1.jpg", "cat/notes.json", "data.txt")
    (root / "cat" / "notes.json").write_text("[1]")
    assert find_format(Source(root)).name == "folder"


def test_each_name_of_a_format_has_one_row() -> None:
    assert sorted(row.name for row in SOURCE_FORMATS) == sorted(get_args(SourceFormatName))


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"coco, .*, found 'lvis'"):
        find_format(Source("photos"), "lvis")


@pytest.mark.parametrize("source_format", SOURCE_FORMATS, ids=lambda row: row.name)
def test_options_of_other_formats_are_refused(source_format: SourceFormat, tmp_path: Path) -> None:
    source = Source(tmp_path, SourceOptions(images=tmp_path, class_depth=1))
    with pytest.raises(ConfigError, match=f"; this one is {source_format.name}"):
        list_source(source, source_format)
