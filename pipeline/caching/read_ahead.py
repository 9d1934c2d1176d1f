"""Fetching from remote datasets ahead of a loader, while it works on earlier batches.

A loader of remote datasets has a :class:`CachePrefetcher`, and waits for the batches of a
:class:`CachedEpoch`. For each dataset a thread runs a :class:`CacheReadAhead`. It fetches one batch first,
then more and more at once, so that neighbouring blocks share longer requests. Each payload, or the part of a
long one that a batch reads, is compared with its checksum, and fetched again if it differs. When the cache
exceeds its size, or the disk is full, blocks that the pass no longer needs are evicted.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, wait
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.errors import CorruptRecordError, LoaderClosedError
from stoker.formats.remote.block_files import BlockFiles
from stoker.formats.remote.cached_dataset import (
    CachedDataset,
    PartChecksums,
    Ranges,
    cache_errors,
)
from stoker.formats.remote.store import StoppedError, retries
from stoker.log import EventLog
from stoker.processes import Cleanup

from ..execution.stats import Counters
from ..execution.threads import OneShotEvent, WorkerThread, stopping
from ..order.sampling import SampleSource
from .next_use import NextUse, PlannedDraws, make_next_use

Int64 = npt.NDArray[np.int64]

_LOG = EventLog("storage")
_GROUP_BYTES = 32 << 20
_GROUP_BATCHES = 64
_EVICTION_PARTS = 16  # 1/16 of the cache is evicted at a time
_SILENCE = 10.0  # seconds that a batch waits before each message
_POLL = 0.05  # seconds between two checks whether the loader is being stopped
# Seconds that the end of the interpreter waits for the threads. Reads from fsspec's asynchronous storages end
# at once when ``stop`` is set. A thread that waits for another storage longer than this is left behind.
_FETCH_PATIENCE = 2.0
_PATIENCE = 5.0  # seconds that ending a pass waits for its threads


class BlockRequest(Future[int]):
    """A request for neighbouring blocks; its result is the number of bytes fetched."""

    is_wanted = True


class BlockRequests:
    """A queue of requests for blocks, with the threads that fetch them."""

    def __init__(
        self,
        files: BlockFiles,
        read: Callable[[int, int, int], bytes],
        connections: int,
        stop: threading.Event,
        make_room: Callable[[int], int] | None = None,
    ) -> None:
        self._files = files
        self._read = read
        self._connections = connections
        self._stop = stop
        self._make_room = make_room
        self._jobs: SimpleQueue[tuple[BlockRequest, int, int] | None] = SimpleQueue()
        self._running: dict[int, BlockRequest] = {}
        self._guard = threading.Lock()
        self._threads = 0
        self.hits = self.misses = 0

    @property
    def coming_bytes(self) -> int:
        """Bytes of the blocks in flight; the last block of a file counts as a whole one."""
        return len(self._running) * self._files.block_bytes

    def request(self, blocks: Int64) -> dict[int, BlockRequest]:
        """Request the blocks that are missing; neighbours share a request."""
        # blocks (M,) int64
        with self._guard:
            self._start()
            missing = self._files.missing(blocks)
            self.misses += len(missing)
            self.hits += len(blocks) - len(missing)
            new = missing[[block not in self._running for block in missing.tolist()]]
            for low, high in self._files.runs(new):
                request = BlockRequest()
                self._running.update(dict.fromkeys(range(low, high), request))
                self._jobs.put((request, low, high))
            return {block: self._running[block] for block in missing.tolist() if block in self._running}

    def close(self) -> None:
        """Start no more requests, and end those in flight."""
        # The method takes no lock: the garbage collector can call it in a thread that holds one.
        self._stop.set()
        for _ in range(self._connections):
            self._jobs.put(None)

    def _start(self) -> None:
        while self._threads < self._connections:
            WorkerThread(self._work, self.close, "fetch", patience=_FETCH_PATIENCE).start()
            self._threads += 1

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            request, low, high = job
            if self._stop.is_set() or not request.is_wanted:
                request.cancel()
            is_wanted = request.set_running_or_notify_cancel()
            error: BaseException | None = None
            fetched = 0
            try:
                with cache_errors(self._files.folder):
                    if is_wanted:
                        fetched = self._files.fill(low, high, self._read, make_room=self._make_room)
            except BaseException as caught:  # the waiting thread raises it, whatever it is
                error = caught
            with self._guard:
                for block in range(low, high):
                    del self._running[block]
            if is_wanted and error is None:
                request.set_result(fetched)
            elif is_wanted:
                request.set_exception(error)
            # The error's traceback would keep the waiting loader alive while this thread idles.
            del job, request, error


class BatchReads(NamedTuple):
    rows: Int64  # (N,) int64, the index row of each payload
    # (N, 2) int64, the bytes that are read of each payload: the first, and the one after the last
    slices: Int64 | None = None
    # The last moment of the batch on any rank, counted over all epochs; see :class:`PlannedDraws`
    moment: int | None = None


class CacheHandle:
    """A remote dataset, its cached files and the requests of one loader."""

    def __init__(
        self, dataset: CachedDataset, connections: int, draws: PlannedDraws | None, start: int
    ) -> None:
        self.dataset = dataset
        stop = OneShotEvent()
        self.files = dataset.open_files(stop)
        blocks = self.files.blocks
        self.next_use = _next_use(dataset, blocks, draws, start)
        never = 0 if self.next_use is None else np.iinfo(np.int64).min
        # (B,) int64, last use of every block in nanoseconds of the monotonic clock, or minus the next use
        self.last_use = np.full(int(blocks.first[-1]), never, np.int64)
        make_room = partial(blocks.evict, last_use=self.last_use)
        self.requests = BlockRequests(blocks, self.files.fetch, connections, stop, make_room)
        self.part_checksums = PartChecksums(blocks)

    def used(self, blocks: Int64, moment: int | None) -> None:
        if self.next_use is not None and moment is not None:
            self.last_use[blocks] = -self.next_use.after(blocks, moment)
        else:
            self.last_use[blocks] = time.monotonic_ns()


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


@dataclass(eq=False)
class PlannedReads:
    """The payloads and parts that are fetched for a batch."""

    ranges: Ranges  # Payloads that the batch reads whole
    parts: Ranges | None  # Parts of other payloads, without checksums; None if it reads all payloads whole
    part_rows: Int64 | None  # (M,) int64, the row of each part
    blocks: Int64  # Blocks of all of these
    moment: int | None  # See :class:`BatchReads`
    requests: set[BlockRequest] = field(default_factory=set)  # Requests in flight for the blocks


def plan_batch(cache: CacheHandle, reads: BatchReads) -> PlannedReads:
    """Find the ranges and the blocks that a batch reads."""
    dataset, files, rows = cache.dataset, cache.files.blocks, reads.rows
    if reads.slices is None:
        ranges = dataset.ranges(rows)
        blocks = files.covering(ranges.shard, ranges.offset, ranges.length)
        return PlannedReads(ranges, None, None, blocks, reads.moment)
    sizes = reads.slices[:, 1] - reads.slices[:, 0]
    lengths = dataset.index.column("length")[rows]
    in_parts = (lengths > files.block_bytes) & (sizes < lengths)
    ranges = dataset.ranges(np.unique(rows[~in_parts]))
    parts, payload = cache.part_checksums.parts(dataset.ranges(rows[in_parts]), reads.slices[in_parts])
    spans = (np.concatenate(columns) for columns in zip(ranges[:3], parts[:3], strict=True))
    return PlannedReads(ranges, parts, rows[in_parts][payload], files.covering(*spans), reads.moment)


class CacheReadAhead:
    """The read-ahead of one dataset for one pass; its thread and the loader share it."""

    def __init__(self, cache: CacheHandle, batches: Iterable[BatchReads], *, ahead: int) -> None:
        self._cache = cache
        self._files = cache.files.blocks
        self._requests = cache.requests
        limit, room = cache.dataset.limit, self._files.present_bytes + self._files.free_bytes
        self._window = min(ahead, (room if limit is None else min(room, limit)) // 2)
        self._batches = iter(batches)
        # An RLock, because the garbage collector can call end() in a thread that holds it. Methods take it
        # and not the condition: an interrupt inside the condition's Python code could leave it taken.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._ready: deque[PlannedReads] = deque()  # fetched, or being fetched
        self._taken: deque[PlannedReads] = deque()  # the loader reads them
        self._held = 0  # bytes of the blocks in both queues
        self._wanted = False  # whether the loader waits for a batch, and none is ready
        self._stopped = False
        self._error: BaseException | None = None
        self._ended = False

    def run(self) -> None:
        try:
            for group in self._groups():
                self._fetch(group)
        except StoppedError:
            pass
        except BaseException as error:  # the loader raises it, whatever it is
            self._error = error
        with self._lock:
            self._ended = True
            self._changed.notify_all()

    def _groups(self) -> Iterator[list[PlannedReads]]:
        """Yield groups of batches that are fetched together: one batch, two, four, ..."""
        most = min(_GROUP_BYTES, self._window // 4)
        count = 1
        while True:
            group: list[PlannedReads] = []
            size = 0
            for reads in islice(self._batches, count):
                group.append(plan_batch(self._cache, reads))
                size += len(group[-1].blocks) * self._files.block_bytes
                if size > most:
                    break
            if not group:
                return
            yield group
            count = min(2 * count, _GROUP_BATCHES)

    def _fetch(self, group: list[PlannedReads]) -> None:
        with self._lock:
            self._wait_while(lambda: self._held >= self._window and not self._wanted)
        blocks = np.unique(np.concatenate([batch.blocks for batch in group]))
        for batch in group:
            self._files.pin(batch.blocks)
        try:
            self._make_room(blocks)
            running = self._requests.request(blocks)
        except BaseException:
            for batch in group:
                self._files.unpin(batch.blocks)
            raise
        with self._lock:
            for batch in group:
                batch.requests = {running[block] for block in batch.blocks.tolist() if block in running}
                self._held += len(batch.blocks) * self._files.block_bytes
            self._ready.extend(group)
            self._wanted = False
            self._changed.notify_all()
            if self._stopped:
                self._unpin_all()

    def _make_room(self, blocks: Int64) -> None:
        """Evict blocks that the pass no longer needs; wait for more unless the loader itself waits."""
        if self._files.is_read_only:
            return

        def is_full() -> bool:
            # In this order a block that arrives in between counts twice; in the other order it would not
            # count.
            need = len(self._files.missing(blocks)) * self._files.block_bytes
            coming = self._requests.coming_bytes
            limit, present = self._files.largest_limit, self._files.present_bytes
            most = present + self._files.free_bytes  # what the disk has room for
            most = most if limit is None else min(most, limit)
            excess = present + coming + need - most
            if excess <= 0:
                return False
            at_once = max(excess, most // _EVICTION_PARTS)
            return self._files.evict(at_once, self._cache.last_use) < excess and not self._wanted

        with self._lock:
            self._wait_while(is_full)

    def _wait_while(self, condition: Callable[[], bool]) -> None:
        while not self._stopped and condition():
            self._changed.wait(_POLL)
        if self._stopped:
            raise StoppedError

    def wait(self) -> None:
        batch = self._take()
        while True:
            self._wait_for(set(batch.requests))
            try:
                for request in batch.requests:
                    request.result()
                break
            except CancelledError:  # another pass that had requested the blocks has ended
                batch.requests = set(self._requests.request(batch.blocks).values())
        self._cache.files.check(batch.ranges)
        if batch.parts is None or batch.part_rows is None:
            return
        checksums = self._cache.part_checksums
        checksums.keep(batch.ranges)
        for number in self._cache.files.check(checksums.with_checksums(batch.parts)):
            dataset = self._cache.dataset
            raise dataset.error(
                int(np.flatnonzero(dataset.rows == batch.part_rows[number])[0]),
                "the payload does not match its checksum",
                CorruptRecordError,
                "stoker verify lists all bad samples; convert the source again.",
            )

    def _wait_for(self, pending: set[Future[int]]) -> None:
        """Wait until requests are done, and report a server that does not answer."""
        began, messages = time.monotonic(), 1
        while pending:
            pending = wait(pending, timeout=_POLL).not_done
            self._check_stopping()
            if pending and (waited := time.monotonic() - began) >= messages * _SILENCE:
                messages += 1
                url = self._cache.dataset.remote.store.url
                _LOG.warning(
                    "wait",
                    f"{url}: a batch has waited {waited:.0f} s for the storage, "
                    f"requests in flight: {len(pending)}",
                )

    def _take(self) -> PlannedReads:
        with self._lock:
            while not self._ready:
                if self._ended:
                    raise self._error or LoaderClosedError("the pass was ended")
                self._wanted = True
                self._changed.notify_all()
                self._changed.wait(_POLL)
                self._check_stopping()
            self._taken.append(self._ready.popleft())
            return self._taken[-1]

    def _check_stopping(self) -> None:
        if stopping():
            self.end()
        if self._stopped:
            raise LoaderClosedError("the pass was ended while it waited for the network")

    def release(self) -> None:
        with self._lock:
            if self._taken:
                batch = self._taken.popleft()
                self._cache.used(batch.blocks, batch.moment)
                self._unpin(batch)
                self._changed.notify_all()

    def end(self) -> None:
        with self._lock:
            self._stopped = True
            self._unpin_all()
            self._changed.notify_all()

    def _unpin(self, batch: PlannedReads) -> None:
        self._files.unpin(batch.blocks)
        self._held -= len(batch.blocks) * self._files.block_bytes

    def _unpin_all(self) -> None:
        for batch in self._ready:
            for request in batch.requests:
                request.is_wanted = False
        for batches in (self._ready, self._taken):
            while batches:
                self._unpin(batches.popleft())


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
            number: CacheHandle(dataset, max(1, connections // len(cached)), draws, starts[number])
            for number, dataset in cached.items()
        }
        self._cleanup = Cleanup(self, _release, list(self._handles.values()))
        self._epochs: weakref.WeakSet[CachedEpoch] = weakref.WeakSet()

    def begin(self, batches: Callable[[], Iterable[BatchReads]]) -> CachedEpoch:
        epoch = CachedEpoch(
            [
                CacheReadAhead(handle, _reads_of(batches(), number, self._ends), ahead=self._ahead)
                for number, handle in self._handles.items()
            ]
        )
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


def _reads_of(batches: Iterable[BatchReads], number: int, ends: Int64) -> Iterator[BatchReads]:
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
        for one in self._read_aheads:
            one.wait()

    def release(self) -> None:
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
