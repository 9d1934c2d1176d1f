"""Classes of a source: reading and checking their names, numbering labels by them, and choosing among them.

Two sources that are converted one by one, for training and for validation, number their classes alike only if
both have the same classes. With one list of names, label 3 means the same class in both. Every sample that is
left out becomes a Skip, so that a conversion counts it.
"""

from __future__ import annotations

import hashlib
import os
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker.arguments import some_of
from stoker.errors import ConfigError, SourceError
from stoker.log import EventLog

from ..dataset.annotations import from_columns, to_columns
from ..dataset.columns import ListColumn, renumber, take_strings
from ..dataset.manifest import Manifest
from .listing import Listing, Skip
from .source import NAMES_FILE, SourceFolder, open_folder

Labels = npt.NDArray[np.int64]

_LOG = EventLog("conversion")
_OBJECT_LABELS = "object_labels"
_NAMED = 5  # classes that an error names


def parse_class_names(text: str) -> tuple[str, ...]:
    """The names of classes, label 0 first, in a text: names with commas between, a file, or a dataset."""
    path = Path(text)
    if path.is_dir():
        return Manifest.load(path).classes or ("",)
    if path.is_file():
        lines = open_folder(path.parent).lines(path.name) or []
    elif "," in text or not {".", "/"} & set(text):
        lines = text.split(",")
    else:
        raise ConfigError(
            "classes must be names with commas between, a file with one name in each line, or a dataset, "
            f"found {text!r}"
        )
    names = tuple(line.strip() for line in lines) or ("",)
    if "" in names:
        raise ConfigError(f"label {names.index('')} has an empty name in classes: {text}")
    return names


def names_beside(*folders: SourceFolder) -> tuple[str, ...]:
    """The lines of the first ``classes.txt`` in some folders; empty without one."""
    return next((tuple(lines) for folder in folders if (lines := folder.lines(NAMES_FILE)) is not None), ())


def read_labelmap(path: str | os.PathLike[str]) -> dict[str, str]:
    """Colours such as ``#ff0000`` by class, in the order of a ``labelmap.txt`` as CVAT writes it."""
    lines = open_folder(Path(path).parent).lines(Path(path).name)
    rows = [line.split(":") for line in lines or () if line.strip() and not line.startswith("#")]
    try:
        colors = {name: bytes(map(int, color.split(","))).hex() for name, color, *_ in rows}
    except ValueError:
        colors = {}
    if not colors or {*map(len, colors.values())} != {6}:
        raise ConfigError(
            "a labelmap.txt must have lines such as cat:128,0,0::, a class and its colour", path=path
        )
    return {name: f"#{color}" for name, color in colors.items()}


def check_classes(classes: Sequence[str] | None) -> tuple[str, ...] | None:
    """The names of classes as a tuple; None where none are given."""
    if classes is None:
        return None
    has_no_order = isinstance(classes, (str, set, frozenset, Mapping))  # of labels
    names = () if has_no_order else tuple(classes)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(
            f"classes must be a sequence of names, label 0 first, found {classes!r}",
            hint="Of a class_to_idx it is sorted(class_to_idx, key=class_to_idx.get)."
            if isinstance(classes, Mapping)
            else None,
        )
    if twice := next((name for name, count in Counter(names).items() if count > 1), None):
        raise ConfigError(f"a name occurs twice in classes, so it has no single label: {twice!r}")
    return names


def number_names(names: pa.Array) -> tuple[Labels, tuple[str, ...]]:
    """The label of each name, (N,), by the sorted order of the names; -1 for null. And the classes."""
    encoded = names.dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    order = sorted(range(len(distinct)), key=distinct.__getitem__)
    number = np.empty(len(distinct) + 1, np.int64)
    number[order] = np.arange(len(distinct))
    number[-1] = -1
    indices = encoded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)
    return number[indices], tuple(distinct[i] for i in order)


