"""Best fit decreasing over a histogram of lengths, and a lower bound on the number of bins."""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np
import numpy.typing as npt


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
    histogram: npt.NDArray[np.int64], max_sequences: int | None = None
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Pack sequences, the longest first, each into the bin with the least room for it."""
    # histogram (capacity + 1,) int64 -> (N,) int32
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


def least_bins(histogram: npt.NDArray[np.int64], max_sequences: int | None = None) -> int:
    """Return the lower bound L2 on the number of bins (Martello and Toth, "Knapsack Problems", 1990, 8.3).

    For each threshold t up to half the capacity, sequences above capacity - t share no bin with sequences of
    at least t, and sequences above half the capacity share no bin with each other. Sequences between t and
    half the capacity fill the room beside the latter, or further bins. The bound takes O(capacity).
    """
    # histogram (capacity + 1,) int64
    capacity = len(histogram) - 1
    number = np.concatenate((np.cumsum(histogram[::-1])[::-1], [0]))
    tokens = np.concatenate((np.cumsum((histogram * np.arange(capacity + 1))[::-1])[::-1], [0]))
    threshold = np.arange(capacity // 2 + 1)
    half, large = capacity // 2 + 1, capacity - threshold + 1
    medium_room = (number[half] - number[large]) * capacity - (tokens[half] - tokens[large])
    rest = tokens[threshold] - tokens[half] - medium_room
    bound = int((number[half] + np.maximum(0, -(-rest // capacity))).max())
    return bound if max_sequences is None else max(bound, -(-int(number[0]) // max_sequences))
