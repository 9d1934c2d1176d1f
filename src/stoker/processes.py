"""Objects that belong to one process, and not to its forked children.

A forked child has a copy of its parent's memory, but only the thread that forked. A lock that another thread
held stays locked in the child for ever, and locks on open files belong to both processes.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

T = TypeVar("T")

if TYPE_CHECKING:
    from functools import cached_property as cached_property  # noqa: TID251, PLC0414 - mypy exports it
else:

    class cached_property:  # noqa: N801 - the name of Python's
        """A property that is computed once for each object, as ``functools.cached_property`` does.

        That one has a lock for all objects of a class before Python 3.12, which a forked child could inherit.
        Threads that need a value at once may each compute it, and get the first one.
        """

        def __init__(self, function: Callable[[Any], T]) -> None:
            self.function = function
            self.__doc__ = function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            return instance.__dict__.setdefault(self.name, self.function(instance))


class OwnerProcess:
    """The process that made an object."""

    def __init__(self) -> None:
        self._id = os.getpid()

    def is_current(self) -> bool:
        """Whether the caller runs in this process, and not in a forked child."""
        return os.getpid() == self._id


class PerProcess(Generic[T]):
    """A value that each process makes when it first needs it, such as a lock or open files."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._owned: tuple[OwnerProcess, T] | None = None

    def get(self) -> T:
        if self._owned is None or not self._owned[0].is_current():
            self._owned = OwnerProcess(), self._make()
        return self._owned[1]


class Cleanup:
    """A call that frees the resources of an object: on request, when it is dropped, or at interpreter exit.

    It does nothing in a forked child, because the resources belong to the parent. A call that was interrupted
    can be repeated.
    """

    def __init__(self, owner: object, free: Callable[..., None], *arguments: object) -> None:
        self._free = partial(_call_in, OwnerProcess(), free, *arguments)
        self._finalizer = weakref.finalize(owner, self._free)

    def __call__(self) -> None:
        """Call the function now, and not again when the object is dropped."""
        self._free()
        self._finalizer.detach()


def _call_in(process: OwnerProcess, free: Callable[..., None], *arguments: object) -> None:
    if process.is_current():
        free(*arguments)