def with_distinct_names(listing: Listing) -> Listing:
    """A listing in which no two classes have one name: later ones get a number, such as ``car (2)``."""
    taken, seen = set(listing.classes), Counter[str]()
    if len(taken) == len(listing.classes):
        return listing
    classes = []
    for name in listing.classes:
        new = name
        while seen[name] and new in taken:
            new = f"{name} ({seen[name] + 1})"
            seen[name] += new in taken
        seen[name] += 1
        taken.add(new)
        classes.append(new)
    renamed = [new for new, old in zip(classes, listing.classes, strict=True) if new != old]
    _LOG.warning(
        "class names",
        f"several classes of the source have one name; the later ones become {', '.join(renamed[:_NAMED])}, "
        "and class_map gives them other names, or joins classes",
    )
    return replace(listing, classes=tuple(classes))


def check_labels(
    listing: Listing,
    column: str = "Leave out images without a class. Numbers that are no classes are columns with "
    "unlabelled=True.",
    joined: str = "class_map joins them",
) -> Listing:
    """The listing, whose labels must be 0 or more; names that look alike are said."""
    if listing.labels is not None:
        lists = listing.multi_label
        numbers = _values(listing.labels)
        if len(numbers) and numbers.min() < 0:
            at = int(np.flatnonzero(numbers < 0)[0])
            row = (
                int(np.searchsorted(ListColumn.from_arrow(listing.labels).starts, at, "right")) - 1
                if lists
                else at
            )
            raise SourceError(
                f"a label must be 0 or more, found {numbers[at]}",
                path=listing.root,
                key=listing.keys[row].as_py(),
                hint=column,
            )
    alike = defaultdict[str, list[str]](list)
    for name in listing.classes:
        alike[_plain(name)].append(name)
    if several := [names for names in alike.values() if len(names) > 1]:
        shown = " and ".join(map(ascii, several[0]))
        _LOG.warning(
            f"names of {listing.root}",
            f"classes of the source have names that look alike, {shown}; {joined}",
        )
    return listing


def _plain(name: str) -> str:
    """A name as it looks: in composed Unicode and small letters, without blanks and quotes at its ends."""
    return unicodedata.normalize("NFC", name).strip().strip("'\"").casefold()


def named_alike(name: str, names: Sequence[str]) -> str:
    """The end of a message that names the one of ``names`` that looks like a name; empty without one."""
    if (near := {_plain(one): one for one in names}.get(_plain(name))) is None:
        return ""
    return (
        f"; {name!a} differs from {near!a} in capitals, blanks, quotes or the form of Unicode, "
        "as a Mac writes other letters"
    )


def parse_class_map(pairs: Mapping[str, str] | Sequence[str] | None) -> dict[str, str] | None:
    """The new names of classes by old ones; None for no map."""
    if pairs is None:
        return None
    if not isinstance(pairs, Mapping):
        split = [str(pair).rpartition(":") for pair in ([pairs] if isinstance(pairs, str) else pairs)]
        if not all(old and new for old, _, new in split):
            raise ConfigError(f"class_map must be pairs such as van:car, found {pairs!r}")
        if len({old for old, _, _ in split}) < len(split):
            raise ConfigError(f"class_map has two new names for one class: {pairs!r}")
        pairs = {old: new for old, _, new in split}
    if not all(isinstance(name, str) and name for pair in pairs.items() for name in pair):
        raise ConfigError(f"class_map must have names of classes, found {pairs!r}")
    return dict(pairs)


