"""Staging: copying a remote dataset to a local disk, whole and checked.

:func:`fetch_files` fetches whole files, each compared with its digest; a cache fetches its index with it.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from stoker.arguments import check_progress, whole_number
from stoker.errors import ConfigError, DatasetError, StorageError, WriteError

from ..dataset.manifest import MANIFEST_NAME, Manifest
from ..dataset.versions import split_version
from ..files import (
    check_named,
    file_digest,
    folder_lock,
    move_durably,
    os_errors,
    parse_byte_size,
    remove,
    sync,
    sync_folder,
    write_durably,
)
from ..threads import TaskGroup
from .block_files import BlockFiles
from .remote_dataset import RemoteDataset, RemoteFile, check_local, open_remote
from .store import RangeReader

_STATE_NAME = ".stoker-stage"
_PLAN = "fingerprint"
_REQUEST_BYTES = 8 << 20
_DIGEST_TRIES = 3
_FILES_AHEAD = 4  # files in flight, however many requests they need


@dataclass(frozen=True)
class StageSummary:
    """The result of staging."""

    path: Path  # Folder of the dataset
    bytes: int  # Bytes of index and shards
    fetched: int  # Bytes that this call fetched; fewer than ``bytes`` after an interruption
    seconds: float  # Duration
    bytes_per_second: float  # Bandwidth: fetched bytes a second
    repeated: int  # Number of files that were fetched again because their digest was wrong


def stage(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    *,
    limit: str | int | None = None,
    connections: int = 16,
    progress: Callable[[int, int], None] | None = None,
) -> StageSummary:
    """Copy a dataset to a local disk.

    Every file is compared with its digest in the manifest, and fetched again if they differ. If the call is
    killed, the same call resumes with the missing blocks. The manifest is written last: :func:`stoker.open`
    opens ``dst`` only once it is whole. If the dataset is there already, files that are missing or have
    another size are fetched again.

    Args:
        src: URL of a dataset's folder (s3, gs, http, ... as fsspec knows them), or a path on a network
            file system. ``URL@3`` is version 3 of the dataset; otherwise the copy has the last version.
        dst: Folder to write; made if missing.
        limit: Largest size of the dataset, such as ``200GB``; a larger dataset is refused.
        connections: Number of concurrent requests, of 8 MiB each.
        progress: Called a few times a second with the bytes that are done and the bytes in all.

    Raises:
        ConfigError: The dataset is larger than ``limit``, ``dst`` is a URL, or an option has a wrong value.
        DatasetError: There is no dataset at ``src``, or another one in ``dst``.
        LockedError: Another process is writing into ``dst``.
        StorageError: A file cannot be read, or stays damaged; the error names its URL.
        WriteError: The disk is full or refuses a write.
    """
    check_progress(progress)
    check_named(source=src)
    src, version = split_version(src)
    check_local(target=dst)
    connections = whole_number("connections", connections, 1)
    started = time.monotonic()
    stop = threading.Event()
    remote, target = open_remote(src, stop, version), Path(dst)
    _check_limit(remote, limit)
    fetched = repeated = 0
    with os_errors(target):
        target.mkdir(parents=True, exist_ok=True)
        with folder_lock(target):
            if not _is_staged(remote, target):
                remove(target / MANIFEST_NAME)  # the copy is no longer whole
                state = _enter(remote, target)
                files = (remote.index, *remote.shards)
                fetched, repeated = fetch_files(
                    files, target, state, stop, connections=connections, progress=progress
                )
                for name, content in remote.small_files().items():
                    write_durably(target / name, content)
                write_durably(target / MANIFEST_NAME, remote.manifest.to_json().encode())
            remove(target / _STATE_NAME)  # a killed process may have left it beside a whole copy
    seconds = time.monotonic() - started
    return StageSummary(target, remote.size, fetched, seconds, fetched / seconds, repeated)


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
        hint="Raise the limit, or cache the parts that a loader reads: cache= and cache_size=.",
    )


def _is_staged(remote: RemoteDataset, target: Path) -> bool:
    """Return whether the dataset has been staged already and its files still have their sizes."""
    if not (target / MANIFEST_NAME).exists():
        return False
    if Manifest.load(target).fingerprint != remote.manifest.fingerprint:
        hint = "Name another folder, or remove it."
        raise DatasetError("there is another dataset in the folder", path=target, hint=hint)
    return all(_is_whole(target / file.name, file) for file in (remote.index, *remote.shards))


def _enter(remote: RemoteDataset, target: Path) -> Path:
    """Start or resume staging, after a check that the disk has room for the missing files."""
    state = target / _STATE_NAME
    plan = state / _PLAN
    if not plan.exists() or plan.read_text() != remote.manifest.fingerprint:
        remove(state)
        state.mkdir()
        write_durably(plan, remote.manifest.fingerprint.encode())
    missing = remote.size - sum(file.stat().st_blocks * 512 for file in target.rglob("*") if file.is_file())
    free = shutil.disk_usage(target).free
    if missing > free:
        raise WriteError(
            f"the dataset needs {missing:,} bytes more, and {free:,} are free",
            path=target,
            hint="Make room, or cache the parts that a loader reads: cache= and cache_size=.",
        )
    return state


def fetch_files(
    files: Sequence[RemoteFile],
    target: Path,
    state: Path,
    stop: threading.Event,
    *,
    connections: int,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[int, int]:
    """Fetch and check files that ``target`` lacks; return the bytes fetched and the number of files repeated.

    ``state`` holds the blocks of unfinished files, with which a later call resumes. ``progress`` is called
    with the bytes done and the bytes in all.
    """
    for file in files:
        for folder in (state, target):
            (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
    fetch = _Fetch(files, target, state, stop, progress)
    with (
        ThreadPoolExecutor(connections, thread_name_prefix="stoker-stage") as fetchers,
        ThreadPoolExecutor(2, thread_name_prefix="stoker-check") as checkers,
    ):
        try:
            fetch.run(fetchers, checkers, connections)
        except BaseException:
            stop.set()
            for pool in (fetchers, checkers):
                pool.shutdown(wait=True, cancel_futures=True)
            raise
        finally:
            fetch.blocks.close()
    return fetch.fetched, fetch.repeated


def _is_whole(path: Path, file: RemoteFile) -> bool:
    """Return whether a file is at its final path, which only checked files get, and has its size."""
    return path.is_file() and path.stat().st_size == file.size


class _Fetch:
    """One call of :func:`fetch_files`."""

    def __init__(
        self,
        files: Sequence[RemoteFile],
        target: Path,
        state: Path,
        stop: threading.Event,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self._files = files
        self._target = target
        self._read = RangeReader([file.url for file in files], stop)
        self._progress = progress or (lambda done, total: None)
        self._size = sum(file.size for file in files)
        self.blocks = BlockFiles(state, [file.name for file in files], [file.size for file in files])
        self._guard = threading.Lock()
        self._done = self.fetched = self.repeated = 0

    def run(self, fetchers: ThreadPoolExecutor, checkers: ThreadPoolExecutor, connections: int) -> None:
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
                requests -= self._check_oldest(fetching, checking)
        while fetching:
            self._check_oldest(fetching, checking)
        self._wait(checking)

    def _request(self, number: int, pool: ThreadPoolExecutor) -> TaskGroup:
        blocks = self.blocks.of_file(number)
        missing = self.blocks.missing(blocks)
        with self._guard:
            self._done += (len(blocks) - len(missing)) * self.blocks.block_bytes
        requests = TaskGroup(pool)
        for run in self.blocks.runs(missing, _REQUEST_BYTES):
            requests.start(partial(self._fill, *run))
        return requests

    def _fill(self, low: int, high: int) -> None:
        size = self.blocks.fill(low, high, self._read)
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
        file, path = self._files[number], self.blocks.paths[number]
        for tries in range(1, _DIGEST_TRIES + 1):
            if file.digest in (None, file_digest(path)):
                break
            self.blocks.forget(number)
            if tries == _DIGEST_TRIES:
                raise StorageError(
                    f"the file arrives damaged, {tries} times: its digest is not the one in the manifest",
                    path=file.url,
                    shard=file.shard,
                    hint="The remote file is damaged or was replaced: run stoker verify where it lies, then "
                    "restore it.",
                )
            with self._guard:
                self.repeated += 1
                self._done -= file.size
            for run in self.blocks.runs(self.blocks.of_file(number), _REQUEST_BYTES):
                self._fill(*run)
        sync(path)
        move_durably(path, self._target / file.name)
        sync_folder((self._target / file.name).parent)
