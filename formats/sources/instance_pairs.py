"""Instance masks beside images: masks whose values number the objects of an image.

A value is ``class * 1000 + n``, as in Cityscapes, or a plain number; then a class mask has the class of the
object, as in Pascal VOC. Stoker takes the class from the class mask if the caller has named one, except for
Cityscapes' ``instanceIds``, whose values contain the class.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError, SourceError

from ..threads import available_cores, thread_map
from .listing import ListedFiles, Listing, Skip
from .mask_pairs import pair_files, read_mask
from .objects import ObjectTable
from .source import SourceFolder
from .source_reader import SkippedError

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
_ENDINGS = ("", "_gtFine_instanceIds")
_AHEAD = 8  # masks in memory beyond those that are read

Integers = npt.NDArray[np.int64]


def with_instances(listing: Listing, folder: SourceFolder, *, has_mask_map: bool) -> Listing:
    """A listing with the objects of instance masks, in place of objects that it has; reads all masks."""
    # Images without such a mask are skipped, and so are masks that cannot be read, with their images.
    if listing.labels is not None:
        raise ConfigError(
            "instance masks number the classes of objects, and this source has labels of images",
            hint="Leave instances out, or convert the folder of the images with source_format='pairs'.",
        )
    listing, masks = pair_files(listing, folder, _ENDINGS, "an instance mask")
    rule = _class_rule(listing, masks)
    if has_mask_map and rule.from_class_masks:
        raise ConfigError(
            "objects get their classes from the class masks, and mask_map would change these",
            hint="Leave mask_map out, or map the files first.",
        )
    table, sizes, skipped = ObjectTable(), np.zeros((len(listing), 2), np.int32), list[Skip]()
    read = partial(_read, masks, listing.masks if rule.from_class_masks else None)
    cores = available_cores()
    for row, mask in thread_map(read, range(len(masks)), "masks", cores, cores + _AHEAD):
        key = listing.keys[row].as_py()
        if isinstance(mask, str):
            skipped.append(Skip(key, "instance mask that is left out", mask))
            continue
        sizes[row], instances = mask
        for one in instances:
            outcome = rule.label_of(one)
            if isinstance(outcome, str):
                skipped.append(Skip(key, outcome, f"value {one.value}"))
            elif outcome is not None:
                label, crowd = outcome
                table.add(row, one.box, label, one.value, area=one.area, crowd=crowd, runs=one.runs)
    if not len(table):
        message = f"not one of {len(listing):,} masks has an object"
        raise SourceError(message, path=folder.root, hint=rule.hint)
    objects = table.listed(np.array(table.image, np.int64), sizes, "object {} of its mask")
    skips = tuple(sorted([*listing.skipped, *skipped]))
    listing = replace(listing, objects=objects, classes=rule.names, category_ids=rule.ids, skipped=skips)
    whole = sizes.all(axis=1)
    return listing if whole.all() else listing.take(np.flatnonzero(whole))


@dataclass(frozen=True)
class _ClassRule:
    """How the objects of instance masks get their classes."""

    names: tuple[str, ...] = ()  # Names of the classes; empty where labels are numbers
    ids: tuple[int, ...] = ()  # The value of each of these classes
    from_class_masks: bool = False  # Whether the class is in a class mask, where value 1 is label 0
    ignore: int | None = None  # Value of pixels without an object and without a class; None if there is none

    @property
    def hint(self) -> str:
        if self.from_class_masks:
            return "The values of instance masks must be numbers from 1."
        return (
            "Values must be class * 1000 + n; for plain numbers, name the folder of class masks with masks."
        )

    def label_of(self, instance: _Instance) -> tuple[int, bool] | str | None:
        """Label of an object and whether it is a crowd; or the reason for none; None for ignored pixels."""
        return self._by_class_mask(instance) if self.from_class_masks else self._by_value(instance.value)

    def _by_value(self, value: int) -> tuple[int, bool] | None:
        """In Cityscapes a value that is just a class is a group of objects (crowd)."""
        number, crowd = (value, True) if value < _PER_CLASS else (value // _PER_CLASS, False)
        if not self.ids:
            return None if crowd else (number, False)
        return (self.ids.index(number), crowd) if number in self.ids else None

    def _by_class_mask(self, instance: _Instance) -> tuple[int, bool] | str | None:
        """The class of most pixels of an object."""
        if instance.value == self.ignore:
            return None
        pixels = np.bincount(instance.segments.classes, instance.segments.length)
        pixels[0] = 0
        if self.ignore is not None and self.ignore < len(pixels):
            pixels[self.ignore] = 0
        value = int(pixels.argmax())
        if not pixels[value]:
            return "object without a class in the class mask"
        if self.names and value > len(self.names):
            return "object of an unknown category"
        return value - 1, False


def _class_rule(listing: Listing, instances: ListedFiles) -> _ClassRule:
    if any(_CITYSCAPES_ENDING in name for name in instances.names()):
        return _ClassRule(tuple(_CITYSCAPES.values()), tuple(_CITYSCAPES))
    if listing.masks is None:
        return _ClassRule()
    names = listing.info.mask_classes[1:]
    if not names and str(listing.masks.root).rstrip("/").endswith(f"/{_VOC_FOLDER}"):
        names = _VOC
    ids = tuple(range(1, len(names) + 1))
    return _ClassRule(names, ids, from_class_masks=True, ignore=listing.info.ignore)


class _Segments(NamedTuple):
    """Pixels of one value, as S segments of columns of a mask, column by column as in COCO's run lengths."""

    start: Integers  # (S,) int64, indexes of the first pixels, counted column by column
    length: Integers  # (S,) int64, their numbers of pixels
    classes: Integers  # (S,) int64, the class of each in the class mask; zeros without one


