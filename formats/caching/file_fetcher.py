"""Fetching of whole remote files, each compared with its digest; :mod:`.stage` and opened datasets use it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from stoker.errors import StorageError

from ..concurrency.task_group import TaskGroup
from ..files.publishing import move_durably, sync, sync_folder
from ..files.reading import file_digest
from .block_files import BlockFiles
from .remote_dataset import FileReader, RemoteFile

_REQUEST_BYTES = 8 << 20
_DIGEST_TRIES = 3
_FILES_AHEAD = 4  # files in flight, however many requests they need


def is_whole(path: Path, file: RemoteFile) -> bool:
    """Return whether a file is at its final path, which only checked files get, and has its size."""
    return path.is_file() and path.stat().st_size == file.size


class FileFetcher:
    """Fetches files of a dataset with concurrent requests, and checks them."""

    def __init__(self, files: Sequence[RemoteFile], target: Path, state: Path, stop: threading.Event) -> None:
        self._read = FileReader(files, stop)
        self._target = target
        self._stop = stop
        self._files = files
        self._size = sum(file.size for file in files)
        for file in files:
            (state / file.name).parent.mkdir(parents=True, exist_ok=True)
            (target / file.name).parent.mkdir(parents=True, exist_ok=True)
        self._blocks = BlockFiles(state, [file.name for file in files], [file.size for file in files])
        self._progress: Callable[[int, int], None] = lambda done, total: None
        self._guard = threading.Lock()
        self._done = 0
        self.fetched = 0
        self.repeated = 0

    def run(self, connections: int, progress: Callable[[int, int], None] | None = None) -> None:
        """Fetch and check; ``progress`` is called with the bytes done and the bytes in all."""
        self._progress = progress or self._progress
        with (
            ThreadPoolExecutor(connections, thread_name_prefix="stoker-stage") as fetchers,
            ThreadPoolExecutor(2, thread_name_prefix="stoker-check") as checkers,
        ):
            try:
                self._fetch_all(fetchers, checkers, connections)
            except BaseException:
                self._stop.set()
                for pool in (fetchers, checkers):
                    pool.shutdown(wait=True, cancel_futures=True)
                raise
            finally:
                self._blocks.close()

    def _fetch_all(
        self, fetchers: ThreadPoolExecutor, checkers: ThreadPoolExecutor, connections: int
    ) -> None:
        """Keep requests for the next files queued while earlier files are fetched and checked."""
        fetching: deque[tuple[int, TaskGroup]] = deque()
        checking = TaskGroup(checkers)
        requests = 0
        for number, file in enumerate(self._files):
            if is_whole(self._target / file.name, file):
                self._done += file.size
                continue
            fetching.append((number, self._request(number, fetchers)))
            requests += fetching[-1][1].left
            while requests > 2 * connections and len(fetching) > _FILES_AHEAD:
                requests -= self._check_oldest(fetching, checking)
        while fetching:
            self._check_oldest(fetching, checking)
        self._wait(checking)

    def _request(self, number: int, pool: ThreadPoolExecutor) -> TaskGroup:
        blocks = self._blocks.of_file(number)
        missing = self._blocks.missing(blocks)
        with self._guard:
            self._done += (len(blocks) - len(missing)) * self._blocks.block_bytes
        requests = TaskGroup(pool)
        for run in self._blocks.runs(missing, _REQUEST_BYTES):
            requests.start(partial(self._fill, *run))
        return requests

    def _fill(self, low: int, high: int) -> None:
        size = self._blocks.fill(low, high, self._read)
        with self._guard:
            self.fetched += size
            self._done += size

    def _check_oldest(self, fetching: deque[tuple[int, TaskGroup]], checking: TaskGroup) -> int:
        """Wait for the requests of the oldest file, start its check, and return the number of requests."""
        number, requests = fetching.popleft()
        count = requests.left
        self._wait(requests)
        checking.start(partial(self._check_and_move, number))
        return count

    def _wait(self, tasks: TaskGroup) -> None:
        tasks.wait(lambda: self._progress(min(self._done, self._size), self._size))

    def _check_and_move(self, number: int) -> None:
        """Compare a file with its digest, fetch it again where they differ, and move it to the target."""
        file = self._files[number]
        path = self._blocks.paths[number]
        for _ in range(_DIGEST_TRIES - 1):
            if file.digest in (None, file_digest(path)):
                break
            self._blocks.forget(number)
            with self._guard:
                self.repeated += 1
                self._done -= file.size
            for run in self._blocks.runs(self._blocks.of_file(number), _REQUEST_BYTES):
                self._fill(*run)
        else:
            if file_digest(path) != file.digest:
                self._blocks.forget(number)
                raise _damaged(file)
        sync(path)
        move_durably(path, self._target / file.name)
        sync_folder((self._target / file.name).parent)


def _damaged(file: RemoteFile) -> StorageError:
    return StorageError(
        f"the file arrives damaged, {_DIGEST_TRIES} times: its digest is not the one in the manifest",
        path=file.url,
        shard=file.shard,
        hint="the remote file is damaged or was replaced: run stoker verify where it lies, then restore it",
    )
