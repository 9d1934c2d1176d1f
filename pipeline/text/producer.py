"""The producer of batches of text, which the prefetcher runs.

It has the bytes of a batch read ahead, and later reads its sequences, makes arrays of them, and assembles the
batch.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stoker.bucketing import BatchContext

from ..caching.planned_reads import BatchReads
from ..execution.batch import FinishedBatch
from ..order.sample_source import batched_values
from .columns import document_begins, rows_of_segments, rows_of_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from stoker.bucketing import Batch

    from ..adapters import Adapter
    from ..caching.cache_prefetcher import CachePrefetcher
    from ..execution.observation.stats import StatsTotals
    from .config import TextLoaderConfig
    from .planning.epoch import TextEpoch, TokenSlices
    from .planning.schedule import TextSchedule
    from .token_reader import PayloadLocations

__all__ = ["TextBatchProducer"]


class _BatchInFlight(NamedTuple):
    """A batch that was started and not finished; ``step`` is its number in the epoch, ``mask`` (n,) bool."""

    step: int

    batch: Batch
    mask: npt.NDArray[np.bool_]
    slices: TokenSlices
    locations: PayloadLocations


class TextBatchProducer:
    """The :class:`~stoker.pipeline.execution.prefetch.BatchProducer` of one epoch's batches of text.

    Args:
        config: Config of the loader, whose reader all epochs share.
        schedule: The steps to run, on this rank.
        epoch: Draws of the epoch.
        adapter: Makes arrays of the framework.
        totals: Adds up where the time goes.
        cache_prefetcher: Fetches remote bytes ahead; None if all are on this machine.
    """

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
    ) -> None:
        self._config = config
        self._schedule = schedule
        self._epoch = epoch
        self._adapter = adapter
        self._totals = totals
        self._most = config.segments
        self._next = 0
        self._in_flight: deque[_BatchInFlight] = deque()
        self._cached_epoch = (
            cache_prefetcher.begin(lambda: _reads_of_batches(config, schedule, epoch))
            if cache_prefetcher
            else None
        )

    def start(self) -> bool:
        """Decide the next batch and have its bytes read ahead."""
        if self._next == len(self._schedule):
            return False
        stages = self._totals.worker
        with stages.stage("planning"):
            batch, mask = self._schedule.batch(self._next)
            slices = self._schedule.slices(self._epoch, batch, self._next)
            if self._cached_epoch:
                with stages.stage("fetching"):
                    self._cached_epoch.wait()
            locations = self._config.reader.locate(slices.positions)
            self._config.reader.will_need(slices, locations)
            self._in_flight.append(
                _BatchInFlight(self._schedule.number(self._next), batch, mask, slices, locations)
            )
            self._next += 1
        return True

    def finish(self) -> FinishedBatch:
        """Read the oldest batch, and assemble it."""
        oldest = self._in_flight.popleft()
        stages = self._totals.worker
        with stages.stage("executing"):
            arrays = self._arrays(oldest)
        stream = self._adapter.copy_stream
        with stages.stage("handing over"), stream or contextlib.nullcontext():
            batch = self._config.batch_type(
                *(self._column(arrays, oldest, name) for name in self._config.columns)
            )
        ready = stream.ready(batch) if stream else None
        return FinishedBatch(batch, len(oldest.batch.rows), ready=ready)

    def _arrays(self, oldest: _BatchInFlight) -> Mapping[str, Any]:
        """Read a batch, and make its arrays; rows that are only padded are padded as they are read."""
        reader, maker, slices = self._config.reader, self._config.maker, oldest.slices
        widths = oldest.batch.shape[1:]
        direct = maker.fill is not None and slices.groups is None and not reader.marks_trained
        if direct and len(widths) == slices.lengths.shape[1] and (slices.lengths <= widths).all():
            assert maker.fill is not None, "as direct says"
            padded = reader.read_padded(slices, oldest.locations, widths, maker.fill)
            self._release()
            return maker.of_padded(padded)
        sequences = reader.read(slices, oldest.locations)
        self._release()
        return maker(sequences, slices.groups, oldest.batch.shape, self._context(oldest))

    def _release(self) -> None:
        if self._cached_epoch:
            self._cached_epoch.release()

    def _context(self, oldest: _BatchInFlight) -> BatchContext:
        slices = oldest.slices
        return BatchContext(
            self._schedule.plan.epoch,
            oldest.step,
            rows=slices.positions,
            begins=slices.begins,
            draws=slices.draws,
            seed=self._config.planner.batching.seed,
        )

    def _column(self, arrays: Mapping[str, Any], oldest: _BatchInFlight, name: str) -> Any:
        if name in arrays:
            value = arrays[name]
        elif name == "mask":
            value = oldest.mask
        elif name == "begins" and oldest.slices.opens is not None:
            value = document_begins(oldest.slices)
        elif name == "row":
            value = self._rows(oldest.slices)
        else:
            value = batched_values(self._config.dataset, name, oldest.slices.positions)
        # A number, such as max_seqlen, is an argument of a GPU kernel and stays one.
        return value if isinstance(value, int) else self._adapter.column(value)

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
        slices = schedule.slices(epoch, schedule.batch(step)[0], step)
        rows = config.rows[slices.positions]
        if reader.reads_slices:
            bounds = reader.byte_slices(slices, reader.locate(slices.positions), earlier)
            earlier[slices.positions] = True
            yield BatchReads(rows, bounds)
        else:
            yield BatchReads(rows)