def rename_classes(listing: Listing, names: Mapping[str, str]) -> Listing:
    """A listing with new names of some classes, by old ones; classes that get one name become one class."""
    if missing := [old for old in names if old not in listing.classes]:
        raise ConfigError(
            f"class_map renames classes that the source does not have: {some_of(missing, _NAMED)}",
            hint=f"It has {some_of(listing.classes, _NAMED) or 'no names of classes'}.",
        )
    new = [names.get(name, name) for name in listing.classes]
    # Sorted names stay sorted, so that folders with the same classes agree. Others, and categories with ids,
    # keep the order of the source.
    is_sorted = list(listing.classes) == sorted(listing.classes) and not listing.category_ids
    classes = tuple(sorted({*new}) if is_sorted else dict.fromkeys(new))
    label_of = np.array([classes.index(name) for name in new], np.int64)
    ids: dict[str, int | str] = {}
    for old, name, number in zip(listing.classes, new, listing.category_ids, strict=False):
        # A class that several become gets the id of the one whose name they all get.
        ids[name] = number if old == name or new.count(name) == 1 else ids.get(name, -1)
    category_ids = tuple(ids[name] for name in classes) if ids else ()
    return replace(_relabelled(listing, label_of), classes=classes, category_ids=category_ids)


def number_classes(listing: Listing, classes: tuple[str, ...], src: str | os.PathLike[str]) -> Listing:
    """A listing whose labels, of samples and objects, are indexes in ``classes``; ``src`` is for errors."""
    # The listing need not have all classes. Labels without names, which are plain numbers, stay as they are.
    columns: Mapping[str, pa.Array] = {} if listing.objects is None else listing.objects.columns
    if listing.labels is None and _OBJECT_LABELS not in columns:
        are_masks = listing.masks is not None
        more = ": the values of masks are the classes" if are_masks else ""
        raise ConfigError(
            f"classes number labels, and this source has none{more}",
            path=src,
            hint=f"Their names are read from {NAMES_FILE} beside the masks."
            if are_masks
            else "Leave it out.",
        )
    labelled = [array for array in (listing.labels, columns.get(_OBJECT_LABELS)) if array is not None]
    used = np.unique(np.concatenate([_values(array) for array in labelled]))
    label_of = _label_of(used, listing.classes, classes, src)
    ids = dict(zip(listing.classes, listing.category_ids, strict=False))
    category_ids = tuple(ids.get(name, -1) for name in classes) if ids else ()
    return replace(_relabelled(listing, label_of), classes=classes, category_ids=category_ids)


def _label_of(used: Labels, have: tuple[str, ...], want: tuple[str, ...], src: Any) -> Labels:
    """(L,) the new label of each old one; -1 for old ones that are not in use."""
    if not have:
        if len(used) and not 0 <= used[0] <= used[-1] < len(want):
            wrong = used[0] if used[0] < 0 else used[-1]
            raise SourceError(
                f"the source has label {wrong}, and there are {len(want)} names of classes",
                path=src,
                hint="The first name belongs to label 0: if labels count from 1, name label 0, too.",
            )
        return np.arange(len(want))
    number = {name: label for label, name in enumerate(want)}
    if missing := [have[label] for label in used if have[label] not in number]:
        alike = named_alike(missing[0], want)
        raise SourceError(
            f"the source has classes that are not among the {len(want)} given: "
            f"{some_of(missing, _NAMED)}{alike}",
            path=src,
            hint="Rename it with class_map, or rename the folder or the label."
            if alike
            else "Add their names to classes, at the end so that other labels stay, or leave them out with "
            "skip_other_classes.",
        )
    return np.array([number.get(name, -1) for name in have], np.int64)


def _values(labels: pa.Array) -> Labels:
    flat = labels.flatten() if pa.types.is_large_list(labels.type) else labels
    return np.asarray(flat.to_numpy(zero_copy_only=False), np.int64)


def _relabelled(listing: Listing, label_of: Labels) -> Listing:
    """A listing with the new label of each old one, of samples and objects."""
    objects = listing.objects
    if objects is not None:
        labels = {_OBJECT_LABELS: renumber(objects.columns[_OBJECT_LABELS], label_of)}
        objects = replace(objects, columns={**objects.columns, **labels})
    image_labels = None if listing.labels is None else renumber(listing.labels, label_of)
    return replace(listing, labels=image_labels, objects=objects)


