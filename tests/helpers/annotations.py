"""One scene of objects as a folder of every annotated format, and its truth in COCO's format."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from helpers.images import png
from helpers.loaders import image_arguments
from helpers.options import convert_options
from PIL import Image

import stoker
from stoker import ImageLoader
from stoker._native import crc32c
from stoker.augment import Resize
from stoker.formats.dataset.annotations import AnnotationInfo, Annotations, runs_of_mask, to_columns
from stoker.formats.dataset.manifest import MANIFEST_NAME
from stoker.formats.open import open as open_dataset

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


HEIGHT, WIDTH = 60, 80
N = 7
COLUMNS = ("image", "boxes", "box_labels", "crowd", "area", "object_id", "keypoints", "masks", "segmentation")


@dataclass(frozen=True)
class Scene:
    """A black image with a rectangle of level 200, its first object. Other objects lie in the dark."""

    boxes: np.ndarray[Any, Any]

    def pixels(self) -> np.ndarray[Any, Any]:
        pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        left, top, right, bottom = self.boxes[0].astype(int)
        pixels[top:bottom, left:right] = 200
        return pixels

    def mask(self) -> np.ndarray[Any, Any]:
        return (self.pixels()[..., 0] // 200).astype(np.uint8)


def scenes() -> list[Scene]:
    """Sample i has i % 3 + 1 objects; the rectangle is the first."""
    rng = np.random.default_rng(3)
    drawn = []
    for i in range(N):
        low = rng.integers([10, 8], [30, 25], (i % 3 + 1, 2))
        drawn.append(Scene(np.concatenate((low, low + rng.integers(20, 30, low.shape)), axis=1)))
    return drawn


def polygon(box: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return box[[[0, 1], [2, 1], [2, 3], [0, 3]]].astype(np.float32)


def annotations(number: int, scene: Scene) -> Annotations:
    m = len(scene.boxes)
    boxes = scene.boxes.astype(np.float32)
    points = np.stack((boxes[:, :2] + 6, boxes[:, 2:] - 6), axis=1)
    return Annotations(
        owner=np.zeros(m, np.int64),
        boxes=boxes,
        labels=np.arange(m) + number % 2,
        crowd=np.arange(m) == 1,
        area=np.prod(boxes[:, 2:] - boxes[:, :2], axis=1),
        id=100 * number + np.arange(m),
        keypoints=np.concatenate((points, np.full((m, 2, 1), 2)), axis=2).astype(np.float32),
        polygons=[[polygon(box)] for box in scene.boxes],
        extra={"difficult": np.arange(m) % 2},
    )


def write_annotated(
    pack_images: Callable[..., Path], masks: list[bytes] | None = None, **columns: Any
) -> Path:
    """The folder of the annotated dataset, with these masks of classes and these other columns."""
    drawn = scenes()
    images = [png(scene.pixels()) for scene in drawn]
    masks = masks or [png(scene.mask()) for scene in drawn]
    plain = open_dataset(pack_images(images)).index
    headers = {name: plain.column(name) for name in ("codec", "height", "width", "orientation")}
    payloads = [image + mask for image, mask in zip(images, masks, strict=True)]
    both = open_dataset(pack_images(payloads, **headers)).index
    lengths = np.array([len(mask) for mask in masks])
    index = {name: plain.column(name) for name in ("length", "crc")}
    index |= {"offset": both.column("offset"), "mask_offset": both.column("offset") + index["length"]}
    index |= {"mask_length": lengths, "mask_crc": np.array([crc32c(mask) for mask in masks])}
    index |= headers | to_columns([annotations(i, scene) for i, scene in enumerate(drawn)])
    index |= {"label": [[i % 3, (i + 1) % 3] if i else [] for i in range(N)]}
    folder = pack_images(payloads, **(index | columns))
    manifest = open_dataset(folder).manifest
    info = AnnotationInfo(keypoints=("start", "end"), swap=(1, 0), ignore=255)
    (folder / MANIFEST_NAME).write_text(replace(manifest, annotations=info).to_json())
    return folder


def load(folder: Path, **options: Any) -> ImageLoader:
    arguments = {"batch_size": N, "columns": COLUMNS, "num_threads": 2, "transforms": [Resize((30, 40))]}
    return ImageLoader(folder, **image_arguments(**(arguments | options)))


def first(folder: Path, **options: Any) -> Any:
    with load(folder, **options) as loader:
        return next(iter(loader))


def bounding_box(bright: np.ndarray[Any, Any]) -> list[int]:
    """The box around the true pixels: left, top, right, bottom."""
    rows, columns = np.flatnonzero(bright.any(axis=1)), np.flatnonzero(bright.any(axis=0))
    return [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]


VOID = 255
_KINDS = ("void", "background", "person", "car")
"""The kinds of pixels of the scene."""


@dataclass(frozen=True)
class MaskSource:
    """Arguments of :func:`stoker.convert`, and the classes of background, person and car."""

    src: Path
    options: dict[str, Any]
    classes: tuple[int, int, int]
    has_void: bool = True

    def truth(self, image: int) -> np.ndarray[Any, Any]:
        """Classes, (H, W) uint8, with 255 for pixels without a class."""
        void = VOID if self.has_void else self.classes[0]
        return np.array((void, *self.classes), np.uint8)[kinds_of_pixels(image)]


def kinds_of_pixels(image: int) -> np.ndarray[Any, Any]:
    """The kind of each pixel of an image, (H, W) uint8: an index of :data:`_KINDS`."""
    kinds = np.ones(SIZES[image], np.uint8)
    for label, (left, top, right, bottom) in BOXES[image]:
        kinds[top:bottom, left:right] = 2 + label
    kinds[:3, :7] = 0
    return kinds


def _write(folder: Path, values: Any, name: str = "{}.png", palette: bool = False) -> None:
    """Write a mask for each image, whose pixels have these values or colours by their kind."""
    folder.mkdir()
    for image in range(len(SIZES)):
        mask = Image.fromarray(np.asarray(values)[kinds_of_pixels(image)])
        if palette:
            mask.putpalette(bytes(range(256)) * 3)
        mask.save(folder / name.format(image))


def _voc_masks(root: Path) -> MaskSource:
    """Pascal VOC's palette, whose indices are classes: person 15, car 7, and 255 around objects."""
    write_images(root / "JPEGImages", suffix=".jpg")
    _write(root / "SegmentationClass", np.array((255, 0, 15, 7), np.uint8), palette=True)
    return MaskSource(root / "JPEGImages", {"masks": root / "SegmentationClass"}, (0, 15, 7))


