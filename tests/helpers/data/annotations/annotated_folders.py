"""One scene of objects as a folder of every annotated format, and its truth in COCO's format."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

CLASSES = ("person", "car")
SIZES = ((90, 120), (120, 90), (80, 80))
"""Height and width of each image."""
BOXES = (
    ((0, (4, 6, 52, 70)), (1, (60, 40, 118, 88)), (0, (70, 2, 95, 30))),
    ((1, (10, 10, 40, 110)), (0, (50, 60, 88, 118))),
    ((0, (20, 20, 60, 70)), (1, (62, 1, 79, 79))),
)
"""Class and box (left, top, right, bottom) of the objects of each image; none overlap."""
KEYPOINTS = ("left", "right")


@dataclass(frozen=True)
class AnnotatedSource:
    """Arguments of :func:`stoker.convert`, and the classes whose objects the format has."""

    src: Path
    options: dict[str, Any]
    labels: tuple[int, ...] = (0, 1)


def truth(first_id: int = 1) -> dict[str, Any]:
    """The scene in COCO's format: boxes, a rectangle as the mask of each object, and two keypoints."""
    annotations = []
    for image, objects in enumerate(BOXES):
        for label, (left, top, right, bottom) in objects:
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": image + first_id,
                    "category_id": label + 1,
                    "bbox": [left, top, right - left, bottom - top],
                    "area": (right - left) * (bottom - top),
                    "iscrowd": 0,
                    "segmentation": [[left, top, right, top, right, bottom, left, bottom]],
                    "keypoints": [left + 5, top + 8, 2, right - 6, bottom - 9, 2],
                    "num_keypoints": 2,
                }
            )
    images = [
        {"id": number + first_id, "file_name": f"{number}.png", "height": height, "width": width}
        for number, (height, width) in enumerate(SIZES)
    ]
    names = {"keypoints": list(KEYPOINTS), "skeleton": []}
    categories = [{"id": label + 1, "name": name, **names} for label, name in enumerate(CLASSES)]
    return {"images": images, "annotations": annotations, "categories": categories}


