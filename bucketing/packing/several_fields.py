"""Best fit decreasing for sequences of several fields, each with a capacity of its own.

Samples are packed in groups, as many groups at a time as NumPy can hold: the k-th largest sample of every
group is placed at once. Within a group every row is open, as in best fit decreasing of one length.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["best_fit_of_fields", "least_rows"]

Int64 = npt.NDArray[np.int64]

_GROUP = 1024  # samples that are packed among each other; more would fill rows little better, at this cost
_AT_ONCE = 1 << 20  # samples of the groups that are packed at a time


def best_fit_of_fields(
    lengths: Int64, capacity: Int64, order: npt.NDArray[np.integer], max_sequences: int | None = None
) -> tuple[Int64, Int64]:
    """Put samples into rows, each into the row with the least room for it.

    Args:
        lengths: (N, D) int64, tokens of each sample in each field, at most ``capacity``.
        capacity: (D,) int64, tokens of a row in each field.
        order: (N,) integers, the samples in the order in which they form groups.
        max_sequences: Largest number of samples in a row, or None.

    Returns:
        (N,) int64, the samples row after row; and (B + 1,) int64, the first of each row, and N.
    """
    rows: list[Int64] = []
    counts: list[Int64] = []
    for start in range(0, len(order), _AT_ONCE):
        chosen = order[start : start + _AT_ONCE].astype(np.int64)
        groups = -(-len(chosen) // _GROUP)
        table = np.full(groups * _GROUP, -1, np.int64)
        table[: len(chosen)] = chosen
        placed, sizes = _pack_groups(lengths, capacity, table.reshape(groups, -1), max_sequences)
        rows.append(placed)
        counts.append(sizes)
    return np.concatenate(rows), np.concatenate(([0], np.cumsum(np.concatenate(counts))))


def least_rows(lengths: Int64, capacity: Int64, max_sequences: int | None = None) -> int:
    """Lower bound on the number of rows: that of the fullest field alone."""
    bound = int((-(-lengths.sum(axis=0) // capacity)).max())
    return bound if max_sequences is None else max(bound, -(-len(lengths) // max_sequences))


def _pack_groups(
    lengths: Int64, capacity: Int64, table: Int64, max_sequences: int | None
) -> tuple[Int64, Int64]:
    """Pack each row of ``table``, (G, M) samples of one group, -1 for none.

    Returns:
        The samples row after row, and the number of samples of each row.
    """
    groups, size = table.shape
    scale = (1 / capacity).astype(np.float32)
    shares = np.where(table < 0, -1, (lengths[table] * scale).max(axis=2))
    table = np.take_along_axis(table, np.argsort(-shares, axis=1, kind="stable"), axis=1)
    room = np.tile(capacity.astype(np.int32), (groups, size, 1))
    free = np.full((groups, size), size if max_sequences is None else max_sequences, np.int32)
    score = np.full((groups, size), len(capacity), np.float32)  # the room of each row, in capacities
    bins = np.zeros((groups, size), np.int64)
    opened = np.zeros(groups, np.int64)
    every = np.arange(groups)
    for k in range(size):
        present = table[:, k] >= 0
        each = np.where(present[:, None], lengths[table[:, k]], 0).astype(np.int32)
        most = int(opened.max()) + 1
        fits = (room[:, :most] >= each[:, None]).all(axis=2) & (free[:, :most] > 0)
        best = np.where(fits, score[:, :most], np.inf).argmin(axis=1)
        bins[:, k] = best
        room[every, best] -= each
        free[every, best] -= present
        score[every, best] -= (each * scale).sum(axis=1)
        opened = np.maximum(opened, np.where(present, best + 1, 0))
    flat = (bins + every[:, None] * size).reshape(-1)
    flat, samples = flat[table.reshape(-1) >= 0], table.reshape(-1)[table.reshape(-1) >= 0]
    in_rows = np.argsort(flat, kind="stable")
    _, counts = np.unique(flat, return_counts=True)
    return samples[in_rows], counts
