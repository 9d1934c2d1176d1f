"""The batch that a user receives."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from stoker.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NUMBERS", "ColumnSpec", "FinishedBatch", "batch_type"]

# As Arrow names them; these are what a column of a batch can hold.
NUMBERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)} | {
    "halffloat",
    "float",
    "double",
}


@dataclass(frozen=True)
class ColumnSpec:
    """Form of one column of a batch.

    Attributes:
        name: The column.
        dtype: NumPy's name of the element type, "bfloat16", or "str".
        shape: Without the first axis, which is the batch; None where a size differs from batch to batch.
        ragged: The column is a list of arrays, one a sample, of this shape, whose first size differs.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    ragged: bool = False


class FinishedBatch(NamedTuple):
    """A batch as a stage hands it over; its bad samples count when the consumer receives it.

    Attributes:
        batch: What the consumer gets, a named tuple of columns.
        samples: How many it holds.
        skipped: Bad samples that were left out.
        replaced: Bad samples that were replaced.
        bad_keys: Their keys.
        ready: To be called in the consumer's thread before it uses the batch.
    """

    batch: Any
    samples: int
    skipped: int = 0
    replaced: int = 0
    bad_keys: tuple[str, ...] = ()
    ready: Callable[[], None] | None = None


@lru_cache(maxsize=64)
def batch_type(columns: tuple[str, ...]) -> Callable[..., Any]:
    """The named tuple of these columns: ``images, labels = batch`` and ``batch.image`` both work.

    Batches pickle, for queues between processes.

    Raises:
        ConfigError: A column's name is no Python name, or stands twice.
    """
    return type("Batch", (_named_tuple(columns),), {"__slots__": (), "__reduce__": _reduce})


def _named_tuple(columns: tuple[str, ...]) -> type[Any]:
    try:
        return namedtuple("_named_tuple", columns)
    except ValueError as error:
        raise ConfigError(f"columns={columns!r}: {error}") from error


# Pickle finds a class by its module and name; a batch's it can only make again.
def _reduce(batch: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return _batch, (batch._fields, tuple(batch))


def _batch(columns: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return batch_type(columns)(*values)