class _Instance(NamedTuple):
    """An object of a mask."""

    value: int
    box: tuple[int, int, int, int]  # Left, top, right, bottom, pixels
    area: int  # Number of its pixels
    runs: npt.NDArray[np.uint32]  # (R,) run lengths
    segments: _Segments


def _read(
    masks: ListedFiles, class_masks: ListedFiles | None, row: int
) -> tuple[tuple[int, int], list[_Instance]] | str:
    """Height and width of a mask, and its objects; or why the mask is left out."""
    try:
        values = read_mask(masks, row)
        classes = None if class_masks is None else read_mask(class_masks, row)
        if classes is not None and classes.shape != values.shape:
            both = (f"{one.shape[1]} x {one.shape[0]}" for one in (values, classes))
            raise SkippedError("instance mask and class mask have two sizes", " and ".join(both))
    except SkippedError as error:
        return ": ".join(filter(None, error.args))
    return (values.shape[0], values.shape[1]), list(instances_of(values, classes))


def instances_of(values: npt.NDArray[Any], classes: npt.NDArray[Any] | None = None) -> Iterator[_Instance]:
    """The objects of a mask, (H, W) uint8 or uint16: one for each value but 0, in ascending order."""
    height = len(values)
    flat = np.ascontiguousarray(values.T).ravel()
    first = np.ones(len(flat), bool)
    first[1:] = flat[1:] != flat[:-1]
    first[::height] = True
    class_of = None if classes is None else np.ascontiguousarray(classes.T).ravel()
    if class_of is not None:
        first[1:] |= class_of[1:] != class_of[:-1]
    start = np.flatnonzero(first)
    length = np.diff(start, append=len(flat))
    value = flat[start].astype(np.int64)
    of_class = np.zeros(len(start), np.int64) if class_of is None else class_of[start].astype(np.int64)
    order = np.argsort(value, kind="stable")
    distinct, bounds = np.unique(value[order], return_index=True)
    for number, chosen in zip(distinct.tolist(), np.split(order, bounds[1:]), strict=True):
        if number:
            segments = _Segments(start[chosen], length[chosen], of_class[chosen])
            yield _Instance(number, _box(segments, height), *_area_and_runs(segments, len(flat)), segments)


def _box(segments: _Segments, height: int) -> tuple[int, int, int, int]:
    column, top = np.divmod(segments.start, height)
    bottom = top + segments.length
    return int(column[0]), int(top.min()), int(column[-1]) + 1, int(bottom.max())


def _area_and_runs(segments: _Segments, pixels: int) -> tuple[int, npt.NDArray[np.uint32]]:
    """Area and run lengths; segments that touch are one run."""
    start, end = segments.start, segments.start + segments.length
    apart = start[1:] != end[:-1]
    starts, ends = start[np.append(True, apart)], end[np.append(apart, True)]
    bounds = np.stack((starts, ends), axis=1).ravel()
    runs = np.diff(bounds, prepend=0, append=pixels)
    return int(segments.length.sum()), runs[: len(runs) - (not runs[-1])].astype(np.uint32)
