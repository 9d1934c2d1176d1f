"""Staging: copying a remote dataset to a local disk, whole and checked."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stoker.arguments import check_progress
from stoker.errors import ConfigError, DatasetError, WriteError

from ..dataset.manifest import MANIFEST_NAME, Manifest
from ..dataset.versions.naming import split_version
from ..files.byte_size import parse_byte_size
from ..files.publishing import folder_lock, os_errors, remove, write_durably
from ..files.reading import check_named
from .file_fetcher import FileFetcher, is_whole
from .remote_dataset import RemoteDataset, check_local, open_remote

_STATE_NAME = ".stoker-stage"
_PLAN = "fingerprint"


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
    if connections < 1:
        raise ConfigError(f"connections must be at least 1, not {connections}")
    started = time.monotonic()
    stop = threading.Event()
    remote, target = open_remote(src, stop, version), Path(dst)
    _check_limit(remote, limit)
    with os_errors(target):
        target.mkdir(parents=True, exist_ok=True)
        with folder_lock(target):
            fetched, repeated = 0, 0
            if not _is_staged(remote, target):
                remove(target / MANIFEST_NAME)  # the copy is no longer whole
                state = _enter(remote, target)
                fetcher = FileFetcher((remote.index, *remote.shards), target, state, stop)
                fetcher.run(connections, progress)
                for name, content in remote.small_files().items():
                    write_durably(target / name, content)
                write_durably(target / MANIFEST_NAME, remote.manifest.to_json().encode())
                fetched, repeated = fetcher.fetched, fetcher.repeated
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
        hint="raise the limit, or cache the parts that a loader reads: cache= and cache_size=",
    )


def _is_staged(remote: RemoteDataset, target: Path) -> bool:
    """Return whether the dataset has been staged already and its files still have their sizes."""
    if not (target / MANIFEST_NAME).exists():
        return False
    if Manifest.load(target).fingerprint != remote.manifest.fingerprint:
        hint = "name another folder, or remove it"
        raise DatasetError("there is another dataset in the folder", path=target, hint=hint)
    return all(is_whole(target / file.name, file) for file in (remote.index, *remote.shards))


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
            hint="make room, or cache the parts that a loader reads: cache= and cache_size=",
        )
    return state
