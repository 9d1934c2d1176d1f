"""The producer of batches of text, which the prefetcher runs.

First it asks the kernel to read the bytes of a batch ahead. Later it reads the sequences, makes arrays of
them, and assembles the batch.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.bucketing import Batch, BatchContext
from stoker.bucketing.layout import Padded
from stoker.errors import SampleError

from ..adapters import Adapter
from ..caching.next_use import STEPS
from ..caching.prefetcher import CachedEpoch, CachePrefetcher
from ..caching.read_ahead import BatchReads
from ..execution.batch import FinishedBatch
from ..execution.stats import StatsTotals
from ..order.sample_source import batched_values
from .arrays import document_begins, rows_of_segments, rows_of_tokens
from .config import TextLoaderConfig
from .planner import TextEpoch, TokenSlices
from .schedule import TextSchedule
from .token_reader import PayloadLocations

TOGETHER = 1 << 17
"""Tokens of batches that are started together: Python takes about as long for one batch as for many."""


class _Start(NamedTuple):
    """Batches of consecutive steps that were started together; one batch of packed rows or of streams.

    ``slices`` has the sequences of all batches, one batch after the other, and ``locations`` their payloads.
    """

    steps: range
    batches: Sequence[Batch]
    slices: TokenSlices
    locations: PayloadLocations

    def alone(self) -> Iterator[_Start]:
        """Yield each batch alone."""
        if len(self.steps) == 1:
            yield self
            return
        first = 0
        for step, batch in zip(self.steps, self.batches, strict=True):
            each = slice(first, first := first + len(batch.rows))
            steps = range(step, step + 1)
            yield _Start(steps, [batch], self.slices.part(each), self.locations.part(each))


class MadeText(NamedTuple):
    """A batch in arrays of NumPy, before the arrays of the framework."""

    arrays: Mapping[str, Any]  # Arrays of its sequences, by their columns
    mask: npt.NDArray[np.bool_]  # (n,) bool, False for repeated samples
    slices: TokenSlices  # The sequences
    samples: int  # Number of samples

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(getattr(array, "nbytes", 0) for array in self.arrays.values())


class TextBatchProducer:
    """The :class:`~stoker.pipeline.execution.prefetch.BatchProducer` of one epoch's batches of text."""

    max_in_flight = 2  # the kernel reads the next batch while one is made

    def __init__(
        self,
        config: TextLoaderConfig,
        schedule: TextSchedule,
        epoch: TextEpoch,
        *,
        adapter: Adapter,
        totals: StatsTotals,
        cache_prefetcher: CachePrefetcher | None = None,
        together: int,
    ) -> None:
        self._config = config
        self._schedule = schedule
        self._epoch = epoch
        self._adapter = adapter
        self._totals = totals
        self._most = config.segments
        self._next = 0
        self._in_flight: deque[_Start] = deque()
        self._read: deque[tuple[_Start, list[Padded] | None]] = deque()  # the oldest start, batch by batch
        self._cached_epoch: CachedEpoch | None = None
        self._reads = partial(_reads_of_batches, config, schedule, epoch)
        self._cache_prefetcher = cache_prefetcher
        self._together = together if config.reads_padded and not cache_prefetcher else 0

    def start(self) -> int:
        """Plan the next batches, and ask the kernel to read their bytes ahead."""
        if self._next == len(self._schedule):
            return 0
        stages = self._totals.worker
        with stages.stage("planning"):
            steps = self._schedule.together(self._next, self._together)
            batches = [self._schedule.batch(step) for step in steps]
            slices = self._schedule.slices(self._epoch, batches, self._next)
            if self._cache_prefetcher:
                self._cached_epoch = self._cached_epoch or self._cache_prefetcher.begin(self._reads)
                with stages.stage("fetching"):
                    self._cached_epoch.wait()
            locations = self._config.reader.locate(slices.positions)
            self._config.reader.will_need(slices, locations)
            self._in_flight.append(_Start(steps, batches, slices, locations))
            self._next = steps.stop
        return len(steps)

    def finish(self) -> FinishedBatch:
        """Read the oldest batch, and those that were started with it, and assemble it."""
        return self.complete(self.collect())

    def collect(self) -> MadeText:
        """Read the oldest batch that was started, for :meth:`complete`."""
        with self._totals.worker.stage("executing"):
            if not self._read:
                start = self._in_flight.popleft()
                self._read.extend(zip(start.alone(), self._read_padded(start), strict=True))
            oldest, padded = self._read.popleft()
            mask, samples = self._schedule.mask(oldest.steps[0]), len(oldest.batches[0].rows)
            return MadeText(self._arrays(oldest, padded), mask, oldest.slices, samples)

    def complete(self, collected: MadeText) -> FinishedBatch:
        """Return the batch that this producer, or one of the same epoch on another machine, has collected."""
        stream = self._adapter.copy_stream
        with self._totals.worker.stage("handing over"), stream or contextlib.nullcontext():
            batch = self._config.batch_type(*(self._column(collected, name) for name in self._config.columns))
        ready = stream.ready(batch) if stream else None
        return FinishedBatch(batch, collected.samples, ready=ready)

    def _arrays(self, start: _Start, padded: list[Padded] | None) -> Mapping[str, Any]:
        """The arrays of a batch, from its padded rows if they have been read."""
        reader, maker = self._config.reader, self._config.maker
        if padded is not None:
            return maker.of_padded(padded)
        sequences = reader.read(start.slices, start.locations)
        self._release()
        return maker(sequences, start.slices.groups, start.batches[0].shape, self._context(start))

    def _read_padded(self, start: _Start) -> Sequence[list[Padded] | None]:
        """Read all batches at once as padded rows of each field; None for each batch to be read alone."""
        fill, slices = self._config.maker.fill, start.slices
        shapes = [batch.shape for batch in start.batches]
        later = [None] * len(shapes)
        if fill is None or not self._config.reads_padded or len(shapes[0]) != 1 + slices.lengths.shape[1]:
            return later
        first = np.cumsum([0, *(shape[0] for shape in shapes[:-1])])
        if (np.maximum.reduceat(slices.lengths, first) > np.array(shapes)[:, 1:]).any():
            return later
        try:
            padded = self._config.reader.read_padded(slices, start.locations, shapes, fill)
        except SampleError:
            if len(shapes) == 1:
                raise
            return later  # the batches before the bad one are good
        self._release()
        return padded

    def _release(self) -> None:
        if self._cached_epoch:
            self._cached_epoch.release()

    def _context(self, oldest: _Start) -> BatchContext:
        slices = oldest.slices
        return BatchContext(
            self._schedule.plan.epoch,
            self._schedule.number(oldest.steps[0]),
            rows=slices.positions,
            begins=slices.begins,
            draws=slices.draws,
            seed=self._config.planner.batching.seed,
        )

    def _column(self, collected: MadeText, name: str) -> Any:
        value: Any
        if name in collected.arrays:
            value = collected.arrays[name]
        elif name == "mask":
            value = collected.mask
        elif name == "begins" and collected.slices.opens is not None:
            value = document_begins(collected.slices)
        elif name == "row":
            value = self._rows(collected.slices)
        else:
            value = batched_values(self._config.dataset, name, collected.slices.positions)
        # A number such as max_seqlen stays a number: it is an argument of a GPU kernel.
        if isinstance(value, int):
            return value
        with self._totals.worker.stage("copying"):
            return self._adapter.column(value)

    def _rows(self, slices: TokenSlices) -> npt.NDArray[np.int64]:
        if slices.groups is None:
            return slices.positions
        return rows_of_segments(slices, self._most) if slices.opens is None else rows_of_tokens(slices)


def _reads_of_batches(
    config: TextLoaderConfig, schedule: TextSchedule, epoch: TextEpoch
) -> Iterator[BatchReads]:
    """Yield the payloads that each batch reads, or their slices."""
    reader = config.reader
    earlier = np.zeros(len(config.dataset) if reader.reads_slices else 0, np.bool_)
    for step in range(len(schedule)):
        slices = schedule.slices(epoch, [schedule.batch(step)], step)
        rows, moment = config.rows[slices.positions], schedule.plan.epoch * STEPS + schedule.number(step)
        bounds = None
        if reader.reads_slices:
            bounds = reader.byte_slices(slices, reader.locate(slices.positions), earlier)
            earlier[slices.positions] = True
        yield BatchReads(rows, bounds, moment)
