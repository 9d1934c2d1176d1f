"""The objects of a mask whose values number them: their boxes, areas and run lengths.

:mod:`.instance_pairs` calls it for each mask of a source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
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

Integers = npt.NDArray[np.int64]


class Segments(NamedTuple):
    """Pixels of one value, as S segments of columns of a mask, column by column as in COCO's run lengths."""

    start: Integers  # (S,) int64, indexes of the first pixels, counted column by column
    length: Integers  # (S,) int64, their numbers of pixels
    classes: Integers  # (S,) int64, the class of each in the mask of classes; zeros without one


class Instance(NamedTuple):
    """An object of a mask."""

    value: int  # Its value
    box: tuple[int, int, int, int]  # Left, top, right, bottom, pixels
    area: int  # Number of its pixels
    # (R,) uint32, its run lengths, see :mod:`stoker.formats.dataset.annotations`
    runs: npt.NDArray[np.uint32]
    segments: Segments  # Segments of its pixels


def instances_of(values: npt.NDArray[Any], classes: npt.NDArray[Any] | None = None) -> Iterator[Instance]:
    """Yield the objects of a mask, (H, W) uint8 or uint16: one for each value but 0, in ascending order.

    ``classes`` is the mask of classes, of the same shape.
    """
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
            segments = Segments(start[chosen], length[chosen], of_class[chosen])
            yield Instance(number, _box(segments, height), *_runs(segments, len(flat)), segments)


def _box(segments: Segments, height: int) -> tuple[int, int, int, int]:
    column, top = np.divmod(segments.start, height)
    bottom = top + segments.length
    return int(column[0]), int(top.min()), int(column[-1]) + 1, int(bottom.max())


def _runs(segments: Segments, pixels: int) -> tuple[int, npt.NDArray[np.uint32]]:
    """Area and run lengths; segments that touch are one run."""
    start, end = segments.start, segments.start + segments.length
    apart = start[1:] != end[:-1]
    starts, ends = start[np.append(True, apart)], end[np.append(apart, True)]
    bounds = np.stack((starts, ends), axis=1).ravel()
    runs = np.diff(bounds, prepend=0, append=pixels)
    return int(segments.length.sum()), runs[: len(runs) - (not runs[-1])].astype(np.uint32)


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


_ENDINGS = ("", "_gtFine_instanceIds")
_KIND = "mask of objects"
_AHEAD = 8  # masks in memory beyond those that are read


def with_instances(listing: Listing, folder: SourceFolder, *, has_mask_map: bool) -> Listing:
    """Return a listing with the objects of masks, in place of objects that it has; reads all masks.

    Images without such a mask are skipped, and so are masks that cannot be read, with their images.
    """
    if listing.labels is not None:
        raise ConfigError(
            "masks of objects number the classes of objects, and this source has labels of images",
            hint="leave --instances (instances=) out, or convert the folder of the images with "
            "--source-format pairs",
        )
    pairs = pair_files(listing, folder, _ENDINGS, _KIND)
    rule = class_rule(pairs.listing, pairs.masks)
    if has_mask_map and isinstance(rule, ClassOfMask):
        raise ConfigError(
            "objects get their classes from the masks of classes, and mask_map would change these",
            hint="leave mask_map (--mask-map) out, or map the files first",
        )
    reader = _Reader(pairs.listing, pairs.masks, rule)
    reader.read_all()
    return reader.listed(folder.root)


@dataclass
class _Reader:
    """Reads the masks of a listing on threads, and collects their objects."""

    listing: Listing
    masks: ListedFiles
    rule: ClassOfMask | ClassOfValue
    table: ObjectTable = field(default_factory=ObjectTable)
    sizes: list[tuple[int, int]] = field(default_factory=list)
    skipped: list[Skip] = field(default_factory=list)
    broken: list[int] = field(default_factory=list)

    def read_all(self) -> None:
        """Read all masks, in order."""
        cores = available_cores()
        for row, found in thread_map(self._read, range(len(self.masks)), "masks", cores, cores + _AHEAD):
            self._add(row, found)

    def _read(self, row: int) -> tuple[tuple[int, int], list[Instance]] | Skip:
        try:
            values = read_mask(self.masks, row)
            classes = None
            if isinstance(self.rule, ClassOfMask):
                assert self.listing.masks is not None, "the rule needs them"
                classes = read_mask(self.listing.masks, row)
                if classes.shape != values.shape:
                    both = (f"{one.shape[1]} x {one.shape[0]}" for one in (values, classes))
                    raise SkippedError("masks of objects and of classes have two sizes", " and ".join(both))
            return (values.shape[0], values.shape[1]), list(instances_of(values, classes))
        except SkippedError as error:
            key, detail = self.listing.keys[row].as_py(), ": ".join(filter(None, error.args))
            return Skip(key, f"{_KIND} that is left out", detail)

    def _add(self, row: int, mask: tuple[tuple[int, int], list[Instance]] | Skip) -> None:
        if isinstance(mask, Skip):
            self.skipped.append(mask)
            self.broken.append(row)
            self.sizes.append((0, 0))
            return
        self.sizes.append(mask[0])
        for instance in mask[1]:
            outcome = self.rule.object_of(instance)
            if isinstance(outcome, str):
                self.skipped.append(Skip(self.listing.keys[row].as_py(), outcome, f"value {instance.value}"))
            elif outcome is not None:
                self.table.add(
                    row,
                    instance.box,
                    outcome.label,
                    instance.value,
                    area=instance.area,
                    crowd=outcome.crowd,
                    runs=instance.runs,
                )

    def listed(self, folder: str) -> Listing:
        """The listing with the objects."""
        n = len(self.listing)
        if not len(self.table):
            raise SourceError(f"no mask of {n:,} has an object", path=folder, hint=self.rule.hint)
        rows, sizes = np.array(self.table.image, np.int64), np.array(self.sizes, np.int32)
        objects = self.table.listed(rows, sizes, "object {} of its mask")
        listing = replace(
            self.listing,
            objects=objects,
            classes=self.rule.names,
            category_ids=self.rule.ids,
            skipped=tuple(sorted([*self.listing.skipped, *self.skipped])),
        )
        return listing.take(np.delete(np.arange(n), self.broken)) if self.broken else listing
