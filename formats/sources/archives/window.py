"""A window on an archive: reads of a few bytes become fewer reads of more."""

from __future__ import annotations

from collections import deque
from functools import partial

from ...containers.base import Read
from ...remote.store import Store

_LEAST = 8 << 10  # bytes of a request: a header, small members, and the header of an image
_KEPT = 4
_MOST = 1 << 20  # 32 archives that are read at once keep four windows each


class Window:
    """Reads an archive, and keeps the bytes of its last windows.

    They are needed again: members of a sample are read when the next header shows the sample's end.
    """

    def __init__(self, read: Read, size: int, least: int, most: int | None = None) -> None:
        self._read = read
        self._size = size
        self._least = self._window = least
        self._most = most or least
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=_KEPT)
        self._end = 0

    def __call__(self, offset: int, length: int) -> bytes:
        """Return bytes of the archive; fewer at its end."""
        length = max(min(length, self._size - offset), 0)
        for start, data in self._kept:
            at = offset - start
            if at >= 0 and at + length <= len(data):
                return data[at : at + length]
        if not length:
            return b""
        skipped = offset - self._end
        self._window = min(2 * self._window, self._most) if 0 <= skipped < self._least else self._least
        data = self._read(offset, min(max(length, self._window), self._size - offset))
        self._kept.appendleft((offset, data))
        self._end = offset + len(data)
        return data[:length]


def window_at_url(url: str, size: int) -> Window:
    """Return a window on a file at a URL that fetches few bytes in vain; a read may raise StorageError."""
    folder, _, name = url.rpartition("/")
    return Window(partial(_fetch, Store(folder), name), size, _LEAST, _MOST)


def _fetch(store: Store, name: str, offset: int, length: int) -> bytes:
    return store.read_range(name, offset, offset + length)
