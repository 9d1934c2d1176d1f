"""How often a storage is asked again, and how long it is given between."""

from __future__ import annotations

import errno
import random
from itertools import count
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

__all__ = ["Patience", "StoppedError"]

T = TypeVar("T")

_TRIES = 6
_PATIENT_TRIES = 10  # with pauses of 51 seconds together: a server restarts, or has others do less
_FIRST_PAUSE = 0.1  # seconds; each pause is twice the one before, give or take a half
_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, NotImplementedError)
# Of HTTP: the server is in trouble or too busy, which may pass; other 4xx will not.
_PASSING = frozenset({408, 425, 429})
# Of a network: the server, or the way to it, is gone; EBUSY is how s3fs says that it is to be asked less.
_TROUBLE = frozenset(
    {
        errno.EBUSY,
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.EPIPE,
    }
)


class StoppedError(Exception):
    """The caller has been stopped and wants nothing any more."""


class Patience:
    """Asks one storage again, after growing pauses, where that may help.

    Args:
        stop: Ends pauses and further tries when it is set.
    """

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._has_answered = False

    def ask(self, action: Callable[[], T]) -> T:
        """What ``action`` returns; the error of its last try where none succeeds.

        Raises:
            StoppedError: ``stop`` has been set.
        """
        pause = _FIRST_PAUSE
        for tries in count(1):
            if self._stop.is_set():
                raise StoppedError
            try:
                result = action()
            except StoppedError:
                raise
            except Exception as error:  # every storage has errors of its own
                if not _may_pass(error) or tries >= self._worth(error):
                    raise
            else:
                self._has_answered = True
                return result
            self._stop.wait(pause * (0.5 + random.random()))  # noqa: S311 - many readers must not come back at once
            pause *= 2
        raise AssertionError("the last try returns or raises")

    def _worth(self, error: Exception) -> int:
        """Tries that an error is worth: more where the server tells of its trouble itself, or was there."""
        is_told = isinstance(getattr(error, "status", None), int)
        was_there = self._has_answered and getattr(error, "errno", None) in _TROUBLE
        return _PATIENT_TRIES if is_told or was_there else _TRIES


def _may_pass(error: Exception) -> bool:
    status = getattr(error, "status", None)
    if isinstance(status, int) and 400 <= status < 500:
        return status in _PASSING
    return not isinstance(error, _FINAL)
