"""A cache of what a whole epoch needs, such as its permutation."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from stoker.processes import PerProcess

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["EpochCache"]

K = TypeVar("K")
V = TypeVar("V")


class EpochCache(Generic[K, V]):
    """Values of the last two keys: the running epoch and the next one, which the worker thread begins."""

    def __init__(self) -> None:
        self._values: dict[K, V] = {}
        self._lock = PerProcess(threading.RLock)  # making a value may ask for another one

    def get(self, key: K, make: Callable[[K], V]) -> V:
        """Return the value of ``key``; ``make(key)`` makes it at the first call."""
        with self._lock.get():
            if key not in self._values:
                self._values = dict([*self._values.items()][-1:])
                self._values[key] = make(key)
            return self._values[key]
