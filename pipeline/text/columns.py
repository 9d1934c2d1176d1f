"""The names of the columns of a batch of text, and the columns of packed rows and streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.arguments import list_of_names
from stoker.errors import ConfigError

from ..order.sample_source import SampleSource, batchable_columns
from .planning.batching_config import BatchingConfig
from .planning.epoch import TokenSlices


def rows_of_segments(slices: TokenSlices, most: int) -> npt.NDArray[np.int64]:
    """(B, most) int64: the sample of each segment of B packed rows, and -1 after the last."""
    assert slices.groups is not None, "called only with packing"
    counts = np.diff(slices.groups)
    table = np.full((len(counts), most), -1, np.int64)
    table[np.arange(most) < counts[:, None]] = slices.positions
    return table


def rows_of_tokens(slices: TokenSlices) -> npt.NDArray[np.int64]:
    """(B, L) int64: the sample of each token of B rows of streams, which have L + 1 tokens."""
    assert slices.groups is not None, "called only for streams"
    each = np.repeat(slices.positions, slices.lengths[:, 0]).reshape(len(slices.groups) - 1, -1)
    return np.ascontiguousarray(each[:, :-1])


def document_begins(slices: TokenSlices) -> npt.NDArray[np.bool_]:
    """(B, L) bool: the first tokens of documents, and of streams, in B rows of streams."""
    assert slices.groups is not None, "called only for streams"
    lengths = slices.lengths[:, 0]
    begins = np.zeros(int(lengths.sum()), np.bool_)
    begins[(np.cumsum(lengths) - lengths)[slices.opens]] = True
    return np.ascontiguousarray(begins.reshape(len(slices.groups) - 1, -1)[:, :-1])


def column_names(
    columns: Sequence[str] | None,
    arrays: Mapping[str, Any],
    dataset: SampleSource,
    batching: BatchingConfig,
    *,
    fields: Sequence[str],
    possible: set[str],
) -> tuple[str, ...]:
    """Names of the columns of a batch."""
    names = tuple(arrays) if columns is None else list_of_names("columns", columns)
    if batching.last_batch == "pad" and "mask" not in names:
        names = (*names, "mask")
    known = {*arrays, "mask", "row"}
    if batching.stream is not None:
        known = {*arrays, "row", "begins"}
    elif batching.pack is None:
        known |= batchable_columns(dataset)
    for name in names:
        if name not in known:
            raise ConfigError(
                f"columns: there is no {name!r} of the fields {', '.join(fields)}",
                path=dataset.path,
                hint=f"There are {', '.join(sorted(known | possible))}; fields= says which fields are read.",
            )
    if not names:
        raise ConfigError("columns must name at least one column")
    return names
