"""The arrays that the C++ module takes, packed by its tables of columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker._native import Column


def pack(columns: Iterable[Column], source: object) -> dict[str, npt.NDArray[Any]]:
    """Collect the attributes of ``source`` that columns are named after, in the form that C++ takes.

    A dotted name leads through attributes of attributes. Attributes that are None are left out. Arrays are
    copied only where their type or their order in memory is another one.
    """
    values = {column: _attribute(source, column.name) for column in columns}
    return {
        column.name: np.asarray(value, column.dtype, order="C")
        for column, value in values.items()
        if value is not None
    }


def _attribute(source: object, path: str) -> Any:
    name, _, rest = path.partition(".")
    value = getattr(source, name)
    return _attribute(value, rest) if rest and value is not None else value
