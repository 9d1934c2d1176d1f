"""Packing and bucketing of a stream of unknown length, with a bounded buffer.

Both take one sequence at a time, return the complete rows or batches, and have a small state for JSON. The
caller names each sequence by an integer, such as its row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from stoker.arguments import one_of, optional_number, whole_number
from stoker.errors import CheckpointError, ConfigError

from .boundaries import Boundaries, as_edges
from .packing import TooLong, pack

Int64 = npt.NDArray[np.int64]


class PackedRow(NamedTuple):
    """Pieces that share a packed row.

    Attributes:
        rows: (P,) int64, the sequence of each piece.
        begins: (P,) int64, the first token of each piece in its sequence.
        lengths: (P,) int64, the number of tokens in each piece.
    """

    rows: Int64
    begins: Int64
    lengths: Int64


class StreamingPacker:
    """Packs a stream by best fit decreasing over a buffer.

    When the buffer is full, its sequences are packed and the fuller half of the packed rows leaves. The other
    sequences return to the buffer, to be packed with later ones.

    Args:
        capacity: Number of tokens that fit into a packed row.
        buffer_size: Largest number of pieces in the buffer.
        max_sequences: Largest number of pieces in a packed row, or None.
        too_long: As for :func:`pack`.

    Raises:
        ConfigError: An argument is out of range.
    """

    def __init__(
        self,
        capacity: int,
        *,
        buffer_size: int = 256,
        max_sequences: int | None = None,
        too_long: TooLong = "error",
    ) -> None:
        one_of("too_long", too_long, get_args(TooLong))
        self._capacity = whole_number("capacity", capacity, 1)
        self._options: dict[str, Any] = {
            "capacity": self._capacity,
            "buffer_size": whole_number("buffer_size", buffer_size, 1),
            "max_sequences": optional_number("max_sequences", max_sequences, 1),
            "too_long": too_long,
        }
        self._buffer: list[tuple[int, int, int]] = []

    def __len__(self) -> int:
        """Number of pieces in the buffer."""
        return len(self._buffer)

    def push(self, row: int, length: int) -> list[PackedRow]:
        """Add one sequence and return the packed rows that leave, most often none.

        Raises:
            ConfigError: The sequence is empty or too long.
        """
        too_long = self._options["too_long"]
        if length < 1 or (length > self._capacity and too_long == "error"):
            raise ConfigError(
                f"row {row} has {length} tokens; a packed row takes 1 to {self._capacity}",
                hint='Leave out empty sequences; for long ones use too_long="truncate" or "split".',
            )
        leaving: list[PackedRow] = []
        end = length if too_long == "split" else min(length, self._capacity)
        for begin in range(0, end, self._capacity):
            self._buffer.append((row, begin, min(end - begin, self._capacity)))
            if len(self._buffer) == self._options["buffer_size"]:
                leaving += self._emit(everything=False)
        return leaving

    def flush(self) -> list[PackedRow]:
        """Return the remaining packed rows, at the end of the stream."""
        return self._emit(everything=True) if self._buffer else []

    def stream(self, sequences: Iterable[tuple[int, int]]) -> Iterator[PackedRow]:
        """Yield the packed rows of all (row, length) pairs."""
        for row, length in sequences:
            yield from self.push(row, length)
        yield from self.flush()

    def _emit(self, *, everything: bool) -> list[PackedRow]:
        held = np.array(self._buffer, np.int64)
        plan = pack(held[:, 2], self._capacity, max_sequences=self._options["max_sequences"])
        fullest_first = np.argsort(-plan.filled, kind="stable").tolist()
        leaving = fullest_first if everything else fullest_first[: -(-len(plan) // 2)]
        taken = [plan.rows[plan.pieces(packed_row)] for packed_row in leaving]
        keep = np.ones(len(held), np.bool_)
        keep[np.concatenate(taken)] = False
        self._buffer = [tuple(piece) for piece in held[keep].tolist()]
        return [PackedRow(*held[pieces].T) for pieces in taken]

    def state_dict(self) -> dict[str, Any]:
        """Return the options and the pieces in the buffer, as values that JSON has."""
        return {**self._options, "buffer": [list(map(int, piece)) for piece in self._buffer]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state.

        Raises:
            CheckpointError: The state has other options, or is damaged.
        """
        _same_options(self._options, state)
        try:
            self._buffer = [(int(row), int(begin), int(length)) for row, begin, length in state["buffer"]]
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the state is damaged: {error!r}") from error


class StreamBatch(NamedTuple):
    """Sequences of a stream that share a padded shape.

    Attributes:
        rows: (n * world_size,) int64; rank r takes ``rows[r::world_size]``.
        shape: (n, length), or (n, length, length), the shape of the batch of each rank.
        valid: Number of ``rows`` before the repeated rows, which make their number a multiple of
            ``world_size``.
    """

    rows: Int64
    shape: tuple[int, ...]
    valid: int


