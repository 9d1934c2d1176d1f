"""A file object that reads ranges of a file at a URL, with the retries and errors of a store."""

from __future__ import annotations

import io
import os

from .store import Store


class RangeFile(io.RawIOBase):
    """A readable and seekable file of ``size`` bytes in a store; each read is one request."""

    def __init__(self, store: Store, name: str, size: int) -> None:
        super().__init__()
        self._store = store
        self._name = name
        self._size = size
        self._offset = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the offset of the next read, in bytes."""
        return self._offset

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the offset of the next read, and return it."""
        self._offset = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._offset, os.SEEK_END: self._size}[whence]
        return self._offset

    def read(self, size: int | None = -1) -> bytes:
        """Return the next ``size`` bytes, fewer at the end of the file."""
        remaining = max(self._size - self._offset, 0)
        length = remaining if size is None or size < 0 else min(size, remaining)
        data = self._store.read_range(self._name, self._offset, self._offset + length) if length else b""
        self._offset += len(data)
        return data
