"""The batch that a user receives."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from stoker.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ColumnSpec", "batch_type"]


@dataclass(frozen=True)
class ColumnSpec:
    """Form of one column of a batch.

    Attributes:
        name: The column.
        dtype: NumPy's name of the element type, "bfloat16", or "str".
        shape: Without the first axis, which is the batch; None where a size differs from batch to batch.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]


@lru_cache(maxsize=64)
def batch_type(columns: tuple[str, ...]) -> Callable[..., Any]:
    """The named tuple of these columns: ``images, labels = batch`` and ``batch.image`` both work.

    Raises:
        ConfigError: A column's name is no Python name, or stands twice.
    """
    try:
        return namedtuple("Batch", columns)
    except ValueError as error:
        raise ConfigError(f"columns={columns!r}: {error}") from error
