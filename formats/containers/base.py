"""What the containers have in common: the same verbs on the same few types.

A container is a module with ``Writer``, ``scan``, ``data_file`` and ``SUFFIX``; see :class:`Container`.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from stoker.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

__all__ = ["CONTAINERS", "Container", "Record", "Writer", "WrittenShard", "container"]

CONTAINERS = ("tfrecord", "lmdb")


class Record(NamedTuple):
    """One record as it lies in a data file.

    Attributes:
        position: From 0.
        key: The container's own key; empty where it has none.
        offset: First byte of the value in the data file.
        length: Bytes of the value.
        view: The value.
    """

    position: int
    key: bytes
    offset: int
    length: int
    view: memoryview


@dataclass(frozen=True, eq=False)
class WrittenShard:
    """A shard that is complete on disk, though not yet synced or published.

    Attributes:
        files: Every file written, the data file first.
        data_bytes: Size of the data file.
        records: Number of records, N.
        digest: CRC32C of the data file, ``crc32c:%08x``.
        offset: (N,) int64, first byte of each payload in the data file.
        length: (N,) int64, bytes of each payload.
        crc: (N,) uint32, CRC32C of each payload.
    """

    files: tuple[Path, ...]
    data_bytes: int
    records: int
    digest: str
    offset: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    crc: npt.NDArray[np.uint32]


class Writer(Protocol):
    """Writes one shard; a context manager that leaves no descriptor open, whatever happens.

    Nothing is synced and nothing renamed: publishing belongs to whoever writes the manifest.
    """

    def __enter__(self) -> Writer: ...

    def __exit__(self, *exception: object) -> None: ...

    def write(self, key: bytes, prefix: bytes, payload: Any, suffix: bytes) -> None:
        """Append a record whose value is ``prefix + payload + suffix``.

        Args:
            key: The sample's name.
            prefix: What the message has before the payload.
            payload: Any C-contiguous buffer.
            suffix: What the message has after it.

        Raises:
            OSError: As the operating system says, for instance that the disk is full.
        """

    def finish(self) -> WrittenShard:
        """Write what is left, close the files and say what they hold."""


class Container(Protocol):
    """The verbs of a container module."""

    SUFFIX: str

    def Writer(self, path: Path) -> Writer:  # noqa: N802 - a class in each container module
        """Start a shard at ``path``, which must not exist."""

    def scan(self, path: Path) -> Iterator[Record]:
        """Read a data file from start to end; CorruptRecordError at the first thing wrong."""

    def data_file(self, path: Path) -> Path:
        """Name of the file in which a shard's payloads lie."""


def container(name: str) -> Container:
    """Look up a container by its name in manifests and on the command line.

    Raises:
        ConfigError: There is no such container.
    """
    if name not in CONTAINERS:
        raise ConfigError(f"format must be one of {', '.join(CONTAINERS)}, not {name!r}")
    return cast("Container", importlib.import_module(f"stoker.formats.containers.{name}"))
