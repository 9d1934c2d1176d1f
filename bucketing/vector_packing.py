"""Packing of samples with several fields, each with its own capacity (vector bin packing).

Samples are packed in groups, many groups at a time: the k-th largest samples of all groups get their rows at
once. Each group keeps the fewest rows of three attempts:

- Best fit puts a sample into the row with the least room. It suits lengths where one field decides.
- Balanced fit opens as many rows as a group needs at least, and puts a sample where the fullest field of the
  row keeps the most room. All fields of a row then fill up together. A second attempt opens more rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]

_ROWS = 128  # approximate number of rows of a group; more rows would hardly be filled better
_LARGEST = 8192  # samples of a group: a step over few rows takes as long
_AT_ONCE = 512  # groups that are packed at a time, so that their rows stay in the processor's cache
_LEVELS = 128  # levels of size: samples of one level keep their random order, so that epochs differ
_CLASSES = 32  # the bound counts samples of more than 1/2, 1/3 ... 1/32 of a capacity


class _Groups(NamedTuple):
    """G groups of M samples, the largest of each group first."""

    tokens: Int64  # (D, G, M), of each sample in D fields; 0 after the samples of the last group
    present: npt.NDArray[np.bool_]  # (G, M), whether there is a sample
    capacity: Int64  # (D,), tokens of a row in each field
    max_sequences: int | None  # largest number of samples in a row


def pack_fields(
    lengths: Int64, capacity: Int64, order: npt.NDArray[np.integer], max_sequences: int | None, least: int
) -> tuple[Int64, Int64]:
    """Return the samples row after row, and the first of each row; ``least`` rows are needed at least."""
    # lengths (N, D), capacity (D,), order (N,) -> (N,), (rows + 1,)
    needed = lengths.sum(axis=0) / capacity
    size = min(len(order), _LARGEST, max(1, _ROWS * len(order) // least))
    weights = needed / needed.max() / capacity
    rows: list[Int64] = []
    counts: list[Int64] = []
    for start in range(0, len(order), _AT_ONCE * size):
        chosen = order[start : start + _AT_ONCE * size].astype(np.int64)
        table = np.full((-(-len(chosen) // size), size), -1, np.int64)
        table.reshape(-1)[: len(chosen)] = chosen
        weighted = (lengths[table, k] * weight for k, weight in enumerate(weights))
        keys = sum(weighted, start=np.zeros(table.shape))
        keys = np.where(table < 0, -1, np.floor(_LEVELS * keys))
        table = np.take_along_axis(table, np.argsort(-keys, axis=1, kind="stable"), axis=1)
        tokens = np.where(table < 0, 0, lengths.T[:, table])
        bins = _pack(_Groups(tokens, table >= 0, capacity, max_sequences), least / needed.max())
        present = table.reshape(-1) >= 0
        flat = (bins + np.arange(len(table))[:, None] * size).reshape(-1)[present]
        rows.append(table.reshape(-1)[present][np.argsort(flat, kind="stable")])
        counts.append(np.unique(flat, return_counts=True)[1])
    return np.concatenate(rows), np.concatenate(([0], np.cumsum(np.concatenate(counts))))


def least_rows(lengths: Int64, capacity: Int64, max_sequences: int | None = None) -> int:
    """Lower bound on the number of rows, by the field that needs most."""
    # A field needs at least its tokens over its capacity. A row holds at most k samples that are longer than
    # 1 / (k + 1) of the capacity; for samples of exactly that length their tokens count (the dual feasible
    # function u(k) of Fekete and Schepers, 2001).
    bound = 0 if max_sequences is None else -(-len(lengths) // max_sequences)
    for field, room in zip(lengths.T, capacity.tolist(), strict=True):
        number = np.bincount(field)
        length = np.arange(len(number))
        bound = max(bound, -(-int(number @ length) // room))
        for k in range(1, _CLASSES):
            whole, rest = np.divmod((k + 1) * length, room)
            counted = np.where(rest == 0, k * length, whole * room)
            bound = max(bound, -(-int(number @ counted) // (k * room)))
    return bound


def _pack(groups: _Groups, slack: float) -> Int64:
    """(G, M), the row of each sample; ``slack`` is the rows needed over those that tokens fill."""
    filled = (groups.tokens.sum(axis=2) / groups.capacity[:, None]).max(axis=0)
    least = np.minimum(np.ceil(slack * filled).astype(np.int64), groups.tokens.shape[2])
    bins, rows = _assign(groups, np.zeros_like(least), balanced=False)
    opened = least
    for _ in range(2):
        others, needed = _assign(groups, opened, balanced=True)
        bins, rows = np.where((needed < rows)[:, None], others, bins), np.minimum(needed, rows)
        opened = (least + np.maximum(least, needed)) // 2
    return bins


def _assign(groups: _Groups, opened: Int64, *, balanced: bool) -> tuple[Int64, Int64]:
    """The row of each sample in its group, (G, M), and the number of rows of each group, (G,)."""
    # Balanced or best fit assigns them; ``opened``, (G,), rows of a group are open at first.
    fields, count, size = groups.tokens.shape
    dtype = np.float32 if groups.capacity.max() < 1 << 24 else np.float64  # holds every length exactly
    capacity, tokens, opened = groups.capacity.astype(dtype), groups.tokens.astype(dtype), opened.copy()
    room = np.full((fields, count, size), -1, dtype)  # no sample fits into a row that is not open
    room[:, np.arange(size) < opened[:, None]] = capacity[:, None]
    free = np.full((count, size), groups.max_sequences or size, np.int64)
    bins = np.zeros((count, size), np.int64)
    every = np.arange(count)
    for k in range(size):
        most = min(size, int(opened.max()) + 1)
        chosen, fits = _choose(room[:, :, :most], tokens[:, :, k], capacity, balanced=balanced)
        new = np.flatnonzero(~fits & groups.present[:, k])
        chosen[new] = opened[new]
        room[:, new, opened[new]] = capacity[:, None]
        opened[new] += 1
        bins[:, k] = chosen
        room[:, every, chosen] -= tokens[:, :, k]
        free[every, chosen] -= groups.present[:, k]
        full = np.flatnonzero(free[every, chosen] == 0)
        room[:, full, chosen[full]] = -1
    used = (room < capacity[:, None, None]).any(axis=0) & (np.arange(size) < opened[:, None])
    return bins, used.sum(axis=1)


def _choose(
    room: npt.NDArray[np.floating],
    tokens: npt.NDArray[np.floating],
    capacity: npt.NDArray[np.floating],
    *,
    balanced: bool,
) -> tuple[Int64, npt.NDArray[np.bool_]]:
    """(G,) int64, the row for one sample of each group; and (G,) bool, whether the sample fits there."""
    left = room - tokens[:, :, None]
    scale = 1 / capacity
    least = left[0] * scale[0]
    total = least.copy()
    for field in range(1, len(left)):
        share = left[field] * scale[field]
        np.minimum(least, share, out=least)
        total += share
    every = np.arange(len(least))
    if balanced:
        chosen = least.argmax(axis=1)
    else:
        total[least < 0] = np.inf
        chosen = total.argmin(axis=1)
    return chosen, least[every, chosen] >= 0
