"""What is made once for each epoch and needed all through it."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["EpochCache"]

K = TypeVar("K")
V = TypeVar("V")


class EpochCache(Generic[K, V]):
    """What was made for the last two keys: the running epoch, and the next, which another thread begins."""

    def __init__(self) -> None:
        self._made: dict[K, V] = {}
        self._lock = threading.RLock()  # making one may ask for another
        self._process = os.getpid()

    def get(self, key: K, make: Callable[[K], V]) -> V:
        """What ``make`` makes of ``key``, once."""
        if os.getpid() != self._process:  # a fork copies locks as they were
            self._lock, self._process = threading.RLock(), os.getpid()
        with self._lock:
            if key not in self._made:
                self._made = dict([*self._made.items()][-1:])
                self._made[key] = make(key)
            return self._made[key]
