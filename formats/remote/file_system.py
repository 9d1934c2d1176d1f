"""fsspec's file systems: the file system of a URL, and what it states about files."""

from __future__ import annotations

import threading
from concurrent.futures import wait
from datetime import datetime
from typing import Any, NamedTuple

from stoker.errors import MissingDependencyError, StorageError, install_hint

from .retry import StoppedError

_CONNECT_SECONDS = 15.0
_SILENT_SECONDS = 30.0
_POLL = 0.2  # seconds between two checks whether a read has been stopped


class StoredFile(NamedTuple):
    """A file of a listing."""

    name: str  # Path relative to the store's folder, with ``/``
    size: int  # Bytes
    modified: int  # Time of the last change, nanoseconds since 1970; 0 if the storage does not state it


def file_system(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the URL's path in it."""
    try:
        import fsspec.core
    except ImportError as error:
        raise MissingDependencyError(
            f"{url} needs the package fsspec", path=url, hint=install_hint("fsspec", "aiohttp")
        ) from error
    options: dict[str, Any] = {}
    try:
        if url.startswith(("http://", "https://")):
            from aiohttp import ClientTimeout

            options["client_kwargs"] = {
                "timeout": ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=_SILENT_SECONDS)
            }
        fs, root = fsspec.core.url_to_fs(url, **options)
    except ImportError as error:
        raise MissingDependencyError(
            f"a package for this storage is missing: {error}",
            path=url,
            hint="install the package that the error names",
        ) from error
    except ValueError as error:
        raise StorageError(f"no such storage: {error}", path=url) from error
    return fs, root


def modified(info: dict[str, Any]) -> int:
    """Return the time of a file's last change, nanoseconds since 1970; 0 if the storage does not state it."""
    for name in ("mtime", "LastModified", "last_modified", "updated", "created"):
        value = info.get(name)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1e6) * 1000
        if isinstance(value, (int, float)):
            return int(value * 1e6) * 1000
    return 0


def read_asynchronously(fs: Any, path: str, stop: threading.Event, **limits: int) -> bytes:
    """Read a file of an asynchronous file system; the connection is closed when ``stop`` is set."""
    from asyncio import run_coroutine_threadsafe

    reading = run_coroutine_threadsafe(fs._cat_file(path, **limits), fs.loop)
    while not wait([reading], timeout=_POLL).done:
        if stop.is_set():
            reading.cancel()
            raise StoppedError
    return bytes(reading.result())
