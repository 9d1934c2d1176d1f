"""The table of containers, by name; every other module finds a container here.

A new container is a module of this folder and a row of ``CONTAINERS``. Messages, the help of the command line
and the checks of options take the names from the table.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stoker.errors import ConfigError

from ..files import open_regular, read_at

if TYPE_CHECKING:  # the help of the command line loads no NumPy
    from .base import Container, ReadStart, Writing


class ContainerRow(NamedTuple):
    """What is known of a container before its module is imported.

    The module has the name of the container, and the container in it the same name in capitals.
    """

    plural: str  # Plural noun for its shards in messages and help, such as "TFRecord files"
    # Whether the container has a :class:`~.base.Writing`, so that conversions can write it
    can_write: bool = True
    # Suffix of its files, which finds them in a folder or at a URL, and names the container of a file that no
    # container recognises; empty if its files have no usual suffix
    suffix: str = ""
    is_external: bool = True  # Whether other programs write it, so that ``stoker index`` reads its shards


CONTAINERS = {
    "tfrecord": ContainerRow("TFRecord files"),
    "lmdb": ContainerRow("LMDB folders or data files"),
    "mds": ContainerRow("Mosaic MDS shards", can_write=False, suffix=".mds"),
    "webdataset": ContainerRow("WebDataset tar archives", can_write=False, suffix=".tar"),
    "recordio": ContainerRow("MXNet RecordIO files", can_write=False, suffix=".rec"),
    "listing": ContainerRow("listings of image files", can_write=False, is_external=False),
}
DEFAULT_CONTAINER = "tfrecord"


def find_container(name: str) -> Container:
    """Return the container with a name that manifests and the option ``container`` use."""
    if name not in CONTAINERS:
        raise ConfigError(f"container must be one of {', '.join(CONTAINERS)}, found {name!r}")
    container: Container = getattr(import_module(f".{name}", __package__), name.upper())
    return container


def find_writing(name: str) -> Writing:
    """Return how the shards of the container with a name are written."""
    if (writing := find_container(name).writing) is not None:
        return writing
    raise ConfigError(
        f"container must be one that can be written, {' or '.join(writable())}, found {name!r}",
        hint="Other containers are only read.",
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
