"""The tokens of slices that a model is trained on, from the runs that the index keeps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stoker.formats.dataset.columns.list_column import ListColumn

Int64 = npt.NDArray[np.int64]

__all__ = ["trained_tokens"]


def trained_tokens(
    runs: ListColumn, begins: Int64, tokens: Int64, closing: Int64, *, bounds: Int64
) -> npt.NDArray[np.bool_]:
    """(T,) bool, the tokens of P slices that a model is trained on.

    Args:
        runs: First token and end of each run, of the P whole sequences.
        begins: (P,) int64, first token of each slice.
        tokens: (P,) int64, tokens of the whole sequences.
        closing: (P,) int64, tokens at the end of each slice that are those at the end of its sequence.
        bounds: (P + 1,) int64, start of each slice among T tokens, and T.
    """
    which = np.repeat(np.arange(len(runs)), runs.counts // 2)
    first, end = runs.values.astype(np.int64).reshape(-1, 2).T
    lengths = np.diff(bounds)
    steps = np.zeros(int(bounds[-1]) + 1, np.int64)
    # The tokens of a slice are those from its beginning, and the closing tokens of the sequence.
    for origin, low, high in (
        (begins, np.zeros_like(lengths), lengths - closing),
        (tokens - lengths, lengths - closing, lengths),
    ):
        within = low[which], high[which]
        begin = np.clip(first - origin[which], *within) + bounds[which]
        stop = np.clip(end - origin[which], *within) + bounds[which]
        np.add.at(steps, begin, 1)
        np.add.at(steps, stop, -1)
    return np.asarray(np.cumsum(steps[:-1]) > 0)
