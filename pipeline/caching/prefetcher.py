"""Fetching from remote datasets ahead of a loader, while it works on earlier batches.

A loader of a remote dataset has a :class:`CachePrefetcher`, and waits for each batch of a
:class:`CachedEpoch`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from stoker.formats.remote.block_files import BlockFiles
from stoker.formats.remote.cached_dataset import CachedDataset, PartChecksums
from stoker.formats.remote.retry import retries
from stoker.processes import Cleanup

from ..execution.stats import Counters
from ..execution.threads import OneShotEvent, WorkerThread
from ..order.sampling import SampleSource
from .next_use import NextUse, PlannedDraws, make_next_use
from .read_ahead import BatchReads, BlockRequests, CacheHandle, CacheReadAhead

Int64 = npt.NDArray[np.int64]

_PATIENCE = 5.0  # seconds that ending a pass waits for its threads


class CachePrefetcher:
    """Fetching from remote datasets ahead of one loader."""

    def __init__(
        self,
        source: SampleSource,
        draws: PlannedDraws | None = None,
        *,
        connections: int = 64,
        ahead: int = 1 << 30,
    ) -> None:
        self._earlier_retries = retries()
        self._ends = np.cumsum([len(dataset.index) for dataset in source.datasets])
        datasets = enumerate(source.datasets)
        cached = {number: dataset for number, dataset in datasets if isinstance(dataset, CachedDataset)}
        self._ahead = ahead // len(cached)
        starts = [0, *self._ends.tolist()]
        self._handles = {
            number: _open_cache(dataset, max(1, connections // len(cached)), draws, starts[number])
            for number, dataset in cached.items()
        }
        self._cleanup = Cleanup(self, _release, list(self._handles.values()))
        self._epochs: weakref.WeakSet[CachedEpoch] = weakref.WeakSet()

    def begin(self, batches: Callable[[], Iterable[BatchReads]]) -> CachedEpoch:
        read_aheads = [
            CacheReadAhead(handle, _reads_of(batches(), number, self._ends), ahead=self._ahead)
            for number, handle in self._handles.items()
        ]
        epoch = CachedEpoch(read_aheads)
        self._epochs.add(epoch)  # before its threads start: an interrupt may come in between
        epoch.start()
        return epoch

    def counters(self) -> Counters:
        handles = self._handles.values()
        return Counters(
            bytes_fetched=sum(one.files.blocks.bytes_fetched for one in handles),
            retries=retries() - self._earlier_retries,
            cache_hits=sum(one.requests.hits for one in handles),
            cache_misses=sum(one.requests.misses for one in handles),
            bytes_evicted=sum(one.files.blocks.bytes_evicted for one in handles),
        )

    def close(self) -> None:
        """End all fetching and keep the fetched blocks. A second call completes an interrupted one."""
        for epoch in list(self._epochs):
            epoch.close()
        self._cleanup()


def _open_cache(
    dataset: CachedDataset, connections: int, draws: PlannedDraws | None, start: int
) -> CacheHandle:
    stop = OneShotEvent()
    files = dataset.open_files(stop)
    next_use = _next_use(dataset, files.blocks, draws, start)
    never = 0 if next_use is None else np.iinfo(np.int64).min
    last_use = np.full(int(files.blocks.first[-1]), never, np.int64)
    make_room = partial(files.blocks.evict, last_use=last_use)
    requests = BlockRequests(files.blocks, files.fetch, connections, stop, make_room)
    return CacheHandle(dataset, files, requests, last_use, PartChecksums(files.blocks), next_use)


def _next_use(
    dataset: CachedDataset, blocks: BlockFiles, draws: PlannedDraws | None, start: int
) -> NextUse | None:
    """The next uses of the blocks of a cache with a limit; None where samples have several payloads."""
    has_several = "mask_offset" in dataset.index.types or dataset.arrays
    if draws is None or dataset.limit is None or has_several:
        return None
    shard, offset, length = (
        dataset.index.column(name).astype(np.int64) for name in ("shard", "offset", "length")
    )
    base = blocks.first[shard]
    first, end = offset // blocks.block_bytes, offset + np.maximum(length, 1) - 1
    return make_next_use(draws, base + first, base + end // blocks.block_bytes, start)


def _reads_of(batches: Iterable[BatchReads], number: int, ends: Int64) -> Iterator[BatchReads]:
    """Yield the reads of each batch from dataset ``number``, with the rows of its own index."""
    start = int(ends[number - 1]) if number else 0
    for rows, slices, moment in batches:
        of_dataset = (rows >= start) & (rows < ends[number])
        yield BatchReads(rows[of_dataset] - start, None if slices is None else slices[of_dataset], moment)


def _release(handles: Sequence[CacheHandle]) -> None:
    for handle in handles:
        handle.requests.close()
        handle.files.blocks.close()


class CachedEpoch:
    """The batches of one pass, in order: the producer waits for each, reads it and releases it."""

    def __init__(self, read_aheads: Sequence[CacheReadAhead]) -> None:
        self._read_aheads = read_aheads
        self._workers = [WorkerThread(one.run, one.end, "read-ahead") for one in read_aheads]
        self._cleanup = Cleanup(self, _end, read_aheads, self._workers)

    def start(self) -> None:
        for worker in self._workers:
            worker.start()

    def wait(self) -> None:
        """Wait until the next batch can be read."""
        for one in self._read_aheads:
            one.wait()

    def release(self) -> None:
        """Release the oldest batch that was waited for, after its reading."""
        for one in self._read_aheads:
            one.release()

    def close(self) -> None:
        """Fetch nothing more. A second call completes an interrupted one."""
        self._cleanup()


def _end(read_aheads: Sequence[CacheReadAhead], workers: Sequence[WorkerThread]) -> None:
    for one in read_aheads:
        one.end()
    for worker in workers:
        worker.end(_PATIENCE)
