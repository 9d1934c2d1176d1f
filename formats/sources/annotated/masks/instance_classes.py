"""The classes of the objects of masks: from the values of the objects, or from masks of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...listing import ListedFiles, Listing
from .instance_pixels import Instance

# cityscapesScripts, helpers/labels.py: classes with objects that its evaluation counts.
_CITYSCAPES = {
    24: "person", 25: "rider", 26: "car", 27: "truck", 28: "bus", 31: "train",
    32: "motorcycle", 33: "bicycle",
}  # fmt: skip
_CITYSCAPES_ENDING = "_instanceIds."
# VOC2012 development kit, section 3.1, in the order of the values of SegmentationClass, from 1.
_VOC = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train",
    "tvmonitor",
)  # fmt: skip
_VOC_FOLDER = "SegmentationClass"
_PER_CLASS = 1000  # values of a class: class * 1000 + number


class ClassedObject(NamedTuple):
    """The label of an object, and whether it stands for a group."""

    label: int
    crowd: bool


@dataclass(frozen=True)
class ClassOfValue:
    """The rule of values ``class * 1000 + n``."""

    # Names of the classes of Cityscapes; empty where labels are the numbers of the values
    names: tuple[str, ...] = ()
    ids: tuple[int, ...] = ()  # The number of each of these classes
    hint = "values must be class * 1000 + n; for masks with plain numbers add those of classes: --masks DIR"

    def object_of(self, instance: Instance) -> ClassedObject | str | None:
        """Return the class of an object; None for pixels of no object, such as the road.

        In Cityscapes a value that is a class alone is a group of objects (crowd).
        """
        number, crowd = instance.value // _PER_CLASS, instance.value < _PER_CLASS
        if not self.ids:
            return None if crowd else ClassedObject(number, crowd=False)
        number = instance.value if crowd else number
        return ClassedObject(self.ids.index(number), crowd) if number in self.ids else None


@dataclass(frozen=True)
class ClassOfMask:
    """The rule of objects whose class is in a mask of classes: label 0 is value 1."""

    ignore: int | None  # Value of pixels without an object and without a class; None if there is none
    names: tuple[str, ...] = ()  # Names of the classes; empty where they have none
    ids: tuple[int, ...] = ()  # The value of each class that has a name
    hint = "the values of masks of objects must be numbers from 1"

    def object_of(self, instance: Instance) -> ClassedObject | str | None:
        """Return the class of most pixels of an object, or the reason for none; None for ignored pixels."""
        if instance.value == self.ignore:
            return None
        pixels = np.bincount(instance.segments.classes, instance.segments.length)
        pixels[0] = 0
        if self.ignore is not None and self.ignore < len(pixels):
            pixels[self.ignore] = 0
        value = int(pixels.argmax())
        if not pixels[value]:
            return "object without a class in the mask of classes"
        if self.names and value > len(self.names):
            return "object of an unknown category"
        return ClassedObject(value - 1, crowd=False)


def class_rule(listing: Listing, instances: ListedFiles) -> ClassOfMask | ClassOfValue:
    """Return the rule by which the objects of masks get their classes."""
    if any(_CITYSCAPES_ENDING in name for name in instances.names()):
        return ClassOfValue(tuple(_CITYSCAPES.values()), tuple(_CITYSCAPES))
    if listing.masks is None:
        return ClassOfValue()
    names = listing.info.mask_classes[1:]
    if not names and str(listing.masks.root).rstrip("/").endswith(f"/{_VOC_FOLDER}"):
        names = _VOC
    return ClassOfMask(listing.info.ignore, names, tuple(range(1, len(names) + 1)))
