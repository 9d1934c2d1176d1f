"""A window on an archive: reads of a few bytes become fewer reads of more."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...containers.webdataset.members import Read

__all__ = ["Window"]


class Window:
    """Reads an archive, and keeps what it read in the last two places.

    A small member is read after the header behind it, which shows that its sample has ended.

    Args:
        read: Reads bytes within the archive.
        size: Bytes of the archive.
        window: Least number of bytes to read at once.
    """

    def __init__(self, read: Read, size: int, window: int) -> None:
        self._read = read
        self._size = size
        self._window = window
        self._start, self._data = 0, b""
        self._last_start, self._last_data = 0, b""

    def __call__(self, offset: int, length: int) -> bytes:
        """Return bytes of the archive; fewer at its end."""
        at = offset - self._start
        if at >= 0 and at + length <= len(self._data):
            return self._data[at : at + length]
        at = offset - self._last_start
        if at >= 0 and at + length <= len(self._last_data):
            return self._last_data[at : at + length]
        if offset >= self._size:
            return b""
        self._last_start, self._last_data = self._start, self._data
        self._start = offset
        self._data = self._read(offset, min(max(length, self._window), self._size - offset))
        return self._data[:length]
