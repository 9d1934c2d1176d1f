"""The cache of indexes of sources that are read in place: folders of images, and archives of other programs.

It lies in the user's cache folder, see :mod:`stoker.formats.files`, and removes the least recently used index
first. ``stoker cache`` lists and clears it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stoker.errors import LockedError, StorageError
from stoker.version import __version__

from .dataset.manifest import MANIFEST_NAME
from .files import cache_folder, remove, temporary_folder

MOST_INDEXES = 100
MOST_BYTES = 4 << 30
_ORIGIN = "origin"  # file with the path or URL of the source, for people
_UNFINISHED = "new-"
_temporary: list[tempfile.TemporaryDirectory[str]] = []  # indexes of this process that cannot be kept


@dataclass(frozen=True)
class CachedIndex:
    """An index in the cache."""

    origin: str  # Path or URL of its source
    folder: Path  # Folder of its files
    bytes: int  # Bytes of its files
    used: float  # Time of its last use, seconds since 1970


def cached_index(
    origin: str,
    identity: Sequence[str | int],
    make: Callable[[Path], None],
    is_current: Callable[[Path], bool] | None = None,
) -> Path:
    """Return the folder of the index of a source; the index is made if the cache does not have it."""
    # One process makes an index, and others that need it wait. If the cache folder cannot be written or
    # locked, or has no room, the index lasts as long as the process.
    name = hashlib.sha256(json.dumps([__version__, origin, *identity]).encode()).hexdigest()[:32]
    root = _root()
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A few files lock all indexes: lock files cannot be removed safely, and would pile up.
        lock = os.open(root / f"lock-{name[:2]}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(lock) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            entry = root / name
            if (entry / MANIFEST_NAME).is_file() and (is_current is None or is_current(entry)):
                with suppress(OSError):  # a read-only cache has no times of last use
                    os.utime(entry)
                return entry
            _make(root, entry, origin, make)
        _evict(entry)
        return entry
    except OSError as error:
        if isinstance(error, (LockedError, StorageError)):  # of the source
            raise
    _temporary.append(temporary_folder("stoker-index-"))
    folder = Path(_temporary[-1].name)
    make(folder)
    return folder


def cached_indexes() -> list[CachedIndex]:
    """Return the indexes in the cache, the most recently used first."""
    indexes = []
    with suppress(OSError):
        for folder in _root().iterdir():
            with suppress(OSError):  # another process may remove it
                origin = (folder / _ORIGIN).read_text(errors="replace")
                size = sum(file.stat().st_size for file in folder.iterdir())
                indexes.append(CachedIndex(origin, folder, size, folder.stat().st_mtime))
    return sorted(indexes, key=lambda index: index.used, reverse=True)


def clear_indexes(origin: str | None = None) -> list[CachedIndex]:
    """Remove the indexes of a source, or all, and return what was removed."""
    removed = [index for index in cached_indexes() if origin in (None, index.origin)]
    for index in removed:
        remove(index.folder)
    return removed


def _root() -> Path:
    return cache_folder() / "indexes"


def _make(root: Path, entry: Path, origin: str, make: Callable[[Path], None]) -> None:
    """Make an index in a folder beside ``entry``, and rename the folder to ``entry`` when it is whole."""
    unfinished = root / f"{_UNFINISHED}{entry.name}-{secrets.token_hex(4)}"
    for stale in root.glob(f"{_UNFINISHED}{entry.name}-*"):  # of a killed process: this one has the lock
        remove(stale)
    try:
        unfinished.mkdir(mode=0o700)
        make(unfinished)
        (unfinished / _ORIGIN).write_text(origin, errors="backslashreplace")
        remove(entry)
        unfinished.rename(entry)
    except BaseException:
        remove(unfinished)
        raise


def _evict(newest: Path) -> None:
    kept = total = 0
    for index in cached_indexes():
        kept, total = kept + 1, total + index.bytes
        if index.folder != newest and (kept > MOST_INDEXES or total > MOST_BYTES):
            with suppress(OSError):
                remove(index.folder)
