"""Replacements for the sequences of excluded samples, which fit into the same rows of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.bucketing import Batch
from stoker.errors import ConfigError
from stoker.random import hash_words

from .planner import TextEpoch, TokenSlices

Int64 = npt.NDArray[np.int64]

_REPLACEMENT = 0x53554254  # the word of these draws among the words of orders
_ATTEMPTS = 64


def with_replacements(
    epoch: TextEpoch,
    batch: Batch,
    slices: TokenSlices,
    excluded: Int64,
    *,
    groups: Int64 | None,
    key: tuple[int, int],
) -> TokenSlices:
    """Return the sequences of a batch with replacements for those of excluded samples."""
    # A replacement is a random whole sample of the epoch that fits: into the tokens of the sequence in a
    # packed row, and otherwise into the padded length. If no sample fits, a longer one is cut. If batches are
    # planned by other lengths than are read, no sample is cut.
    # excluded (M,), positions; groups (N,)
    bad = np.flatnonzero(np.isin(slices.positions, excluded))
    if not bad.size:
        return slices
    positions, begins, lengths = slices.positions.copy(), slices.begins.copy(), slices.lengths.copy()
    for i in bad.tolist():
        row, index, table = i, 0, epoch.lengths if epoch.planned is None else epoch.planned
        limit = np.array(batch.shape[1:], np.int64)
        if slices.groups is not None:
            row = int(np.searchsorted(slices.groups, i, side="right")) - 1
            index, limit, table = i - int(slices.groups[row]), lengths[i].copy(), epoch.lengths
        position = int(positions[i])

        def may_replace(draws: Int64, position: int = position) -> npt.NDArray[np.bool_]:
            others = epoch.samples(draws)
            good = np.asarray(~np.isin(others, excluded))
            return good if groups is None else good & (groups[others] == groups[position])

        word = (*key, _REPLACEMENT, int(batch.rows[row]), index)
        draw = _random_fit(word, table, limit, may_replace)
        if draw is None or (table is not epoch.lengths and (table[draw] > limit).any()):
            problem = "could replace" if draw is None else "is short enough to replace"
            raise ConfigError(f"no sample {problem} sample {position}", hint="Exclude fewer samples.")
        positions[i], begins[i] = epoch.samples(np.array([draw]))[0], 0
        lengths[i] = np.minimum(epoch.lengths[draw], limit) if table is epoch.lengths else epoch.lengths[draw]
    return slices._replace(positions=positions, begins=begins, lengths=lengths)


def _random_fit(
    key: tuple[int, ...],
    table: npt.NDArray[Any],
    limit: Int64,
    allowed: Callable[[Int64], npt.NDArray[np.bool_]],
) -> int | None:
    """Return a random draw that is allowed, of those that fit if there are any; None if none is allowed."""
    # table (n, D), limit (D,)
    n = len(table)
    for attempt in range(_ATTEMPTS):
        draw = np.array([int(hash_words((*key, attempt))[0] % np.uint64(n))])
        if allowed(draw)[0] and (table[draw] <= limit).all():
            return int(draw[0])
    draws = np.flatnonzero(allowed(np.arange(n)))
    if not draws.size:
        return None
    fitting = draws[(table[draws] <= limit).all(axis=1)]
    chosen = fitting if fitting.size else draws
    return int(chosen[int(hash_words((*key, _ATTEMPTS))[0] % np.uint64(chosen.size))])
