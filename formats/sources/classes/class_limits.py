"""The choice of samples by their class: some classes alone, and limits on the number of images of each.

Every sample that is left out becomes a :class:`.listing.Skip`, so that a conversion counts it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker.errors import ConfigError, SourceError

from ...dataset.annotations import from_columns, to_columns
from ...dataset.columns import ListColumn, take_strings
from ..listing import Listing, Skip

Labels = npt.NDArray[np.int64]


def select_classes(listing: Listing, classes: tuple[str, ...]) -> Listing:
    """Return the samples of some classes; they keep their labels.

    In a source without names of classes, these are the labels below the number of ``classes``.
    """
    labels = _labels(listing, "skip_other_classes")
    return _without(listing, {"class that was not chosen": ~np.isin(labels, _wanted(listing, classes))})


def _wanted(listing: Listing, classes: tuple[str, ...]) -> list[int]:
    """Labels of these classes; all numbers below theirs if the source has no names."""
    if not listing.classes:
        return list(range(len(classes)))
    return [number for number, name in enumerate(listing.classes) if name in classes]


def limit_classes(listing: Listing, least: int, most: int | None, seed: int, *, renumber: bool) -> Listing:
    """Return a listing without small classes, and with some samples of large ones.

    ``least`` and ``most`` limit the images of a class. ``renumber`` numbers the remaining labels from 0.

    Which samples of a class stay depends on their keys and the seed alone.
    """
    if least < 1 or (most is not None and most < least):
        raise ConfigError(f"min_per_class is 1 or more and at most max_per_class, not {least} and {most}")
    labels = _labels(listing, "min_per_class and max_per_class")
    _, of_class, counts = np.unique(labels, return_inverse=True, return_counts=True)
    small = counts[of_class] < least
    surplus = np.zeros(len(labels), bool)
    if most is not None:
        for number in np.flatnonzero((counts > most) & (counts >= least)):
            rows = np.flatnonzero(of_class == number)
            keys = (f"{seed}/{key}" for key in take_strings(listing.keys, rows).to_pylist())
            surplus[rows[np.argsort(hash_names(keys), kind="stable")[most:]]] = True
    reasons = {
        f"class with fewer than {least} images": small,
        f"beyond the {most} images of a class": surplus,
    }
    left = _without(listing, reasons)
    return _renumbered(left, np.unique(labels[small])) if renumber and listing.classes else left


def _labels(listing: Listing, option: str) -> Labels:
    if listing.labels is None or listing.multi_label:
        have = "several" if listing.multi_label else "none"
        raise ConfigError(
            f"{option} needs samples with one label each, and these have {have}", hint=f"leave {option} out"
        )
    return np.asarray(listing.labels.to_numpy(zero_copy_only=False), np.int64)


def hash_names(names: Iterable[str]) -> npt.NDArray[np.uint64]:
    """The BLAKE2b hash of each name, (N,) uint64, for choices that depend on names alone."""
    digests = bytearray()
    for name in names:
        digests += hashlib.blake2b(name.encode(), digest_size=8).digest()
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def _without(listing: Listing, left_out: dict[str, npt.NDArray[np.bool_]]) -> Listing:
    """Return a listing without the samples of ``left_out``, an (N,) bool mask for each reason."""
    keep = ~np.logical_or.reduce(list(left_out.values()))
    if not keep.any():
        reasons = " or ".join(reason for reason, which in left_out.items() if which.any())
        raise SourceError(
            f"no sample is left: {reasons}", path=listing.root, hint="name other classes or limits"
        )
    skips = [
        Skip(key, reason)
        for reason, which in left_out.items()
        for key in take_strings(listing.keys, np.flatnonzero(which)).to_pylist()
    ]
    return replace(listing.take(np.flatnonzero(keep)), skipped=tuple(sorted([*listing.skipped, *skips])))


def _renumbered(listing: Listing, dropped: Labels) -> Listing:
    """Return a listing without the classes of these labels, which have no samples."""
    remaining = np.setdiff1d(np.arange(len(listing.classes)), dropped)
    number = np.full(len(listing.classes), -1, np.int64)
    number[remaining] = np.arange(len(remaining))
    labels = number[_labels(listing, "min_per_class")]
    return replace(listing, labels=pa.array(labels), classes=tuple(listing.classes[i] for i in remaining))


def select_objects(listing: Listing, classes: tuple[str, ...]) -> Listing:
    """Return a listing that keeps the objects of some classes and all images."""
    assert listing.objects is not None, "called for listings with objects"
    columns = {name: ListColumn.from_arrow(array) for name, array in listing.objects.columns.items()}
    n = len(listing)
    objects = from_columns(columns, n, len(listing.info.keypoints))
    chosen = np.isin(objects.labels, _wanted(listing, classes))
    if len(objects) and not chosen.any():
        have = ", ".join(listing.classes[:10]) or "labels without names"
        raise SourceError(
            f"no object is of the classes {', '.join(classes[:10])}",
            path=listing.root,
            hint=f"the source has {have}",
        )
    if chosen.all():
        return listing
    columns_left = to_columns(objects.take(chosen).split(n))
    cast = {
        name: columns_left[name].cast(array.type)
        for name, array in listing.objects.columns.items()
        if name in columns_left
    }
    return replace(listing, objects=replace(listing.objects, columns=cast))
