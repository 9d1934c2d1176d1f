"""Parts of an index, one for each finished shard, as the index of a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...dataset.index import Index, concat_indexes, write_index
from ...files import remove, sync


def merge_parts(parts: Sequence[Path], merged: Path) -> None:
    """Write the rows of all parts as one index, and sync it."""
    remove(merged)
    concat_indexes(parts, merged)
    sync(merged)


def empty_index(part: Path, merged: Path) -> None:
    """Write the index of a dataset without samples: the columns of a part that has no rows."""
    remove(merged)
    write_index(merged, _columns(part))
    sync(merged)


def renumbered_part(part: Path, number: int) -> Path:
    """Return a part with another number of its shard, because a shard before it is empty."""
    columns = _columns(part)
    columns["shard"] = np.full(len(columns["shard"]), number)
    return _rewritten(part, columns)


def ordered_part(part: Path, names: Sequence[str]) -> Path:
    """Return a part with its columns in the order ``names``."""
    columns = _columns(part)
    return part if list(columns) == list(names) else _rewritten(part, {name: columns[name] for name in names})


def _rewritten(part: Path, columns: dict[str, Any]) -> Path:
    rewritten = part.with_suffix(".rewritten")
    remove(rewritten)
    write_index(rewritten, columns)
    return rewritten


def _columns(part: Path) -> dict[str, Any]:
    index = Index.open(part)
    return {name: index.arrow(name) for name in index.schema.names}
