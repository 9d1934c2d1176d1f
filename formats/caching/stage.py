"""Staging: copying a remote dataset to a local disk, whole and checked."""

from __future__ import annotations

import shutil
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.arguments import check_progress
from stoker.errors import ConfigError, DatasetError, StorageError, WriteError

from ..concurrency.task_group import TaskGroup
from ..dataset.manifest import MANIFEST_NAME, Manifest
from ..files.byte_size import parse_byte_size
from ..files.publishing import folder_lock, move_durably, os_errors, remove, sync, sync_folder, write_durably
from ..files.reading import check_named, file_digest
from .block_files import BlockFiles
from .remote_dataset import FileReader, check_local, open_remote

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from .remote_dataset import RemoteDataset, RemoteFile

__all__ = ["FileFetcher", "StageSummary", "no_progress", "stage"]

_STATE_NAME = ".stoker-stage"
_PLAN = "fingerprint"
_REQUEST_BYTES = 8 << 20
_DIGEST_TRIES = 3
_FILES_AHEAD = 4  # beside those whose requests keep all connections busy


@dataclass(frozen=True)
class StageSummary:
    """The result of staging.

    Attributes:
        path: Folder of the dataset.
        bytes: Bytes of index and shards.
        fetched: Bytes that this call fetched; fewer than ``bytes`` after an interruption.
        seconds: Duration.
        bytes_per_second: Bandwidth: fetched bytes a second.
        repeated: Number of files that were fetched again because their digest was wrong.
    """

    path: Path
    bytes: int
    fetched: int
    seconds: float
    bytes_per_second: float
    repeated: int


def stage(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    *,
    limit: str | int | None = None,
    connections: int = 16,
    progress: Callable[[int, int], None] | None = None,
) -> StageSummary:
    """Copy a dataset to a local disk.

    Every file is compared with its digest in the manifest, and fetched again where they differ. If the call
    is killed, the same call resumes with the missing blocks. ``dst`` becomes a dataset, which
    :func:`stoker.open` reads, in the last moment. If the dataset is there already, files that are missing or
    have another size are fetched again.

    Args:
        src: URL of a dataset's folder (s3, gs, http, ... as fsspec knows them), or a path on a network
            file system.
        dst: Folder to write; made if missing.
        limit: Largest size of the dataset, such as ``200GB``; a larger one is refused.
        connections: Number of concurrent requests, of 8 MiB each.
        progress: Called a few times a second with the bytes that are done and the bytes in all.

    Raises:
        ConfigError: The dataset is larger than ``limit``, ``dst`` is a URL, or an option has a value that it
            cannot have.
        DatasetError: There is no dataset at ``src``, or another one in ``dst``.
        LockedError: Another process is writing into ``dst``.
        StorageError: A file cannot be read, or stays damaged; the error names its URL.
        WriteError: The disk is full or refuses a write.
    """
    check_progress(progress)
    check_named(source=src)
    check_local(target=dst)
    if connections < 1:
        raise ConfigError(f"connections must be at least 1, not {connections}")
    started = time.monotonic()
    stop = threading.Event()
    remote, target = open_remote(src, stop), Path(dst)
    _check_limit(remote, limit)
    with os_errors(target):
        target.mkdir(parents=True, exist_ok=True)
        with folder_lock(target):
            fetched, repeated = 0, 0
            if not _is_staged(remote, target):
                remove(target / MANIFEST_NAME)  # the copy is no longer whole
                state = _enter(remote, target)
                fetcher = FileFetcher((remote.index, *remote.shards), target, state, stop)
                fetcher.run(connections, progress or no_progress)
                for name, content in remote.small_files().items():
                    write_durably(target / name, content)
                write_durably(target / MANIFEST_NAME, remote.manifest.to_json().encode())
                fetched, repeated = fetcher.fetched, fetcher.repeated
            remove(target / _STATE_NAME)  # a killed process may have left it beside a whole copy
    seconds = time.monotonic() - started
    return StageSummary(target, remote.size, fetched, seconds, fetched / seconds, repeated)


def no_progress(done: int, total: int) -> None:
    """Ignore the progress: the default."""


def _check_limit(remote: RemoteDataset, limit: str | int | None) -> None:
    if limit is None or remote.size <= (most := parse_byte_size("limit", limit)):
        return
    left, fit = most - remote.index.size, 0
    for shard in remote.shards:
        left -= shard.size
        fit += left >= 0
    raise ConfigError(
        f"the dataset has {remote.size:,} bytes, more than the limit of {most:,}: "
        f"{fit} of its {len(remote.shards)} shards would fit",
        path=remote.store.url,
        hint="raise the limit, or cache the parts that a loader reads: cache= and cache_size=",
    )


