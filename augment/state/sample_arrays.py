"""Samples taken out of a state and put back, for arrays whose last axis is the axis of samples."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]


def taken_arrays(state: Any, rows: Rows) -> dict[str, Any]:
    """The samples at ``rows``, (M,), of each array, (..., N), among the fields of a dataclass, by name."""
    return {name: array[..., rows] for name, array in _arrays(state).items()}


def put_arrays(state: Any, rows: Rows, taken: Any) -> None:
    """Replace the arrays of ``state`` by copies in which the samples at ``rows`` are those of ``taken``."""
    for name, part in _arrays(taken).items():
        setattr(state, name, filled(getattr(state, name), rows, part))


def filled(array: npt.NDArray[Any], rows: Rows, part: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy of an array, (..., N), in which the samples at ``rows`` are those of ``part``."""
    array = array.copy()
    array[..., rows] = part
    return array


def _arrays(state: Any) -> dict[str, npt.NDArray[Any]]:
    values = {field.name: getattr(state, field.name) for field in fields(state)}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
