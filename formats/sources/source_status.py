"""The size of a file of a source and the time of its last change, on a disk or at a URL."""

from __future__ import annotations

import os

from stoker.errors import SourceError
from stoker.urls import is_url

from ..remote.store import Store


def source_status(path: str, what: str) -> tuple[int, int]:
    """Return the bytes of a file, and the time of its last change in nanoseconds since 1970.

    ``what`` is the word for the file in errors, such as "shard".
    """
    if is_url(path):
        folder, _, name = path.rpartition("/")
        store = Store(folder)
        size = store.size(name)
        if size is None:
            raise SourceError(f"there is no such {what}", path=path, hint="check the spelling of its name")
        return size, store.modified(name)
    try:
        status = os.stat(path)  # noqa: PTH116 - a path or a string
    except OSError as error:
        raise SourceError(f"the {what} cannot be read: {error.strerror}", path=path) from error
    return status.st_size, status.st_mtime_ns
