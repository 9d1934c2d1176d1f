"""Masks of objects beside images: a mask whose values number the objects of an image.

A value is ``class * 1000 + n``, as in Cityscapes, or a plain number; then a mask of classes has the class of
the object, as in Pascal VOC. Stoker takes the class from the mask of classes if the caller has named one,
except for Cityscapes' ``instanceIds``, whose values contain the class.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from stoker.errors import ConfigError, SourceError

from ....threads import available_cores, thread_map
from ...folders.source_folder import SourceFolder
from ...listing import ListedFiles, Listing, Skip
from ...source_reader import SkippedError
from ..object_table import ObjectTable
from .instance_classes import ClassOfMask, ClassOfValue, class_rule
from .instance_pixels import Instance, instances_of
from .mask_pairs import pair_files
from .mask_pixels import read_mask

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
