"""fsspec's file systems: finding the one of a URL, and reading its facts about files."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from stoker.errors import MissingDependencyError, StorageError, install_hint

__all__ = ["file_system", "modified"]

_CONNECT_SECONDS = 15.0
_SILENT_SECONDS = 30.0


def file_system(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the URL's path in it.

    Raises:
        MissingDependencyError: fsspec, or a package that it needs for this protocol, is not installed.
        StorageError: fsspec does not know the protocol.
    """
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
            hint="Install the package that the error names.",
        ) from error
    except ValueError as error:
        raise StorageError(f"no such storage: {error}", path=url) from error
    return fs, root


def modified(info: dict[str, Any]) -> int:
    """Time of the last change of a file, nanoseconds since 1970; 0 where the storage does not state it."""
    for name in ("mtime", "LastModified", "last_modified", "updated", "created"):
        value = info.get(name)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1e6) * 1000
        if isinstance(value, (int, float)):
            return int(value * 1e6) * 1000
    return 0
