"""The plan of a packing: several sequences in each row of a fixed capacity, in few rows.

Best fit decreasing puts the longest remaining sequence into the row with the least room for it. Sequences of
equal length are packed together, so the work grows with the number of distinct lengths.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import index
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from stoker.arguments import one_of, optional_number, whole_number
from stoker.errors import ConfigError, DatasetError

from .boundaries import as_lengths
from .plan import check_seed, random_order

Int64 = npt.NDArray[np.int64]

TooLong = Literal["error", "truncate", "split"]
"""The rule for sequences that are longer than the capacity."""

_FIELDS = ("rows", "begins", "lengths", "offsets", "capacity", "least")


@dataclass(frozen=True, eq=False)
class PackingPlan:
    """The pieces of sequences in each packed row.

    Packed row b holds the pieces ``offsets[b]`` to ``offsets[b + 1]``. For batches of packed rows, give
    :attr:`filled` to a sampler as lengths, with the capacity as the only boundary.

    Attributes:
        rows: (P,) int64, the number of the sequence of each piece, in the order of the lengths given.
        begins: (P,) int64, the first token of each piece in its sequence; 0 for a whole sequence. Where all
            are whole it is a read-only array that takes no memory.
        lengths: (P,) int64, the number of tokens in each piece; (P, D) of samples with D fields.
        offsets: (B + 1,) int64, the first piece of each packed row, and P.
        capacity: Number of tokens that fit into a packed row; one number for each of D fields.
        least: Lower bound on the number of packed rows (L2 of Martello and Toth; for several fields
            by dual feasible functions).
    """

    rows: Int64
    begins: Int64
    lengths: Int64
    offsets: Int64
    capacity: int | tuple[int, ...]
    least: int

    def __len__(self) -> int:
        """Number of packed rows."""
        return len(self.offsets) - 1

    @property
    def filled(self) -> Int64:
        """(B,) or (B, D) int64, the number of tokens in each packed row."""
        return np.add.reduceat(self.lengths, self.offsets[:-1])

    @property
    def efficiency(self) -> float:
        """Share of the capacity that holds tokens, 0 to 1."""
        return int(self.lengths.sum()) / (len(self) * int(np.sum(self.capacity)))

    def pieces(self, packed_row: int) -> slice:
        """Return the slice of ``rows``, ``begins`` and ``lengths`` with the pieces of one packed row.

        Raises:
            ConfigError: There is no such packed row.
        """
        whole_number("packed_row", packed_row, 0, len(self) - 1)
        return slice(int(self.offsets[packed_row]), int(self.offsets[packed_row + 1]))

    def save(self, path: str | Path) -> None:
        """Write the plan as an uncompressed ``.npz`` without pickled objects."""
        with Path(path).open("wb") as file:
            parts: dict[str, Any] = {name: np.asarray(getattr(self, name), np.int64) for name in _FIELDS}
            np.savez(file, **parts)

    @classmethod
    def load(cls, path: str | Path) -> PackingPlan:
        """Return the plan of a file that :meth:`save` wrote.

        Raises:
            DatasetError: The file is not a packing plan, or its arrays contradict each other.
        """
        try:
            with np.load(Path(path), allow_pickle=False) as file:
                parts: dict[str, Any] = {name: np.asarray(file[name], dtype=np.int64) for name in _FIELDS}
            each = parts["capacity"].tolist()
            parts["capacity"] = each if isinstance(each, int) else tuple(map(index, each))
            parts["least"] = int(parts["least"])
            plan = cls(**parts)
        except (ValueError, KeyError, EOFError, TypeError, AttributeError, BadZipFile) as error:
            raise DatasetError(f"the file is not a packing plan: {error}", path=path) from error
        if not plan._is_consistent():
            raise DatasetError("the packing plan contradicts itself", path=path)
        return plan

    def _is_consistent(self) -> bool:
        size = len(self.rows)
        return bool(
            self.rows.shape == self.begins.shape == (size,)
            and self.lengths.shape == (size, *np.shape(self.capacity))
            and self.offsets.ndim == 1
            and len(self.offsets) > 1
            and self.offsets[0] == 0
            and self.offsets[-1] == size
            and (np.diff(self.offsets) > 0).all()
            and min(self.rows.min(), self.begins.min()) >= 0
            and self.lengths.min() >= self.lengths.ndim % 2  # one field of several may be empty
            and (self.filled <= np.asarray(self.capacity)).all()
        )


def pack(
    lengths: npt.ArrayLike,
    capacity: int | Sequence[int],
    *,
    max_sequences: int | None = None,
    too_long: TooLong = "error",
    seed: int | None = None,
    epoch: int = 0,
) -> PackingPlan:
    """Return a packing by best fit decreasing.

    Args:
        lengths: (N,) integers, the tokens of each sequence, at least 1. Or (N, D), the tokens of each sample
            in D fields, at least 1 in all; the fields of a sample have the same row and slot.
        capacity: Number of tokens that fit into a packed row; with D fields one number for all, or D.
        max_sequences: Largest number of pieces in a packed row, or None.
        too_long: "error", "truncate" to the capacity, or "split" into pieces of the capacity and a
            remainder, of one field.
        seed: Seed of a shuffle of sequences of the same length, new in each epoch: other sequences then share
            a row at the same efficiency. None keeps them in the order of rows.
        epoch: From 0 to 2**32 - 1.

    Raises:
        ConfigError: An argument is out of range, or a sequence is empty or too long; the error names its row.
    """
    table = as_lengths(lengths)
    each = _capacities(table, capacity)
    optional_number("max_sequences", max_sequences, 1)
    one_of("too_long", too_long, get_args(TooLong))
    _check_lengths(table.reshape(len(table), -1), each, too_long)
    if table.ndim > 1:
        sizes = np.minimum(table, each)
        least = least_rows(sizes, each, max_sequences)
        rows, offsets = pack_fields(sizes, each, _order(len(sizes), seed, epoch), max_sequences, least)
        begins = np.broadcast_to(np.int64(0), rows.shape)
        return PackingPlan(rows, begins, sizes[rows], offsets, tuple(each.tolist()), least)
    room, longest = int(each[0]), int(table.max())
    if longest <= room or too_long == "truncate":
        sizes = table if longest <= room else np.minimum(table, room)
        return _best_fit(sizes, room, max_sequences, _order(len(sizes), seed, epoch))
    pieces = -(-table // room)
    whole = np.repeat(np.arange(len(table)), pieces)
    begins = (np.arange(len(whole)) - np.repeat(np.cumsum(pieces) - pieces, pieces)) * room
    sizes = np.minimum(table[whole] - begins, room)
    plan = _best_fit(sizes, room, max_sequences, _order(len(sizes), seed, epoch))
    return replace(plan, rows=whole[plan.rows], begins=begins[plan.rows])


def _capacities(table: Int64, capacity: int | Sequence[int]) -> Int64:
    """(D,), the capacity of each field."""
    fields = table.shape[1] if table.ndim > 1 else 1
    given = [capacity] * fields if isinstance(capacity, (int, np.integer)) else capacity
    if len(given) != fields:
        raise ConfigError(
            f"there are {fields} lengths of each sample, and {len(given)} capacities",
            hint="Give one capacity for all fields, or one for each.",
        )
    return np.array([whole_number("capacity", each, 1) for each in given], np.int64)


def _check_lengths(columns: Int64, capacity: Int64, too_long: TooLong) -> None:
    """Refuse empty samples, and samples that are too long."""
    if too_long == "split" and columns.shape[1] > 1:
        raise ConfigError(
            f"too_long='split' takes one field, found {columns.shape[1]}", hint='Use too_long="truncate".'
        )
    if (wrong := columns.sum(axis=1) < 1).any():
        raise ConfigError(f"row {int(wrong.argmax())} is empty", hint="Leave out empty samples.")
    if too_long == "error" and (wrong := (columns > capacity).any(axis=1)).any():
        row = int(wrong.argmax())
        raise ConfigError(
            f"row {row} has {_few(columns[row])} tokens, more than the capacity of {_few(capacity)}",
            hint='Use too_long="truncate", for one field "split", or a larger capacity.',
        )


def _few(numbers: Int64) -> str:
    return ", ".join(map(str, numbers.tolist()))


def _order(size: int, seed: int | None, epoch: int) -> npt.NDArray[Any]:
    """A permutation of 0 to ``size - 1``: ascending without a seed, else random."""
    if seed is None:
        return np.arange(size)
    check_seed(seed, epoch)
    return random_order(size, seed, epoch, stream=0)


def _best_fit(sizes: Int64, capacity: int, max_sequences: int | None, order: npt.NDArray[Any]) -> PackingPlan:
    """Pack whole sequences; sequences of one length keep their ``order``."""
    # NumPy sorts 16-bit keys by radix, several times faster than 64-bit ones.
    keys = ~(sizes.astype(np.uint16) if sizes.max() < 1 << 16 else sizes)
    order = order[np.argsort(keys[order], kind="stable")]
    histogram = np.bincount(sizes, minlength=capacity + 1)
    bins, slots, counts = best_fit_decreasing(histogram, max_sequences)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    indices = offsets[bins]
    indices += slots
    del bins, slots  # of ten million sequences, all of these take much memory
    packed = np.empty(len(order), np.int64)
    packed[indices] = order
    del indices, order
    begins = np.broadcast_to(np.int64(0), packed.shape)
    return PackingPlan(packed, begins, sizes[packed], offsets, capacity, least_bins(histogram, max_sequences))


class _OpenBins:
    """Arrays of the numbers of bins, by their free tokens (room) and free sequences (slots)."""

    def __init__(self) -> None:
        self._rooms: list[int] = []
        self._bins: dict[int, dict[int, list[npt.NDArray[np.int32]]]] = {}

    def put(self, room: int, slots: int, bins: npt.NDArray[np.int32]) -> None:
        if room == 0 or slots == 0 or len(bins) == 0:
            return
        if room not in self._bins:
            insort(self._rooms, room)
            self._bins[room] = {}
        self._bins[room].setdefault(slots, []).append(bins)

    def take(self, length: int) -> tuple[int, int, npt.NDArray[np.int32]] | None:
        """Remove and return bins with the least room for ``length`` tokens; None if there are none."""
        index = bisect_left(self._rooms, length)
        if index == len(self._rooms):
            return None
        room = self._rooms[index]
        by_slots = self._bins[room]
        slots = next(iter(by_slots))
        bins = by_slots[slots].pop()
        if not by_slots[slots]:
            del by_slots[slots]
        if not by_slots:
            del self._bins[room]
            del self._rooms[index]
        return room, slots, bins


def best_fit_decreasing(
    histogram: Int64, max_sequences: int | None = None
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], Int64]:
    """Pack sequences, the longest first, each into the bin with the least room for it."""
    # histogram (capacity + 1,) -> the bin and the slot of each sequence, (N,); the sequences of each bin
    capacity = len(histogram) - 1
    limit = int(histogram.sum()) if max_sequences is None else max_sequences
    opened = 0
    open_bins = _OpenBins()
    bins: list[npt.NDArray[np.int32]] = []
    slots: list[npt.NDArray[np.int32]] = []
    for length in np.flatnonzero(histogram)[::-1].tolist():
        left = int(histogram[length])
        while left:
            taken = open_bins.take(length)
            if taken is None:
                each = min(capacity // length, limit)
                taken = capacity, limit, opened + np.arange(-(-left // each), dtype=np.int32)
                opened += len(taken[2])
            room, free, numbers = taken
            each = min(room // length, free, left)
            full = left // each
            open_bins.put(room, free, numbers[full:])
            numbers = numbers[:full]
            left -= each * len(numbers)
            bins.append(np.repeat(numbers, each))
            slots.append(np.tile(limit - free + np.arange(each, dtype=np.int32), len(numbers)))
            open_bins.put(room - each * length, free - each, numbers)
    bin_of = np.concatenate(bins)
    return bin_of, np.concatenate(slots), np.bincount(bin_of, minlength=opened)


def least_bins(histogram: Int64, max_sequences: int | None = None) -> int:
    """Return the lower bound L2 on the number of bins (Martello and Toth, "Knapsack Problems", 1990, 8.3)."""
    # For each threshold t up to half the capacity, sequences above capacity - t share no bin with sequences
    # of at least t, and sequences above half the capacity share no bin with each other. Sequences between t
    # and half the capacity fill the room beside the latter, or further bins. The bound takes O(capacity).
    # histogram (capacity + 1,)
    capacity = len(histogram) - 1
    number = np.concatenate((np.cumsum(histogram[::-1])[::-1], [0]))
    tokens = np.concatenate((np.cumsum((histogram * np.arange(capacity + 1))[::-1])[::-1], [0]))
    threshold = np.arange(capacity // 2 + 1)
    half, large = capacity // 2 + 1, capacity - threshold + 1
    medium_room = (number[half] - number[large]) * capacity - (tokens[half] - tokens[large])
    rest = tokens[threshold] - tokens[half] - medium_room
    bound = int((number[half] + np.maximum(0, -(-rest // capacity))).max())
    return bound if max_sequences is None else max(bound, -(-int(number[0]) // max_sequences))


# Samples with several fields, each with its own capacity (vector bin packing), are packed in groups, many
# groups at a time: the k-th largest samples of all groups get their rows at once. Each group keeps the fewest
# rows of three attempts:
#
# - Best fit puts a sample into the row with the least room. It suits lengths where one field decides.
# - Balanced fit opens as many rows as a group needs at least, and puts a sample where the fullest field of
#   the row keeps the most room. All fields of a row then fill up together. A second attempt opens more rows.

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