def write_images(folder: Path, suffix: str = ".png", ending: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, size in enumerate(SIZES):
        pixels = np.random.default_rng(number).integers(0, 256, (*size, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}{ending}{suffix}")


def _coco(root: Path) -> AnnotatedSource:
    write_images(root)
    (root / "instances.json").write_text(json.dumps(truth()))
    return AnnotatedSource(root / "instances.json", {})


def _coco_gzip(root: Path) -> AnnotatedSource:
    write_images(root)
    (root / "instances.json.gz").write_bytes(gzip.compress(json.dumps(truth()).encode()))
    return AnnotatedSource(root / "instances.json.gz", {})


def _lvis(root: Path) -> AnnotatedSource:
    write_images(root / "train2017")
    content = truth()
    for image in content["images"]:
        image["coco_url"] = f"http://images.cocodataset.org/train2017/{image.pop('file_name')}"
    (root / "lvis.json").write_text(json.dumps(content))
    return AnnotatedSource(root / "lvis.json", {"images": root})


def _voc(root: Path) -> AnnotatedSource:
    write_images(root / "JPEGImages")
    (root / "Annotations").mkdir()
    for number, ((height, width), objects) in enumerate(zip(SIZES, BOXES, strict=True)):
        nodes = [
            f"<object><name>{CLASSES[label]}</name><bndbox><xmin>{left + 1}</xmin><ymin>{top + 1}</ymin>"
            f"<xmax>{right}</xmax><ymax>{bottom}</ymax></bndbox></object>"
            for label, (left, top, right, bottom) in objects
        ]
        (root / "Annotations" / f"{number}.xml").write_text(
            f"<annotation><filename>{number}.png</filename><size><width>{width}</width>"
            f"<height>{height}</height></size>{''.join(nodes)}</annotation>"
        )
    return AnnotatedSource(root, {})


def _yolo(root: Path) -> AnnotatedSource:
    write_images(root / "images")
    (root / "labels").mkdir()
    (root / "classes.txt").write_text("\n".join(CLASSES))
    for number, ((height, width), objects) in enumerate(zip(SIZES, BOXES, strict=True)):
        lines = [
            f"{label} {(left + right) / 2 / width} {(top + bottom) / 2 / height} "
            f"{(right - left) / width} {(bottom - top) / height}\n"
            for label, (left, top, right, bottom) in objects
        ]
        (root / "labels" / f"{number}.txt").write_text("".join(lines))
    return AnnotatedSource(root, {})


def _yolo_outlines(root: Path) -> AnnotatedSource:
    """YOLO's labels with the vertices of each object in place of its box."""
    source = _yolo(root)
    for number, ((height, width), objects) in enumerate(zip(SIZES, BOXES, strict=True)):
        lines = [
            f"{label} {left / width} {top / height} {right / width} {top / height} "
            f"{right / width} {bottom / height} {left / width} {bottom / height}\n"
            for label, (left, top, right, bottom) in objects
        ]
        (root / "labels" / f"{number}.txt").write_text("".join(lines))
    return source


def _yolo_keypoints(root: Path) -> AnnotatedSource:
    """YOLO's labels with the keypoints behind each box, at the centres of COCO's pixels."""
    source = _yolo(root)
    (root / "classes.txt").unlink()
    names = f"names: [{', '.join(CLASSES)}]"
    (root / "data.yaml").write_text(f"{names}\nkpt_shape: [2, 3]\nflip_idx: [1, 0]\n")
    for number, ((height, width), objects) in enumerate(zip(SIZES, BOXES, strict=True)):
        file = root / "labels" / f"{number}.txt"
        points = [
            f"{(left + 5.5) / width} {(top + 8.5) / height} 2 "
            f"{(right - 5.5) / width} {(bottom - 8.5) / height} 2"
            for _, (left, top, right, bottom) in objects
        ]
        pairs = zip(file.read_text().splitlines(), points, strict=True)
        file.write_text("".join(f"{line} {more}\n" for line, more in pairs))
    return source


def _data_yaml(root: Path) -> AnnotatedSource:
    _yolo(root)
    (root / "data.yaml").write_text(f"train: images\nnames: [{', '.join(CLASSES)}]\n")
    return AnnotatedSource(root / "data.yaml", {})


def _mask(image: int, value: Callable[[int, int], int], dtype: type = np.uint8) -> Image.Image:
    """A mask with the value of each object, by its number in the image and its class."""
    values = np.zeros(SIZES[image], dtype)
    for n, (label, (left, top, right, bottom)) in enumerate(BOXES[image]):
        values[top:bottom, left:right] = value(n, label)
    return Image.fromarray(values)


def _instance_ids(root: Path) -> AnnotatedSource:
    """Cityscapes' masks of objects, whose values are ids of its classes * 1000 + n."""
    write_images(root / "leftImg8bit", ending="_leftImg8bit")
    (root / "gtFine").mkdir()
    for number in range(len(BOXES)):
        mask = _mask(number, lambda n, label: (24, 26)[label] * 1000 + n, np.uint16)
        mask.save(root / "gtFine" / f"{number}_gtFine_instanceIds.png")
    return AnnotatedSource(root / "leftImg8bit", {"instances": root / "gtFine"})


def _segmentation_object(root: Path) -> AnnotatedSource:
    """Pascal VOC's masks of objects and of classes."""
    write_images(root / "JPEGImages")
    masks, instances = root / "SegmentationClass", root / "SegmentationObject"
    for folder in (masks, instances):
        folder.mkdir()
    for number in range(len(BOXES)):
        _mask(number, lambda n, label: n + 1).save(instances / f"{number}.png")
        _mask(number, lambda n, label: (15, 7)[label]).save(masks / f"{number}.png")
    return AnnotatedSource(root / "JPEGImages", {"masks": masks, "instances": instances})


def _open_images(root: Path) -> AnnotatedSource:
    write_images(root / "train", suffix=".jpg")
    rows = ["ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsGroupOf"]
    for number, ((height, width), objects) in enumerate(zip(SIZES, BOXES, strict=True)):
        for label, (left, top, right, bottom) in objects:
            sides = f"{left / width},{right / width},{top / height},{bottom / height}"
            rows.append(f"{number},xclick,/m/0{label},1,{sides},1,0")
    (root / "train-annotations-bbox.csv").write_text("\n".join(rows))
    names = "".join(f"/m/0{label},{name}\n" for label, name in enumerate(CLASSES))
    (root / "class-descriptions-boxable.csv").write_text(names)
    return AnnotatedSource(root / "train-annotations-bbox.csv", {"images": root / "train"})


def _open_images_masks(root: Path) -> AnnotatedSource:
    """A mask for each object, of another size than its image, as in Open Images."""
    write_images(root / "train", suffix=".jpg")
    (root / "masks" / "0").mkdir(parents=True)
    rows = ["MaskPath,ImageID,LabelName,BoxID,BoxXMin,BoxXMax,BoxYMin,BoxYMax,PredictedIoU,Clicks"]
    for number, ((height, width), objects) in enumerate(zip(SIZES, BOXES, strict=True)):
        for n, (label, (left, top, right, bottom)) in enumerate(objects):
            mask = np.zeros((height, width), bool)
            mask[top:bottom, left:right] = True
            name = f"{number}_m0{label}_{n}.png"
            Image.fromarray(np.repeat(np.repeat(mask, 2, 0), 3, 1)).save(root / "masks" / "0" / name)
            sides = f"{left / width},{right / width},{top / height},{bottom / height}"
            rows.append(f"{name},{number},{CLASSES[label]},b{n},{sides},0.9,")
    (root / "train-annotations-object-segmentation.csv").write_text("\n".join(rows))
    options = {"images": root / "train", "instances": root / "masks"}
    return AnnotatedSource(root / "train-annotations-object-segmentation.csv", options)


FOLDERS: dict[str, Callable[[Path], AnnotatedSource]] = {
    "coco": _coco,
    "coco.json.gz": _coco_gzip,
    "lvis": _lvis,
    "voc": _voc,
    "yolo": _yolo,
    "yolo outlines": _yolo_outlines,
    "yolo keypoints": _yolo_keypoints,
    "data.yaml": _data_yaml,
    "cityscapes instanceIds": _instance_ids,
    "open images": _open_images,
    "open images' masks": _open_images_masks,
    "voc SegmentationObject": _segmentation_object,
}
"""A function for each format that writes the scene into an empty folder."""
