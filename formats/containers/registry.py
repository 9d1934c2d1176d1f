"""The containers that there are, by name; every other module finds a container here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .base import Container, ReadStart, Writing

__all__ = [
    "CONTAINERS",
    "DEFAULT_CONTAINER",
    "WRITABLE",
    "detect_container",
    "find_container",
    "find_writing",
]


def _tfrecord() -> Container:
    from .tfrecord import TFRECORD

    return TFRECORD


def _lmdb() -> Container:
    from .lmdb import LMDB

    return LMDB


# Functions, so that the command line knows the names without importing the modules.
CONTAINERS: dict[str, Callable[[], Container]] = {"tfrecord": _tfrecord, "lmdb": _lmdb}
WRITABLE = ("tfrecord", "lmdb")
"""Names of the containers with a :class:`~.base.Writing`, which conversions can write."""
DEFAULT_CONTAINER = "tfrecord"


def find_container(name: str) -> Container:
    """Return the container with a name, as manifests and the option ``format`` have it.

    Raises:
        ConfigError: There is no such container.
    """
    if name not in CONTAINERS:
        raise ConfigError(f"format must be one of {', '.join(CONTAINERS)}, not {name!r}")
    return CONTAINERS[name]()


def find_writing(name: str) -> Writing:
    """Return how the shards of the container with a name are written.

    Raises:
        ConfigError: There is no such container, or it is only read.
    """
    if (writing := find_container(name).writing) is not None:
        return writing
    raise ConfigError(
        f"format {name} cannot be written, only read", hint=f"write {' or '.join(WRITABLE)} instead"
    )


def detect_container(read_start: ReadStart) -> Container | None:
    """Return the container that recognizes a shard, or None."""
    containers = map(find_container, CONTAINERS)
    return next((container for container in containers if container.recognizes(read_start)), None)
