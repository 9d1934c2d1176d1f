"""Retries of calls to a storage, with growing pauses, and hints for the errors that remain."""

from __future__ import annotations

import errno
import random
import threading
from collections.abc import Callable
from itertools import count
from time import perf_counter
from typing import TypeVar

from stoker.log import EventLog

T = TypeVar("T")

_LOG = EventLog("storage")
_SLOW = 10.0  # seconds: a request of 8 MiB at 7 Mbit/s
_TRIES = 6
_PATIENT_TRIES = 10  # their pauses take 51 seconds in all, in which a server can restart
_FIRST_PAUSE = 0.1  # seconds; each pause is twice the one before, plus or minus a half
_PERMANENT = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, NotImplementedError)
# HTTP statuses of a server that is too busy: another try may succeed, as with no other 4xx.
_TRANSIENT_STATUSES = frozenset({408, 425, 429})
# The server, or the network to it, is gone. s3fs raises EBUSY where the server wants fewer requests.
_LOST = "EBUSY ECONNABORTED ECONNREFUSED ECONNRESET EHOSTUNREACH ENETDOWN ENETUNREACH EPIPE"
_NETWORK_ERRORS = frozenset(getattr(errno, name) for name in _LOST.split())

_counted = [0]


def retries() -> int:
    """Return how often this process has tried a request again."""
    return _counted[0]


class StoppedError(Exception):
    """The caller has been stopped and needs no result."""


class Retrier:
    """Retries calls to one storage if another try may succeed, until ``stop`` is set."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._has_answered = False

    def call(self, action: Callable[[], T], what: str = "request") -> T:
        """Return the result of ``action``, or raise the error of its last try; the log names it ``what``."""
        pause = _FIRST_PAUSE
        for tries in count(1):
            if self._stop.is_set():
                raise StoppedError
            began = perf_counter()
            try:
                result = action()
            except StoppedError:
                raise
            except Exception as error:  # each storage raises other errors
                most = self._most_tries(error)
                if not _is_transient(error) or tries >= most:
                    raise
                reason = str(error) or type(error).__name__
                _counted[0] += 1
                _LOG.warning("retry", f"{what} failed ({reason}); try {tries + 1} of {most} follows")
            else:
                self._has_answered = True
                if (seconds := perf_counter() - began) > _SLOW:
                    _LOG.warning("slow", f"{what} took {seconds:.0f} s")
                return result
            self._stop.wait(pause * (0.5 + random.random()))  # noqa: S311 - so that many readers do not retry at once
            pause *= 2
        raise AssertionError("the last try returns or raises")

    def _most_tries(self, error: Exception) -> int:
        """Return the number of tries: more if the server itself reports the error, or has answered before."""
        is_reported = isinstance(getattr(error, "status", None), int)
        is_lost = self._has_answered and getattr(error, "errno", None) in _NETWORK_ERRORS
        return _PATIENT_TRIES if is_reported or is_lost else _TRIES


def _is_transient(error: Exception) -> bool:
    status = getattr(error, "status", None)
    if isinstance(status, int) and 400 <= status < 500:
        return status in _TRANSIENT_STATUSES
    return not isinstance(error, _PERMANENT)


class BodyCutShortError(OSError):
    """The answer has fewer bytes than requested."""


# Hints, with the HTTP statuses, numbers of ``errno`` (all below 200) and ends of names of classes that they
# explain.
_HINTS: dict[str, tuple[int | str, ...]] = {
    "Check the credentials that fsspec finds for this storage, and what they allow.": (
        (401, 403, "PermissionError", "CredentialsError")
    ),
    "The server asks for fewer requests: try again later, or with fewer threads and ranks.": (
        (429, 503, errno.EBUSY)
    ),
    "The server reports an internal error: try again later.": tuple(range(500, 600)),
    "If it happens again, the file has changed, and is shorter than the manifest of the dataset says: "
    "open the dataset again, or make it again.": (416, "BodyCutShortError"),
    "The connection was cut while an answer arrived: check the network and proxies between.": (
        *(errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE),
        *("ClientPayloadError", "IncompleteRead", "IncompleteReadError"),
    ),
    "The server did not answer in time: check the network, or the time limits in fsspec's configuration.": (
        ("TimeoutError",)
    ),
    "Check the address, and whether the server runs and can be reached from this machine.": (
        *(errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH),
        *("ClientConnectorError", "EndpointConnectionError", "gaierror"),
    ),
}


def hint_for(error: Exception) -> str:
    """Return what to do about an error that a storage's package raised."""
    numbers = {getattr(error, "status", None), getattr(error, "errno", None)}
    classes = [base.__name__ for base in type(error).__mro__]
    for hint, signs in _HINTS.items():
        endings = tuple(sign for sign in signs if isinstance(sign, str))
        if numbers.intersection(signs) or any(name.endswith(endings) for name in classes if endings):
            return hint
    return "Check the address, whether it can be reached from this machine, and that you have access to it."