def _cityscapes(root: Path, kind: str, values: tuple[int, ...], **options: Any) -> MaskSource:
    write_images(root / "leftImg8bit", ending="_leftImg8bit")
    _write(root / "gtFine", np.array(values, np.uint8), f"{{}}_gtFine_{kind}.png")
    return MaskSource(root / "leftImg8bit", {"masks": root / "gtFine", **options}, (0, 11, 13))


def _train_ids(root: Path) -> MaskSource:
    return _cityscapes(root, "labelTrainIds", (255, 0, 11, 13))


def _label_ids(root: Path) -> MaskSource:
    """Road, person and car; the ego vehicle is no class."""
    return _cityscapes(root, "labelIds", (1, 7, 24, 26), mask_map="cityscapes")


def _ade20k(root: Path) -> MaskSource:
    """Wall, person and car of its 150 classes, counted from 1; 0 is "other"."""
    write_images(root / "images", suffix=".jpg")
    _write(root / "annotations", np.array((0, 1, 13, 21), np.uint8))
    options = {"masks": root / "annotations", "mask_map": "ade20k"}
    return MaskSource(root / "images", options, (0, 12, 20))


def _colors(root: Path) -> MaskSource:
    write_images(root / "images")
    colors = {"#ffffff": 255, "#804080": 0, "#dc143c": 1, "#00008e": 2}
    _write(root / "masks", np.array([list(bytes.fromhex(color[1:])) for color in colors], np.uint8))
    mask_map = ",".join(f"{color}:{label}" for color, label in colors.items())
    return MaskSource(root / "images", {"masks": root / "masks", "mask_map": mask_map}, (0, 1, 2))


def _sixteen_bits(root: Path) -> MaskSource:
    write_images(root / "images")
    _write(root / "masks", np.array((65535, 7, 1000, 300), np.uint16))
    options = {"masks": root / "masks", "mask_map": "65535:255,7:0,1000:1,300:2"}
    return MaskSource(root / "images", options, (0, 1, 2))


