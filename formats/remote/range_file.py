"""A file object that reads ranges of a file at a URL, with the retries and errors of a store."""

from __future__ import annotations

import io
import os

from .store import Store

__all__ = ["RangeFile"]


class RangeFile(io.RawIOBase):
    """A readable and seekable file of ``size`` bytes in a store; each read is one request."""

    def __init__(self, store: Store, name: str, size: int) -> None:
        super().__init__()
        self._store = store
        self._name = name
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position of the next read, in bytes."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position of the next read, and return it."""
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Return the next ``size`` bytes, fewer at the end of the file.

        Raises:
            StorageError: They cannot be read.
        """
        left = max(self._size - self._at, 0)
        length = left if size is None or size < 0 else min(size, left)
        data = self._store.read_range(self._name, self._at, self._at + length) if length else b""
        self._at += len(data)
        return data
