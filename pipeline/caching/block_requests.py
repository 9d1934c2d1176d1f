"""Blocks on their way: each is asked for once, a bounded number of requests at a time."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING

from stoker.formats.caching.cached_dataset import cache_errors

from ..execution.threads import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from stoker.formats.caching.block_files import BlockFiles, Blocks

__all__ = ["Request", "Requests"]

_REQUEST_BYTES = 8 << 20
# Seconds that the interpreter's end waits for threads. What they read by fsspec's asynchronous storages ends
# at once when it is told to; others answer, or have the process end while they wait.
_PATIENCE = 2.0


class Request(Future[int]):
    """Blocks on their way; its result is bytes fetched.

    Attributes:
        is_wanted: To be cleared by who gives it up, in any thread at any moment: what has not been begun is
            then cancelled. ``cancel`` has a lock that is taken in Python: Ctrl-C might come between taking
            it and being sure to give it back.
    """

    is_wanted = True


_Job = tuple[Request, int, int]


class Requests:
    """Fetches blocks on threads of its own.

    Args:
        files: What the blocks belong to.
        read: Of file, first byte and last byte + 1: those bytes.
        connections: Requests at the same time.
        stop: Set to have ``read`` return soon.
    """

    def __init__(
        self,
        files: BlockFiles,
        read: Callable[[int, int, int], bytes],
        connections: int,
        stop: threading.Event,
    ) -> None:
        self._files = files
        self._read = read
        self._connections = connections
        self._stop = stop
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._running: dict[int, Request] = {}
        self._guard = threading.Lock()
        self._threads = 0

    @property
    def coming_bytes(self) -> int:
        """Bytes of the blocks that are on their way, the last ones of files counted whole."""
        return len(self._running) * self._files.block_bytes

    def request(self, blocks: Blocks) -> dict[int, Request]:
        """Have blocks fetched that are not here, in long requests where they are neighbours.

        Args:
            blocks: (M,) int64, ascending; pinned, so that nobody evicts them meanwhile.

        Returns:
            For each block that is on its way, what ends when it is here.
        """
        with self._guard:
            self._start()
            missing = self._files.missing(blocks)
            new = missing[[block not in self._running for block in missing.tolist()]]
            for low, high in self._files.runs(new, _REQUEST_BYTES):
                request = Request()
                self._running.update(dict.fromkeys(range(low, high), request))
                self._jobs.put((request, low, high))
            return {block: self._running[block] for block in missing.tolist() if block in self._running}

    def close(self) -> None:
        """Start no more requests, and give up those that are under way.

        It takes no lock: the collector of garbage may call this where any is held.
        """
        self._stop.set()
        for _ in range(self._connections):
            self._jobs.put(None)

    def _start(self) -> None:
        while self._threads < self._connections:
            Worker(self._work, self.close, "fetch", patience=_PATIENCE).start()
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
                    fetched = self._files.fill(low, high, self._read) if is_wanted else 0
            except BaseException as caught:  # whatever it is, who waits must hear of it
                error = caught
            with self._guard:
                for block in range(low, high):
                    del self._running[block]
            if is_wanted and error is None:
                request.set_result(fetched)
            elif is_wanted:
                request.set_exception(error)
            del job, request, error  # whose traceback holds who waited, for as long as this thread idles