class StreamingBuckets:
    """Batches a stream by length: a batch leaves when its bucket is full.

    When the buffer is full, the first bucket leaves that sequences of shorter buckets can fill. Only batches
    of :meth:`flush` can be smaller than a full batch.

    Args:
        boundaries: (K,) or (K, D) int64, or the result of :func:`bucket_boundaries`.
        batch_sizes: Number of samples in a batch of one rank, for all buckets or for each.
        buffer_size: Largest number of sequences in the buffer; at least a batch of the last bucket for every
            rank.
        world_size: Number of ranks, which all read the same stream.

    Raises:
        ConfigError: An argument is out of range.
    """

    def __init__(
        self,
        boundaries: Boundaries,
        batch_sizes: int | Iterable[int],
        *,
        buffer_size: int = 4096,
        world_size: int = 1,
    ) -> None:
        edges = as_edges(boundaries)
        self._edges = edges.reshape(len(edges), -1)
        each = [batch_sizes] * len(edges) if isinstance(batch_sizes, (int, np.integer)) else batch_sizes
        sizes = [whole_number("batch_sizes", size, 1) for size in each]
        if len(sizes) != len(edges):
            raise ConfigError(f"batch_sizes must be one number or {len(edges)}, found {len(sizes)}")
        self._world_size = whole_number("world_size", world_size, 1)
        self._sizes = [size * self._world_size for size in sizes]
        self._buffer_size = whole_number("buffer_size", buffer_size, self._sizes[-1])
        self._options = {
            "boundaries": self._edges.tolist(),
            "batch_sizes": sizes,
            "buffer_size": self._buffer_size,
            "world_size": self._world_size,
        }
        self._held: list[list[int]] = [[] for _ in sizes]

    def __len__(self) -> int:
        """Number of sequences in the buffer."""
        return sum(map(len, self._held))

    def push(self, row: int, length: int | tuple[int, ...]) -> list[StreamBatch]:
        """Add one sequence and return the batch that leaves, if there is one.

        Raises:
            ConfigError: The sequence is longer than the last boundary.
        """
        fits = np.all(np.greater_equal(self._edges, length), axis=1)
        bucket = int(fits.argmax())
        if not fits[bucket]:
            raise ConfigError(
                f"row {row} has length {length}; the last boundary is {self._edges[-1].tolist()}",
                hint="Truncate or leave out longer sequences, or add a boundary.",
            )
        self._held[bucket].append(row)
        if len(self._held[bucket]) == self._sizes[bucket]:
            return [self._leave(bucket, self._sizes[bucket])]
        if len(self) < self._buffer_size:
            return []
        below = np.cumsum([len(held) for held in self._held])
        bucket = int(np.argmax(below >= self._sizes))
        return [self._leave(bucket, self._sizes[bucket])]

    def flush(self) -> list[StreamBatch]:
        """Return the remaining batches, at the end of the stream; they may be smaller."""
        batches = []
        while len(self):
            below = np.cumsum([len(held) for held in self._held])
            full = np.flatnonzero(below >= self._sizes)
            bucket = int(full[0]) if len(full) else int(np.flatnonzero(np.diff(below, prepend=0))[-1])
            batches.append(self._leave(bucket, min(int(below[bucket]), self._sizes[bucket])))
        return batches

    def stream(self, sequences: Iterable[tuple[int, int | tuple[int, ...]]]) -> Iterator[StreamBatch]:
        """Yield the batches of all (row, length) pairs."""
        for row, length in sequences:
            yield from self.push(row, length)
        yield from self.flush()

    def _leave(self, bucket: int, size: int) -> StreamBatch:
        """Remove and return ``size`` sequences of a bucket and then of shorter ones, the oldest first."""
        rows: list[int] = []
        for held in reversed(self._held[: bucket + 1]):
            wanted = size - len(rows)
            rows += held[:wanted]
            del held[:wanted]
        each = -(-len(rows) // self._world_size)
        filled = np.resize(np.array(rows, np.int64), each * self._world_size)
        return StreamBatch(filled, (each, *self._edges[bucket].tolist()), len(rows))

    def state_dict(self) -> dict[str, Any]:
        """Return the options and the rows in the buffer, as values that JSON has."""
        return {**self._options, "held": [list(map(int, rows)) for rows in self._held]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state.

        Raises:
            CheckpointError: The state has other options, or is damaged.
        """
        _same_options(self._options, state)
        try:
            held = [[int(row) for row in rows] for rows in state["held"]]
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the state is damaged: {error!r}") from error
        if len(held) != len(self._held):
            raise CheckpointError(f"the state is damaged: {len(held)} buckets instead of {len(self._held)}")
        self._held = held


def _same_options(options: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    different = [name for name, value in options.items() if name not in state or state[name] != value]
    if different:
        raise CheckpointError(
            f"the state was made with another {', '.join(different)}",
            hint="Use the arguments with which the state was made.",
        )
