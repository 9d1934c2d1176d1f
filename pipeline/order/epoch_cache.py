"""Caches of values for a whole epoch, such as its permutation or its plan."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from stoker.processes import PerProcess

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


class SharedEpochs(Generic[K, V]):
    """The value that was made last, and others for as long as a pass uses them.

    At the end of a pass these are two values, because the worker thread makes that of the next epoch.
    """

    def __init__(self) -> None:
        self._values: WeakValueDictionary[K, V] = WeakValueDictionary()
        self._last: V | None = None
        self._lock = PerProcess(threading.RLock)  # making a value may ask for another one

    def get(self, key: K, make: Callable[[K], V]) -> V:
        """Return the value of ``key``; ``make(key)`` makes it if no pass uses it and it was not made last."""
        with self._lock.get():
            value = self._values.get(key)
            if value is None:
                self._last = None  # frees its memory before the next one is made
                value = self._values[key] = self._last = make(key)
            return value
