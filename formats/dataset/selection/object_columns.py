"""Facts about the objects of samples, which conditions may name besides the columns of the index."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..columns.annotation_columns import columns_of, from_columns
from ..columns.annotations import Annotations
from ..index import Index

_NAMES = ("num_objects", "num_crowds", "smallest_object", "largest_object")


def all_objects(index: Index, keypoints: int = 0, parts: Collection[str] = ()) -> Annotations:
    """Return the objects of all rows of an index, with some of the optional parts; see ``from_columns``."""
    names = columns_of(index.types, parts)
    return from_columns({name: index.lists(name) for name in names}, len(index), keypoints)


def columns_of_objects(
    index: Index, condition: str, objects: npt.NDArray[np.bool_] | None
) -> dict[str, pa.Array]:
    """Return the facts about the objects of each image that a condition names, (N,) each, by name.

    ``num_objects`` and ``num_crowds`` count; ``smallest_object`` and ``largest_object`` are areas in pixels,
    0 for an image without objects. ``objects``, (M,) bool, has the objects that count; None for all.
    """
    if "object_labels" not in index.types or not any(name in condition for name in _NAMES):
        return {}
    if objects is None and not any(name in condition for name in _NAMES[1:]):
        return {_NAMES[0]: pa.array(index.lists("object_labels").counts)}
    annotations = all_objects(index)
    if objects is not None:
        annotations = annotations.take(objects)
    n = len(index)
    smallest, largest = np.full(n, np.inf), np.zeros(n)
    np.minimum.at(smallest, annotations.owner, annotations.area)
    np.maximum.at(largest, annotations.owner, annotations.area)
    values: tuple[Any, ...] = (
        np.bincount(annotations.owner, minlength=n),
        np.bincount(annotations.owner[annotations.crowd], minlength=n),
        np.where(np.isfinite(smallest), smallest, 0),
        largest,
    )
    return dict(zip(_NAMES, map(pa.array, values), strict=True))
