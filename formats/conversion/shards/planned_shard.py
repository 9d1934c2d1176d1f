"""Writing one shard of a plan: an independent task that can be repeated anywhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...sources.listing import Skip
from ...threads import bounded_map
from ..plan import ConversionPlan, PlannedShard
from .encoder import EncodedRecord
from .shard_file import ShardFile, ShardResult, finished_shard, new_attempt

_CHUNK_BYTES = 1 << 20  # of the source, in one task of the pool: several in flight take little memory


class Cancelled(Exception):  # noqa: N818 - no error: another shard failed, or the user interrupted
    """The conversion is being stopped."""


def _ignore_progress(samples: int, size: int) -> None:
    """Count nothing: the default."""


@dataclass(frozen=True)
class ShardContext:
    """Resources that a runner shares among the shards that it writes."""

    pool: ThreadPoolExecutor | None = None  # Threads that read and encode; None for the calling thread
    ahead: int = 4  # Chunks of about a megabyte that the pool encodes before they are written
    # Called from any thread with the samples, and their bytes in the source, that are done
    count: Callable[[int, int], None] = _ignore_progress
    stop: threading.Event = field(default_factory=threading.Event)  # Set when the conversion is being stopped


def write_shard(
    state: Path, plan: ConversionPlan, number: int, context: ShardContext | None = None
) -> ShardResult:
    """Write shard ``number`` of a plan into the unfinished conversion ``state``, or find that it is finished.

    Without a context the calling thread does all the work.

    If two processes write the same shard at once, both write the same bytes.
    """
    container = plan.options.container
    if (result := finished_shard(state, number, container)) is not None:
        return result
    with new_attempt(state) as attempt:
        task = _ShardTask(plan, plan.shards[number], context or ShardContext())
        with ShardFile(attempt, number, container, plan.encoder) as shard:
            task.run(shard)
            return shard.finish(state, plan.shards[number].number_in_split)


class _ShardTask:
    """Reads, encodes and writes the samples of one shard in order."""

    def __init__(self, plan: ConversionPlan, shard: PlannedShard, context: ShardContext) -> None:
        self._plan = plan
        self._shard = shard
        self._context = context
        self._sizes = plan.listing.bytes[shard.rows]

    def run(self, file: ShardFile) -> None:
        """Write the records of the shard."""
        for chunk, outcomes in self._outcomes():
            rows = self._shard.rows[chunk.start : chunk.stop].tolist()
            for row, outcome in zip(rows, outcomes, strict=True):
                file.add(outcome, row)
            self._context.count(len(chunk), int(self._sizes[chunk.start : chunk.stop].sum()))

    def _outcomes(self) -> Iterator[tuple[range, list[EncodedRecord | Skip]]]:
        """The chunks in order, each encoded; a bounded number of them are encoded ahead."""
        chunks = chunk_rows(self._sizes, self._plan.encoder.chunk_samples)
        pool = self._context.pool
        if pool is None:
            for chunk in chunks:
                yield chunk, self._encode(chunk)
            return
        tasks = ((chunk, partial(self._encode, chunk)) for chunk in chunks)
        yield from bounded_map(pool, tasks, self._context.ahead)

    def _encode(self, chunk: range) -> list[EncodedRecord | Skip]:
        outcomes: list[EncodedRecord | Skip] = []
        encoder = self._plan.encoder
        for outcome in encoder.encode(self._shard.rows[chunk.start : chunk.stop]):
            if self._context.stop.is_set():
                raise Cancelled
            if isinstance(outcome, Skip) and self._plan.options.strict:
                raise encoder.strict_error(outcome)
            outcomes.append(outcome)
        return outcomes


def chunk_rows(sizes: npt.NDArray[np.int64], most: int) -> Iterator[range]:
    """Split samples of these sizes into chunks of at most ``most`` samples and about a megabyte."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        fitting = int(np.searchsorted(ends, before + _CHUNK_BYTES, side="right"))
        end = min(start + most, max(fitting, start + 1))
        yield range(start, end)
        start = end
