"""Hints for errors of a storage: what a user can do about each kind of error."""

from __future__ import annotations

import errno
from dataclasses import dataclass


class BodyCutShortError(OSError):
    """The answer has fewer bytes than requested."""


@dataclass(frozen=True)
class _Cause:
    """A cause of errors, by their HTTP statuses, their errno, or the ends of the names of their classes."""

    hint: str
    statuses: frozenset[int] = frozenset()
    numbers: frozenset[int] = frozenset()
    names: tuple[str, ...] = ()

    def explains(self, error: Exception) -> bool:
        return (
            getattr(error, "status", None) in self.statuses
            or getattr(error, "errno", None) in self.numbers
            or any(base.__name__.endswith(self.names) for base in type(error).__mro__ if self.names)
        )


_CAUSES = (
    _Cause(
        "check the credentials that fsspec finds for this storage, and what they allow",
        frozenset({401, 403}),
        names=("PermissionError", "CredentialsError"),
    ),
    _Cause(
        "the server asks for fewer requests: try again later, or with fewer threads and ranks",
        frozenset({429, 503}),
        frozenset({errno.EBUSY}),
    ),
    _Cause("the server reports an internal error: try again later", frozenset(range(500, 600))),
    _Cause(
        "if it happens again, the file has changed, and is shorter than the manifest of the dataset says: "
        "open the dataset again, or make it again",
        frozenset({416}),
        names=("BodyCutShortError",),
    ),
    _Cause(
        "the connection was cut while an answer arrived: check the network and proxies between",
        numbers=frozenset({errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE}),
        names=("ClientPayloadError", "IncompleteRead", "IncompleteReadError"),
    ),
    _Cause(
        "the server did not answer in time: check the network, or the time limits in fsspec's configuration",
        names=("TimeoutError",),
    ),
    _Cause(
        "check the address, and whether the server runs and can be reached from this machine",
        numbers=frozenset({errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH}),
        names=("ClientConnectorError", "EndpointConnectionError", "gaierror"),
    ),
)
_UNKNOWN = "check the address, whether it can be reached from this machine, and that you have access to it"


def hint_for(error: Exception) -> str:
    """Return what to do about an error that a storage's package raised."""
    return next((cause.hint for cause in _CAUSES if cause.explains(error)), _UNKNOWN)
