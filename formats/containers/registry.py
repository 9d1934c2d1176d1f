"""The table of containers, by name; every other module finds a container here.

A new container is a module of this folder and a row of ``CONTAINERS``. Messages, the help of the command line
and the checks of options take the names from the table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stoker.errors import ConfigError

from ..files import open_regular, read_at

if TYPE_CHECKING:  # the help of the command line loads no NumPy
    from .base import Container, ReadStart, Writing


@cache
def _load(module: str, name: str) -> Container:
    """Import a module of this folder, and return the container with this name in it."""
    container: Container = getattr(import_module(module, __package__), name)
    return container


class ContainerRow(NamedTuple):
    """The facts about a container that the command line needs before its module is imported."""

    load: Callable[[], Container]  # Imports the module and returns the container
    plural: str  # Plural noun for its shards in messages and help, such as "TFRecord files"
    # Whether the container has a :class:`~.base.Writing`, so that conversions can write it
    can_write: bool = True
    # Suffix of its files, which finds them in a folder or at a URL, and names the container of a file that no
    # container recognises; empty if its files have no usual suffix
    suffix: str = ""
    is_external: bool = True  # Whether other programs write it, so that ``stoker index`` reads its shards


CONTAINERS = {
    "tfrecord": ContainerRow(partial(_load, ".tfrecord", "TFRECORD"), "TFRecord files"),
    "lmdb": ContainerRow(partial(_load, ".lmdb", "LMDB"), "LMDB folders or data files"),
    "mds": ContainerRow(partial(_load, ".mds", "MDS"), "Mosaic MDS shards", can_write=False, suffix=".mds"),
    "webdataset": ContainerRow(
        partial(_load, ".webdataset", "WEBDATASET"),
        "WebDataset tar archives",
        can_write=False,
        suffix=".tar",
    ),
    "recordio": ContainerRow(
        partial(_load, ".recordio", "RECORDIO"), "MXNet RecordIO files", can_write=False, suffix=".rec"
    ),
    "listing": ContainerRow(
        partial(_load, ".listing", "LISTING"), "listings of image files", can_write=False, is_external=False
    ),
}
DEFAULT_CONTAINER = "tfrecord"


def find_container(name: str) -> Container:
    """Return the container with a name that manifests and the option ``format`` use."""
    if name not in CONTAINERS:
        raise ConfigError(f"format must be one of {', '.join(CONTAINERS)}, not {name!r}")
    return CONTAINERS[name].load()


def find_writing(name: str) -> Writing:
    """Return how the shards of the container with a name are written."""
    if (writing := find_container(name).writing) is not None:
        return writing
    raise ConfigError(
        f"format {name} cannot be written, only read", hint=f"write {' or '.join(writable())} instead"
    )


def writable() -> list[str]:
    """Return the names of the containers that conversions can write."""
    return [name for name, row in CONTAINERS.items() if row.can_write]


def external() -> list[str]:
    """Return the names of the containers whose shards other programs write."""
    return [name for name, row in CONTAINERS.items() if row.is_external]


def detect_container(read_start: ReadStart) -> Container | None:
    """Return the container that recognizes a shard, or None."""
    containers = map(find_container, external())
    return next((container for container in containers if container.recognizes(read_start)), None)


def is_local_shard(path: Path) -> bool:
    """Return whether a file or folder on a disk is a shard of a container."""
    return detect_container(partial(read_local_start, path)) is not None


def read_local_start(path: Path, name: str, most: int) -> bytes | None:
    """Return the first bytes of a file of a local shard, see :data:`.base.ReadStart`."""
    try:
        with open_regular(path / name) as (descriptor, _):
            return read_at(descriptor, 0, most)
    except OSError:
        return None