def _is_staged(remote: RemoteDataset, target: Path) -> bool:
    """Whether the dataset has been staged already and its files still have their sizes."""
    if not (target / MANIFEST_NAME).exists():
        return False
    if Manifest.load(target).fingerprint != remote.manifest.fingerprint:
        raise DatasetError(
            "there is another dataset in the folder",
            path=target,
            hint="name another folder, or remove it",
        )
    return all(_is_whole(target / file.name, file) for file in (remote.index, *remote.shards))


def _is_whole(path: Path, file: RemoteFile) -> bool:
    """Whether a file exists, which means that it was checked, and still has its size."""
    return path.is_file() and path.stat().st_size == file.size


def _enter(remote: RemoteDataset, target: Path) -> Path:
    """Start or resume staging, after a check that the disk has room for the missing files."""
    state = target / _STATE_NAME
    plan = state / _PLAN
    if not plan.exists() or plan.read_text() != remote.manifest.fingerprint:
        remove(state)
        state.mkdir()
        write_durably(plan, remote.manifest.fingerprint.encode())
    here = sum(file.stat().st_blocks * 512 for file in target.rglob("*") if file.is_file())
    free = shutil.disk_usage(target).free
    if remote.size - here > free:
        raise WriteError(
            f"the dataset needs {remote.size - here:,} bytes more, and {free:,} are free",
            path=target,
            hint="make room, or cache the parts that a loader reads: cache= and cache_size=",
        )
    return state


class FileFetcher:
    """Fetches files of a dataset with concurrent requests, and checks them.

    Args:
        files: Files of a dataset; those that ``target`` has in their sizes are not fetched.
        target: Folder of the whole files.
        state: Folder of the files that are being fetched; blocks of a killed run are used.
        stop: Set when fetching must end early.
    """

    def __init__(
        self,
        files: Sequence[RemoteFile],
        target: Path,
        state: Path,
        stop: threading.Event,
    ) -> None:
        self._read = FileReader(files, stop)
        self._target = target
        self._stop = stop
        self._files = files
        self._size = sum(file.size for file in files)
        for file in files:
            (state / file.name).parent.mkdir(parents=True, exist_ok=True)
            (target / file.name).parent.mkdir(parents=True, exist_ok=True)
        names, sizes = [file.name for file in self._files], [file.size for file in self._files]
        self._blocks = BlockFiles(state, names, sizes)
        self._guard = threading.Lock()
        self._done = 0
        self.fetched = 0
        self.repeated = 0

    def run(self, connections: int, progress: Callable[[int, int], None]) -> None:
        """Fetch and check.

        Raises: As :func:`stage`.
        """
        with (
            ThreadPoolExecutor(connections, thread_name_prefix="stoker-stage") as fetchers,
            ThreadPoolExecutor(2, thread_name_prefix="stoker-check") as checkers,
        ):
            try:
                self._fetch_all(fetchers, checkers, connections, progress)
            except BaseException:
                self._stop.set()
                for pool in (fetchers, checkers):
                    pool.shutdown(wait=True, cancel_futures=True)
                raise
            finally:
                self._blocks.close()

    def _fetch_all(
        self,
        fetchers: ThreadPoolExecutor,
        checkers: ThreadPoolExecutor,
        connections: int,
        progress: Callable[[int, int], None],
    ) -> None:
        """Keep requests for the next files queued while earlier files are fetched and checked."""
        fetching: deque[tuple[int, TaskGroup]] = deque()
        checking = TaskGroup(checkers)
        requests = 0
        for number, file in enumerate(self._files):
            if _is_whole(self._target / file.name, file):
                self._done += file.size
                continue
            fetching.append((number, self._request(number, fetchers)))
            requests += fetching[-1][1].left
            while requests > 2 * connections and len(fetching) > _FILES_AHEAD:
                requests -= self._check_oldest(fetching, checking, progress)
        while fetching:
            self._check_oldest(fetching, checking, progress)
        self._wait(checking, progress)

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

    def _check_oldest(
        self,
        fetching: deque[tuple[int, TaskGroup]],
        checking: TaskGroup,
        progress: Callable[[int, int], None],
    ) -> int:
        number, requests = fetching.popleft()
        count = requests.left
        self._wait(requests, progress)
        checking.start(partial(self._check_and_move, number))
        return count

    def _wait(self, tasks: TaskGroup, progress: Callable[[int, int], None]) -> None:
        tasks.wait(lambda: progress(min(self._done, self._size), self._size))

    def _check_and_move(self, number: int) -> None:
        """Compare a file with its digest, fetch it again where they differ, and move it to the target."""
        file = self._files[number]
        path = self._blocks.paths[number]
        for _ in range(_DIGEST_TRIES - 1):
            if file_digest(path) == file.digest:
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
        hint="the remote file is damaged, or another one: run stoker verify where it lies, then replace it",
    )
