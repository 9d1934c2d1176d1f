"""Batches: the named tuple that a consumer receives, and the form of its columns."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from stoker.errors import ConfigError


@dataclass(frozen=True)
class ColumnSpec:
    """Form of one column of a batch."""

    name: str  # The column
    dtype: str  # NumPy's name of the element type, "bfloat16", or "str"
    # Shape without the first axis, the batch; None for a size that differs between batches
    shape: tuple[int | None, ...]
    # The column is a list with one array of this shape for each sample; first sizes differ
    ragged: bool = False
    # Views of each sample, an axis before the batch, or a tuple of as many lists for a ragged column
    views: int | None = None


class FinishedBatch(NamedTuple):
    """A batch as its producer returns it, with the counts that are added up when the consumer receives it."""

    batch: Any  # The named tuple of columns that the consumer receives
    samples: int  # Number of samples in it
    skipped: int = 0  # Number of bad samples that were left out
    replaced: int = 0  # Number of bad samples that were replaced
    bad_keys: tuple[str, ...] = ()  # Keys of the bad samples
    # Function to call in the consumer's thread before it uses the batch; None for none
    ready: Callable[[], None] | None = None


@lru_cache(maxsize=64)
def batch_type(columns: tuple[str, ...]) -> Callable[..., Any]:
    """Return the named tuple type of these columns: ``images, labels = batch`` and ``batch.image`` both work.

    Batches can be pickled, for queues between processes.
    """
    try:
        base = (namedtuple("_named_tuple", columns),)
    except ValueError as error:
        raise ConfigError(f"columns={columns!r}: {error}") from error
    # Pickle finds a class by its module and name. A batch's class has none, so unpickling makes it again.
    members = {"__slots__": (), "__reduce__": lambda batch: (_batch, (batch._fields, tuple(batch)))}
    return type("Batch", base, members)


def _batch(columns: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return batch_type(columns)(*values)