def select_classes(listing: Listing, classes: tuple[str, ...]) -> Listing:
    """The samples of some classes; they keep their labels."""
    # In a source without names of classes, these are the labels below the number of ``classes``.
    labels = _single_labels(listing, "skip_other_classes")
    return _without(listing, {"class that was not chosen": ~np.isin(labels, _wanted(listing, classes))})


def _wanted(listing: Listing, classes: tuple[str, ...]) -> list[int]:
    """Labels of these classes; all numbers below theirs if the source has no names."""
    if not listing.classes:
        return list(range(len(classes)))
    return [number for number, name in enumerate(listing.classes) if name in classes]


def select_objects(listing: Listing, classes: tuple[str, ...]) -> Listing:
    """A listing that keeps the objects of some classes and all images."""
    assert listing.objects is not None, "called for listings with objects"
    columns = {name: ListColumn.from_arrow(array) for name, array in listing.objects.columns.items()}
    n = len(listing)
    objects = from_columns(columns, n, len(listing.info.keypoints))
    chosen = np.isin(objects.labels, _wanted(listing, classes))
    if len(objects) and not chosen.any():
        raise SourceError(
            f"no object is of the classes {some_of(classes)}",
            path=listing.root,
            hint=f"The source has {some_of(listing.classes) or 'labels without names'}.",
        )
    if chosen.all():
        return listing
    left = to_columns(objects.take(chosen).split(n))
    cast = {name: left[name].cast(old.type) for name, old in listing.objects.columns.items() if name in left}
    return replace(listing, objects=replace(listing.objects, columns=cast))


def limit_classes(listing: Listing, least: int, most: int | None, seed: int, *, renumber: bool) -> Listing:
    """A listing without classes of fewer than ``least`` images, and with ``most`` images of the others."""
    # Which samples of a class stay depends on their keys and the seed alone. ``renumber`` numbers the
    # remaining labels from 0.
    if least < 1 or (most is not None and most < least):
        raise ConfigError(
            f"min_per_class must be 1 or more and at most max_per_class, found {least} and {most}"
        )
    labels = _single_labels(listing, "min_per_class and max_per_class")
    used, of_class, counts = np.unique(labels, return_inverse=True, return_counts=True)
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
    if not renumber or not listing.classes:
        return left
    remaining = np.setdiff1d(np.arange(len(listing.classes)), used[counts < least])
    label_of = np.full(len(listing.classes), -1, np.int64)
    label_of[remaining] = np.arange(len(remaining))
    return replace(_relabelled(left, label_of), classes=tuple(listing.classes[i] for i in remaining))


def _single_labels(listing: Listing, option: str) -> Labels:
    """(N,) the label of each sample; ConfigError where samples have none or several."""
    if listing.labels is None or listing.multi_label:
        have = "several" if listing.multi_label else "none"
        raise ConfigError(
            f"{option} needs samples with one label each, and these have {have}", hint=f"Leave {option} out."
        )
    return _values(listing.labels)


def _without(listing: Listing, left_out: dict[str, npt.NDArray[np.bool_]]) -> Listing:
    """A listing without the samples of ``left_out``, an (N,) bool mask for each reason."""
    keep = ~np.logical_or.reduce(list(left_out.values()))
    if not keep.any():
        reasons = " or ".join(reason for reason, which in left_out.items() if which.any())
        raise SourceError(
            f"no sample is left: {reasons}", path=listing.root, hint="Name other classes or limits."
        )
    skips = [
        Skip(key, reason)
        for reason, which in left_out.items()
        for key in take_strings(listing.keys, np.flatnonzero(which)).to_pylist()
    ]
    return replace(listing.take(np.flatnonzero(keep)), skipped=tuple(sorted([*listing.skipped, *skips])))


def hash_names(names: Iterable[str]) -> npt.NDArray[np.uint64]:
    """The BLAKE2b hash of each name, (N,) uint64, for choices that depend on names alone."""
    digests = bytearray()
    for name in names:
        digests += hashlib.blake2b(name.encode(), digest_size=8).digest()
    return np.frombuffer(digests, "<u8").astype(np.uint64)
