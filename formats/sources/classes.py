"""Classes numbered as somebody says, instead of by the names that one source happens to have.

Two sources that are converted by themselves, for training and for validation, number their classes alike only
if both have the same ones; numbered by one list, label 3 means the same in both.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from stoker.errors import ConfigError, SourceError

from ..dataset.list_column import ListColumn
from ..dataset.manifest import Manifest
from ..files.reading import open_regular, read_at

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from .listing import Listing

    Labels = npt.NDArray[np.int64]

__all__ = ["check_classes", "number_classes", "parse_class_names"]

_OBJECT_LABELS = "object_labels"
_LONGEST = 1 << 24  # bytes of a file of names
_NAMED = 5  # classes that an error names


def parse_class_names(given: str) -> tuple[str, ...]:
    """Names of classes, that of label 0 first: ``cat,dog``, a file with a name a line, or a dataset's folder.

    Raises:
        ConfigError: It is none of these, or a name is empty: which label is it then that has none?
        DatasetError: The folder is no dataset.
        SourceError: The file cannot be read.
    """
    path = Path(given)
    if path.is_dir():
        lines = list(Manifest.load(path).classes)
    elif path.is_file():
        lines = _lines(path)
    elif "," in given:
        lines = given.split(",")
    else:
        raise ConfigError(
            "classes must be names with commas between, a file with a name a line, or a dataset, not "
            f"{given!r}"
        )
    names = tuple(line.strip() for line in lines) or ("",)
    if "" in names:
        raise ConfigError(f"there is no name for label {names.index('')} in classes: {given}")
    return names


def _lines(path: Path) -> list[str]:
    try:
        with open_regular(path) as (descriptor, size):
            # utf-8-sig: spreadsheets write a byte order mark.
            return read_at(descriptor, 0, min(size, _LONGEST)).decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"the names of classes cannot be read: {error}", path=path) from error


def check_classes(classes: Sequence[str] | None) -> tuple[str, ...] | None:
    """Names of classes as given.

    Raises:
        ConfigError: They are no names in a row, or one is there twice.
    """
    if classes is None:
        return None
    names = () if isinstance(classes, str) else tuple(classes)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(f"classes must be a sequence of names, that of label 0 first, not {classes!r}")
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ConfigError(f"classes has a name twice, which is then of no one label: {twice[0]!r}")
    return names


def number_classes(listing: Listing, classes: tuple[str, ...], src: str | os.PathLike[str]) -> Listing:
    """The samples of a listing, and their objects, with labels that count ``classes``.

    Labels that have no names, plain numbers, stay as they are.

    Args:
        listing: Of what.
        classes: Names, that of label 0 first; there may be more than the listing has.
        src: Where it is from, for errors.

    Raises:
        ConfigError: Nothing in the listing has a label.
        SourceError: A sample or an object is of a class that is not among them.
    """
    columns: Mapping[str, pa.Array] = {} if listing.objects is None else listing.objects.columns
    if listing.labels is None and _OBJECT_LABELS not in columns:
        raise ConfigError(
            "classes number labels, and this source has none: in masks the values are the classes",
            hint="their names are read from classes.txt beside the masks",
        )
    labelled = [array for array in (listing.labels, columns.get(_OBJECT_LABELS)) if array is not None]
    used = np.unique(np.concatenate([_values(array) for array in labelled]))
    label_of = _label_of(used, listing.classes, classes, src)
    objects = listing.objects
    if objects is not None:
        numbered = {_OBJECT_LABELS: _renumber(columns[_OBJECT_LABELS], label_of)}
        objects = replace(objects, columns={**columns, **numbered})
    labels = None if listing.labels is None else _renumber(listing.labels, label_of)
    return replace(listing, labels=labels, classes=classes, objects=objects)


def _label_of(used: Labels, have: tuple[str, ...], want: tuple[str, ...], src: Any) -> Labels:
    """(L,) int64, the new label of each old one; -1 where nothing has it."""
    if not have:
        if len(used) and not 0 <= used[0] <= used[-1] < len(want):
            wrong = used[0] if used[0] < 0 else used[-1]
            raise SourceError(
                f"the source has label {wrong}, and there are {len(want)} names of classes",
                path=src,
                hint="the first name is that of label 0: where labels count from 1, give one for 0, too",
            )
        return np.arange(len(want))
    number = {name: label for label, name in enumerate(want)}
    if missing := [have[label] for label in used if have[label] not in number]:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        raise SourceError(
            f"the source has classes that are not among the {len(want)} given: "
            f"{', '.join(missing[:_NAMED])}{more}",
            path=src,
            hint="add their names to classes, at the end where labels are to stay, or take them out of the "
            "source",
        )
    return np.array([number.get(name, -1) for name in have], np.int64)


def _values(labels: pa.Array) -> Labels:
    flat = labels.flatten() if pa.types.is_large_list(labels.type) else labels
    return np.asarray(flat.to_numpy(zero_copy_only=False), np.int64)


def _renumber(labels: pa.Array, label_of: Labels) -> pa.Array:
    if not pa.types.is_large_list(labels.type):
        return pa.array(label_of[_values(labels)])
    lists = ListColumn.from_arrow(labels)
    return ListColumn(lists.starts, label_of[lists.values]).to_arrow()
