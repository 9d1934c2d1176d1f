"""The containers that there are, by name; every other module finds a container here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .base import Container, ReadStart, Writer

__all__ = ["CONTAINERS", "DEFAULT_CONTAINER", "detect_container", "find_container", "find_writer"]


def _tfrecord() -> Container:
    from .tfrecord import TFRECORD

    return TFRECORD


def _lmdb() -> Container:
    from .lmdb import LMDB

    return LMDB


# Functions, so that the command line knows the names without importing the modules.
CONTAINERS: dict[str, Callable[[], Container]] = {"tfrecord": _tfrecord, "lmdb": _lmdb}
DEFAULT_CONTAINER = "tfrecord"


def find_container(name: str) -> Container:
    """Return the container with a name, as manifests and the option ``format`` have it.

    Raises:
        ConfigError: There is no such container.
    """
    if name not in CONTAINERS:
        raise ConfigError(f"format must be one of {', '.join(CONTAINERS)}, not {name!r}")
    return CONTAINERS[name]()


def find_writer(name: str) -> Callable[[Path], Writer]:
    """Return what starts a shard of a container at a path that does not exist.

    Raises:
        ConfigError: There is no such container, or it is only read.
    """
    if (writer := find_container(name).writer) is not None:
        return writer
    writable = [other for other in CONTAINERS if find_container(other).writer is not None]
    raise ConfigError(
        f"format {name} cannot be written, only read", hint=f"write {' or '.join(writable)} instead"
    )


def detect_container(read_start: ReadStart) -> Container | None:
    """Return the container that recognizes a shard, or None."""
    containers = map(find_container, CONTAINERS)
    return next((container for container in containers if container.recognizes(read_start)), None)
