"""The scene of objects as masks of classes: a folder of every format that has them, and the truth."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from .annotated_folders import BOXES, SIZES, truth, write_images

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


def _voc(root: Path) -> MaskSource:
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
    "voc SegmentationClass": _voc,
    "cityscapes labelTrainIds": _train_ids,
    "cityscapes labelIds": _label_ids,
    "ade20k": _ade20k,
    "colours": _colors,
    "16 bits": _sixteen_bits,
    "classes.txt": _class_names,
    "coco polygons": _coco_polygons,
}
"""A function for each format that writes the scene into an empty folder."""
