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
from typing import Any, Literal, get_args
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from stoker.arguments import one_of, optional_number, whole_number
from stoker.errors import ConfigError, DatasetError

from .boundaries import as_lengths
from .plan import check_seed, random_order
from .vector_packing import least_rows, pack_fields

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
