"""What batches of a loader hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["rows_of"]


def rows_of(batches: Iterable[Any]) -> list[int]:
    """The column "row" of all batches, one after the other."""
    return [int(row) for batch in batches for row in batch.row]
