"""Values of the samples of several datasets, joined in the order of all samples; for :mod:`.mixture`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.formats.dataset.annotations import Annotations

Int64 = npt.NDArray[np.int64]


def dataset_parts(which: Int64) -> Iterator[tuple[int, Int64]]:
    """Yield the number of each dataset in ``which``, and the indices of its samples; at least dataset 0."""
    for d in np.unique(which).tolist() or [0]:
        yield d, np.flatnonzero(which == d)


def gathered(which: Int64, parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Merge the values of each dataset's samples into the order of all samples."""
    values = np.empty((len(which), *parts[0].shape[1:]), np.result_type(*parts))
    for (_, indices), part in zip(dataset_parts(which), parts, strict=True):
        values[indices] = part
    return values


def gathered_bands(
    which: Int64, parts: Sequence[npt.NDArray[np.uint32] | None]
) -> npt.NDArray[np.uint32] | None:
    """Merge tables of different widths, see :attr:`Samples.bands`; None is a table without columns."""
    widths = [0 if part is None else part.shape[1] for part in parts]
    if not any(widths):
        return None
    values = np.zeros((len(which), max(widths)), np.uint32)
    for (_, indices), part, width in zip(dataset_parts(which), parts, widths, strict=True):
        if part is not None:
            values[indices, :width] = part
    return values


def joined_objects(parts: Sequence[Annotations]) -> Annotations:
    """Return the objects of several datasets, sorted by ``owner``.

    Keypoints and further columns that only some datasets have are left out. One dataset may have masks as
    polygons and another as run lengths; an object has nothing in the other form.
    """
    values = {item.name: [getattr(part, item.name) for part in parts] for item in fields(Annotations)}
    if all(part.polygons is not None or part.runs is not None for part in parts):
        nothing: dict[str, Any] = {"polygons": [], "runs": np.zeros(0, np.uint32)}
        for name, empty in nothing.items():
            pairs = zip(values[name], parts, strict=True)
            values[name] = [[empty] * len(part) if value is None else value for value, part in pairs]
    joined = Annotations(**{name: _concatenated(of_parts) for name, of_parts in values.items()})
    return joined.take(np.argsort(joined.owner, kind="stable"))


def _concatenated(values: Sequence[Any]) -> Any:
    """Concatenate an attribute of objects; one that only some datasets have is left out."""
    if any(value is None for value in values):
        return None
    if isinstance(values[0], list):
        return list(chain.from_iterable(values))
    if isinstance(values[0], Mapping):
        common = set.intersection(*map(set, values))
        return {name: np.concatenate([value[name] for value in values]) for name in sorted(common)}
    return np.concatenate(values)
