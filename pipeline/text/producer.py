"""The stage of a text loader: read a batch's sequences, make arrays of them, hand them over."""

from __future__ import annotations

import contextlib
import json
from collections import deque
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from stoker.bucketing import Flatten, Packed
from stoker.errors import ConfigError

from ..execution.batch import FinishedBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy as np
    import numpy.typing as npt

    from stoker.bucketing import Batch, Batchify, Ragged

    from ..adapters import Adapter
    from ..caching.cache_prefetcher import CachePrefetcher
    from ..execution.stats import StatsTotals
    from ..order.sample_source import SampleSource
    from .epoch import TextEpoch, TextSchedule, TokenSlices
    from .planner import TextPlanner
    from .token_reader import PayloadLocations, TokenReader

__all__ = ["TextBatchProducer", "TextLoaderConfig", "assemble"]


@dataclass(frozen=True)
class TextLoaderConfig:
    """What a loader makes of sequences, the same in every epoch.

    Attributes:
        dataset: What is drawn from.
        reader: Reads token ids.
        planner: Decides which sequences form a batch.
        batchify: Makes arrays of sequences.
        columns: Names of a batch's columns, in their order.
        batch: Makes the batch of its columns' values.
    """

    dataset: SampleSource
    reader: TokenReader
    planner: TextPlanner
    batchify: Batchify
    columns: tuple[str, ...]
    batch: Callable[..., Any]

    @cached_property
    def rows(self) -> npt.NDArray[np.int64]:
        """(N,) int64, the row in the index of every sample."""
        return self.dataset.rows

    @property
    def identity(self) -> dict[str, Any]:
        """What decides the batches, as JSON leaves it."""
        planner = self.planner
        edges = planner.boundaries
        identity = {
            "dataset": self.dataset.fingerprint,
            "fields": self.reader.fields,
            "order": None if planner.takes_all else repr(planner.order),
            "boundaries": None if edges is None else edges.tolist(),
            **{name: value for name, value in vars(planner.batching).items() if name != "buckets"},
            "batch_sampler": planner.batching.batch_sampler and planner.epoch(0).sampler.fingerprint,
        }
        return cast("dict[str, Any]", json.loads(json.dumps(identity)))


def assemble(
    batchify: Batchify,
    fields: tuple[str, ...],
    sequences: list[Ragged],
    slices: TokenSlices,
    shape: tuple[int, ...],
) -> Mapping[str, Any]:
    """Sequences into arrays by name.

    Args:
        batchify: Takes the sequences of one field, packed rows, or a dict with the sequences of each.
        fields: Names of the fields.
        sequences: Of each field.
        slices: What they are.
        shape: (n, length), or (n, length, length, ...) for several fields.

    Raises:
        ConfigError: What it makes is no dict.
    """
    samples: Any = dict(zip(fields, sequences, strict=True))
    length: Any = dict(zip(fields, shape[1:], strict=True))
    if len(fields) == 1:
        samples, length = sequences[0], shape[1]
        if slices.groups is not None:
            samples = Packed(samples, slices.groups)
        elif isinstance(batchify, Flatten):
            length = shape[0] * length  # as many tokens as the padded batch has: one shape for each of its
    made = batchify(samples, length)
    if not isinstance(made, dict):
        raise ConfigError(
            f"batchify must make a dict of arrays, found {type(made).__name__}",
            hint="Wrap it: Dict({'tokens': Stack()}).",
        )
    return made


class _BatchInFlight(NamedTuple):
    """A batch that is in flight."""

    batch: Batch
    mask: npt.NDArray[np.bool_]
    slices: TokenSlices
    locations: PayloadLocations


class TextBatchProducer:
    """The :class:`~stoker.pipeline.execution.prefetch.BatchProducer` of one epoch's batches."""

    max_in_flight = 2  # while one is made, the kernel reads the next

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
        self._next = 0
        self._in_flight: deque[_BatchInFlight] = deque()
        self._cached_epoch = (
            cache_prefetcher.begin(lambda: _rows(config, schedule, epoch)) if cache_prefetcher else None
        )

    def start(self) -> bool:
        """Decide the next batch and have its bytes read ahead."""
        if self._next == len(self._schedule):
            return False
        began = perf_counter()
        batch, mask = self._schedule.batch(self._next)
        slices = self._epoch.token_slices(batch.rows)
        fetching = 0.0
        if self._cached_epoch:
            asked = perf_counter()
            self._cached_epoch.wait()
            fetching = perf_counter() - asked
        locations = self._config.reader.locate(slices.positions)
        self._config.reader.will_need(locations)
        self._in_flight.append(_BatchInFlight(batch, mask, slices, locations))
        self._next += 1
        self._totals.fetching += fetching
        self._totals.planning += perf_counter() - began - fetching
        return True

    def finish(self) -> FinishedBatch:
        """Make the oldest batch and hand it over."""
        planned = self._in_flight.popleft()
        began = perf_counter()
        reader = self._config.reader
        sequences = reader.read(planned.slices, planned.locations)
        if self._cached_epoch:
            self._cached_epoch.release()
        shape = planned.batch.shape
        arrays = assemble(self._config.batchify, reader.fields, sequences, planned.slices, shape)
        made = perf_counter()
        self._totals.executing += made - began
        stream = self._adapter.copy_stream
        with stream or contextlib.nullcontext():
            batch = self._config.batch(
                *(self._hand_over(arrays, planned, name) for name in self._config.columns)
            )
        ready = stream.ready(batch) if stream else None
        self._totals.handing_over += perf_counter() - made
        return FinishedBatch(batch, len(planned.batch.rows), ready=ready)

    def _hand_over(self, arrays: Mapping[str, Any], planned: _BatchInFlight, name: str) -> Any:
        if name in arrays:
            value = arrays[name]
        elif name == "mask":
            value = planned.mask
        elif name == "row":
            value = self._config.rows[planned.slices.positions]
        elif name == "key":
            value = self._config.dataset.keys(planned.slices.positions)
        else:
            value = self._config.dataset.values(name, planned.slices.positions)
        # A length such as max_seqlen is an argument of a kernel, not an array.
        return value if isinstance(value, int) else self._adapter.column(value)


def _rows(
    config: TextLoaderConfig, schedule: TextSchedule, epoch: TextEpoch
) -> Iterator[npt.NDArray[np.int64]]:
    """What each batch reads, as rows of the index."""
    for step in range(len(schedule)):
        yield config.rows[epoch.token_slices(schedule.batch(step)[0].rows).positions]
