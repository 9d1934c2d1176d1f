"""A remote dataset: its manifest and its files, for a cache and for ``stoker stage``."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath

from stoker.arguments import check_progress, whole_number
from stoker.errors import ConfigError, DatasetError, StorageError, WriteError, with_details
from stoker.urls import is_url, without_credentials

from ..containers.container import find_container
from ..dataset.manifest import (
    INDEX_NAME,
    MANIFEST_NAME,
    MOST_MANIFEST_BYTES,
    SKIPPED_NAME,
    TOKENIZER_NAME,
    Manifest,
    Shard,
)
from ..dataset.versions import HISTORY_NAME, SHA256_NAME, no_version, retired_manifest, split_version
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
from ..threads import TaskGroup, thread_map
from .block_files import BlockFiles
from .store import RangeReader, Store

_STATE_NAME = ".stoker-stage"
_PLAN = "fingerprint"
_DIGEST_TRIES = 3
_FILES_AHEAD = 4  # files in flight, however many requests they need
_CONCURRENT = 16
_OPTIONAL = (SKIPPED_NAME, TOKENIZER_NAME, HISTORY_NAME, SHA256_NAME)


@dataclass(frozen=True)
class RemoteFile:
    """A file of a remote dataset, with the size and the digest in the manifest."""

    name: str  # Path in the dataset's folder
    size: int
    digest: str | None
    shard: str | None  # Name of its shard; None for the index
    url: str


@dataclass(frozen=True)
class RemoteDataset:
    """A dataset at a URL, or in a folder of a network file system."""

    store: Store  # Its folder
    manifest: Manifest  # The manifest of a copy, which has all shards in its folder
    index: RemoteFile
    shards: tuple[RemoteFile, ...]  # Data file of every shard

    @property
    def size(self) -> int:
        return self.index.size + self.manifest.data_bytes

    def small_files(self) -> dict[str, bytes]:
        names = list(_OPTIONAL)
        for sidecar in find_container(self.manifest.container).sidecars:
            shards = self.manifest.shards
            names += [sidecar.name(shard.name, external=shard.path is not None) for shard in shards]
        contents = thread_map(self.store.read_if_there, names, "fetch", _CONCURRENT, 4 * _CONCURRENT)
        return {name: content for name, content in contents if content is not None}


def check_local(**folders: str | os.PathLike[str]) -> None:
    """Check that folders for copies of remote files are paths; the error names the argument."""
    check_named(**folders)
    for name, path in folders.items():
        if is_url(path):
            hint = "Name a folder on a local disk."
            raise ConfigError(f"{name} is a URL, and files are copied to a disk", path=path, hint=hint)


def open_remote(
    url: str | os.PathLike[str],
    stop: threading.Event,
    version: int | None = None,
    signed: Sequence[str] = (),
) -> RemoteDataset:
    """Read the manifest of a version of a remote dataset, None for the last; ``stop`` ends all reading."""
    store = Store(url, stop)
    manifest = _manifest(store, MANIFEST_NAME)
    if manifest is None:
        raise DatasetError(
            f"not a dataset: {MANIFEST_NAME} does not exist",
            path=store.url,
            hint="Give the address of the folder that stoker convert made.",
        )
    if version not in (None, manifest.dataset_version):
        last = manifest.dataset_version
        earlier = _manifest(store, retired_manifest(version)) if version < last else None
        if earlier is None:
            raise no_version(store.url, version, last)
        manifest = earlier
    if find_container(manifest.container).payload_files is not None:
        raise DatasetError(
            "the dataset is an index of image files, which stay where they are",
            path=store.url,
            hint="Convert the images, which copies them into shards: stoker convert SOURCE TARGET.",
        )
    urls = {without_credentials(one): one for one in signed}
    with_urls = (replace(shard, path=urls.get(shard.path or "", shard.path)) for shard in manifest.shards)
    files = tuple(_data_file(shard, manifest, store) for shard in with_urls)
    shards = (replace(shard, path=shard.name) if is_url(shard.path) else shard for shard in manifest.shards)
    index = manifest.index
    return RemoteDataset(
        store=store,
        manifest=replace(manifest, shards=tuple(shards)),
        index=RemoteFile(index.file, index.bytes, index.digest, None, store.at(index.file)),
        shards=files,
    )


def _manifest(store: Store, name: str) -> Manifest | None:
    content = store.read_if_there(name, most=MOST_MANIFEST_BYTES + 1)
    try:
        return None if content is None else Manifest.from_bytes(content)
    except DatasetError as error:
        raise with_details(error, path=store.at(name)) from error


def _data_file(shard: Shard, manifest: Manifest, store: Store) -> RemoteFile:
    path, is_elsewhere = PurePosixPath(shard.path or shard.name), is_url(shard.path)
    # A remote manifest must not lead out of its folder. A local one may name URLs: its user wrote it.
    if is_url(store.url) if is_elsewhere else path.is_absolute() or ".." in path.parts:
        raise DatasetError(
            "the dataset is an index of shards that lie elsewhere",
            path=store.url,
            shard=shard.name,
            hint="Index the shards in the folder where they lie: stoker index SHARDS --into FOLDER.",
        )
    # A copy has the shard at its path, and at its name where the path is a URL.
    names = {shard.name, *(() if is_elsewhere else (str(path),))}
    if any(name.startswith(".") or name in (INDEX_NAME, MANIFEST_NAME, *_OPTIONAL) for name in names):
        raise DatasetError("a shard has the name of another file", path=store.url, shard=shard.name)
    data_url = find_container(manifest.container).data_url
    name = data_url(shard.name if is_elsewhere else shard.path or shard.name)
    url = data_url(str(shard.path)) if is_elsewhere else store.at(name)
    return RemoteFile(name, shard.bytes, shard.digest, shard.name, url)


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
    """Fetch and check files that a folder lacks; return the bytes fetched and how many were repeated."""
    # ``state`` holds the blocks of unfinished files, with which a later call resumes. ``progress`` is called
    # with the bytes done and the bytes in all.
    for file in files:
        for folder in (state, target):
            (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
    fetch = _Fetch(files, target, state, RangeReader([file.url for file in files], stop))
    total = sum(file.size for file in files)

    def show() -> None:
        if progress is not None:
            progress(min(fetch.whole + fetch.blocks.present_bytes, total), total)

    with (
        ThreadPoolExecutor(connections, thread_name_prefix="stoker-stage") as fetchers,
        ThreadPoolExecutor(2, thread_name_prefix="stoker-check") as checkers,
    ):
        try:
            fetch.run(fetchers, checkers, 2 * connections, show)
        except BaseException:
            stop.set()
            for pool in (fetchers, checkers):
                pool.shutdown(wait=True, cancel_futures=True)
            raise
        finally:
            fetch.blocks.close()
    return fetch.blocks.bytes_fetched, len(fetch.repeated)


def _is_whole(path: Path, file: RemoteFile) -> bool:
    """Return whether a file is at its final path, which only checked files get, and has its size."""
    return path.is_file() and path.stat().st_size == file.size


class _Fetch:
    """One call of :func:`fetch_files`."""

    def __init__(self, files: Sequence[RemoteFile], target: Path, state: Path, read: RangeReader) -> None:
        self._files = files
        self._target = target
        self._read = read
        names, sizes = [file.name for file in files], [file.size for file in files]
        self.blocks = BlockFiles(state, names, sizes, mode=0o666)  # colleagues may read what the umask allows
        self.whole = 0  # bytes of the files that need no request
        self.repeated: list[int] = []

    def run(
        self, fetchers: ThreadPoolExecutor, checkers: ThreadPoolExecutor, most: int, show: Callable[[], None]
    ) -> None:
        """Keep requests for the next files queued while earlier files are fetched and checked."""
        fetching: deque[tuple[int, TaskGroup]] = deque()
        checking = TaskGroup(checkers)

        def check_oldest() -> None:
            number, requests = fetching.popleft()
            requests.wait(show)
            checking.start(partial(self._check_and_move, number))

        for number, file in enumerate(self._files):
            if _is_whole(self._target / file.name, file):
                self.blocks.forget(number)
                self.whole += file.size
                continue
            fetching.append((number, TaskGroup(fetchers)))
            for request in self._requests(number):
                fetching[-1][1].start(request)
            while len(fetching) > _FILES_AHEAD and sum(requests.left for _, requests in fetching) > most:
                check_oldest()
        while fetching:
            check_oldest()
        checking.wait(show)

    def _requests(self, number: int) -> list[Callable[[], int]]:
        missing = self.blocks.missing(self.blocks.of_file(number))
        return [partial(self.blocks.fill, *run, self._read) for run in self.blocks.runs(missing)]

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
            self.repeated.append(number)
            for request in self._requests(number):
                request()
        sync(path)
        move_durably(path, self._target / file.name)
        sync_folder((self._target / file.name).parent)