def _class_names(root: Path) -> MaskSource:
    write_images(root / "images")
    _write(root / "masks", np.array((255, 0, 1, 2), np.uint8))
    (root / "masks" / "classes.txt").write_text("\n".join(_KINDS[1:]))
    return MaskSource(root / "images", {"masks": root / "masks"}, (0, 1, 2))


def _coco_polygons(root: Path) -> MaskSource:
    """Masks that loaders draw from the objects: the background is 0, and classes count from 1."""
    write_images(root)
    (root / "instances.json").write_text(json.dumps(truth()))
    return MaskSource(root / "instances.json", {}, (0, 1, 2), has_void=False)


MASK_FOLDERS: dict[str, Callable[[Path], MaskSource]] = {
    "voc SegmentationClass": _voc_masks,
    "cityscapes labelTrainIds": _train_ids,
    "cityscapes labelIds": _label_ids,
    "ade20k": _ade20k,
    "colours": _colors,
    "16 bits": _sixteen_bits,
    "classes.txt": _class_names,
    "coco polygons": _coco_polygons,
}
"""A function for each format that writes the scene into an empty folder."""


NAMES = ["nose", "left_eye", "right_eye"]
CATEGORIES = [
    {"id": 90, "name": "zebra"},
    {"id": 3, "name": "ape", "keypoints": NAMES, "skeleton": [[1, 2], [1, 3]]},
    {"id": 7, "name": "mouse"},
]


def rle(mask: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Uncompressed run lengths of a mask."""
    return {"size": list(mask.shape), "counts": runs_of_mask(mask).tolist()}


def document() -> dict[str, Any]:
    """Three images; objects in polygons, in run lengths of both kinds, and with keypoints."""
    mask = np.zeros((20, 30), bool)
    mask[4:9, 10:13] = True
    square = [1.5, 1.0, 6.5, 1.0, 6.5, 4.0, 1.5, 4.0]
    polygon = {"bbox": [1.5, 1.0, 5.0, 3.0], "segmentation": [square, [0, 0, 1, 0, 0, 1]], "area": 12.25}
    crowd = {"bbox": [10, 4, 3, 5], "segmentation": rle(mask), "area": 15, "iscrowd": 1}
    person = {"bbox": [2, 3, 10, 10], "keypoints": [4, 5, 2, 6, 5, 1, 0, 0, 0], "num_keypoints": 2}
    compressed = {"bbox": [0, 0, 3, 4], "segmentation": {"size": [4, 3], "counts": "444"}, "area": 4}
    return {
        "info": {"year": 2026},
        "annotations": [
            {"id": 21, "image_id": 8, "category_id": 3, **person},
            {"id": 20, "image_id": 5, "category_id": 90, "iscrowd": 0, **polygon},
            {"id": 7, "image_id": 8, "category_id": 7, **crowd},
            {"id": 99, "image_id": 1, "category_id": 7, **compressed},
        ],
        "images": [
            {"id": 8, "file_name": "b.png", "height": 20, "width": 30},
            {"id": 5, "file_name": "a.png", "height": 20, "width": 30},
            {"id": 1, "file_name": "tiny.png", "height": 4, "width": 3},
            {"id": 2, "file_name": "empty.png", "height": 20, "width": 30},
        ],
        "categories": CATEGORIES,
    }


def write(folder: Path, content: dict[str, Any]) -> Path:
    path = folder / "instances.json"
    path.write_text(json.dumps(content))
    return path


def convert(folder: Path, content: dict[str, Any], name: str = "out", **options: Any) -> stoker.Dataset:
    options = {"allow_loss": 1, **options}  # tests look at the skipped parts
    stoker.convert(
        write(folder, content), folder / name, **convert_options({"images": folder / "images", **options})
    )
    return stoker.open(folder / name)


def left_out(dataset: stoker.Dataset) -> set[tuple[str, str, str]]:
    lines = (dataset.path / "skipped.jsonl").read_text().splitlines()
    return {tuple(json.loads(line).values()) for line in lines}  # type: ignore[misc]  # of three


def write_coco_images(folder: Path) -> None:
    """Write the images of :func:`document`."""
    images = folder / "images"
    images.mkdir()
    for image in document()["images"]:
        Image.new("RGB", (image["width"], image["height"]), (90, 40, 10)).save(images / image["file_name"])
