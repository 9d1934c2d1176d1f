"""Requests for blocks of remote files: each block once, and a limited number at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

import numpy as np
import numpy.typing as npt

from stoker.formats.remote.block_files import BlockFiles
from stoker.formats.remote.cached_dataset import cache_errors

from ..execution.threads import WorkerThread

_REQUEST_BYTES = 8 << 20
# Seconds that the end of the interpreter waits for the threads. Reads from fsspec's asynchronous storages end
# at once when ``stop`` is set. A thread that waits for another storage longer than this is left behind.
_PATIENCE = 2.0


class BlockRequest(Future[int]):
    """A request for neighbouring blocks; its result is the number of bytes fetched."""

    is_wanted = True


_Job = tuple[BlockRequest, int, int]


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
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._running: dict[int, BlockRequest] = {}
        self._guard = threading.Lock()
        self._threads = 0
        self.hits = self.misses = 0

    @property
    def coming_bytes(self) -> int:
        """Bytes of the blocks in flight; the last block of a file counts as a whole one."""
        return len(self._running) * self._files.block_bytes

    def request(self, blocks: npt.NDArray[np.int64]) -> dict[int, BlockRequest]:
        """Request the blocks that are missing; neighbours share a request."""
        # blocks (M,) int64
        with self._guard:
            self._start()
            missing = self._files.missing(blocks)
            self.misses += len(missing)
            self.hits += len(blocks) - len(missing)
            new = missing[[block not in self._running for block in missing.tolist()]]
            for low, high in self._files.runs(new, _REQUEST_BYTES):
                request = BlockRequest()
                self._running.update(dict.fromkeys(range(low, high), request))
                self._jobs.put((request, low, high))
            return {block: self._running[block] for block in missing.tolist() if block in self._running}

    def close(self) -> None:
        """Start no more requests, and end those in flight.

        The method takes no lock: the garbage collector can call it in a thread that holds one.
        """
        self._stop.set()
        for _ in range(self._connections):
            self._jobs.put(None)

    def _start(self) -> None:
        while self._threads < self._connections:
            WorkerThread(self._work, self.close, "fetch", patience=_PATIENCE).start()
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
