"""The contract of a container, a format of shard files that is read and perhaps written; and their table.

A new container is a module of this folder and a row of ``CONTAINERS``. Messages, the help of the command line
and the checks of options take the names from the table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from stoker.arguments import one_of
from stoker.errors import ConfigError, CorruptRecordError

from ..files import FileDigests, is_of_machine, open_regular, read_at, reason_of, storage_error
from .image_record import ExternalSample, FeatureNames, ImageRecord, StoredArray
from .protobuf import Span

if TYPE_CHECKING:  # the help of the command line loads no NumPy
    import numpy as np
    import numpy.typing as npt

_Shard = TypeVar("_Shard")
Read = Callable[[int, int], bytes]
"""Returns bytes of a file, given an offset and a length; fewer at the end of the file."""

ReadStart = Callable[[str, int], bytes | None]
"""Reads the start of a file of a shard, given the file's name in the shard (empty for the shard itself) and
the most bytes to return. Returns None if there is no such regular file."""


class BadShardError(ValueError):
    """A fault of a shard; ``scan`` turns it into a CorruptRecordError that names the shard and the record."""

    def __init__(self, message: str, hint: str | None = None, key: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.key = key  # Key of the damaged record, if it is known

    def about(self, record: int, path: str | Path, shard: str | None = None) -> CorruptRecordError:
        """Return the error about a record of a file, which belongs to a shard of that name."""
        name = os.fspath(path).rpartition("/")[2] if shard is None else shard
        return CorruptRecordError(
            str(self), path=path, shard=name, record=record, key=self.key, hint=self.hint
        )


def read_whole(descriptor: int, offset: int, length: int) -> bytes:
    """Return bytes of an open file, all of which must be there."""
    data = read_at(descriptor, offset, length)
    if len(data) < length:
        raise BadShardError("the file became shorter while it was read")
    return data


class RecordPart(NamedTuple):
    """One named part of a record."""

    name: str  # Its name, such as the suffix of a file in an archive
    kind: str  # Why it cannot be read, such as "link"; empty for a part that can be read
    span: Span  # Its byte range in the value of the record
    encoding: str = ""  # Encoding of its value, if the container states it


class Record(NamedTuple):
    """One record in a data file."""

    number: int  # Number of the record in the shard, from 0
    key: bytes  # The key in the container; empty if the container has none
    offset: int  # First byte of the value in the data file
    length: int  # Bytes of the value
    view: memoryview  # The value; empty if ``read`` is given
    parts: tuple[RecordPart, ...] = ()  # Its parts, if the container names them
    # Number of pieces of the value in the data file, the first at ``offset``; ``view`` joins them
    pieces: int = 1
    # Reads the data file, for a value that stays there; None if ``view`` has the value
    read: Read | None = None

    def bytes_of(self, span: Span) -> bytes:
        """Return bytes of the value."""
        if self.read is not None:
            return self.read(self.offset + span.offset, span.length)
        return bytes(span.of(self.view))


@dataclass(frozen=True, eq=False)
class WrittenShard:
    """A shard that is complete on disk, though not yet synced or published."""

    files: tuple[Path, ...]  # Every file written, the data file first
    data_bytes: int  # Size of the data file
    records: int  # Number of records, N
    digests: FileDigests  # Digests of the data file
    offset: npt.NDArray[np.int64]  # (N,) int64, first byte of each payload in the data file
    length: npt.NDArray[np.int64]  # (N,) int64, bytes of each payload
    crc: npt.NDArray[np.uint32]  # (N,) uint32, CRC32C of each payload


class ShardWriter(Protocol):
    """Writes one shard and its sidecar files; a context manager that always closes its files.

    It does not sync or rename files, because the conversion publishes the shard.
    """

    def __enter__(self) -> ShardWriter: ...

    def __exit__(self, *exception: object) -> None: ...

    def write(self, key: bytes, prefix: bytes, payload: Any, suffix: bytes) -> None:
        """Append a record whose value is ``prefix + payload + suffix``."""

    def finish(self) -> WrittenShard:
        """Write the remaining bytes, close the files and describe the shard."""


@dataclass(frozen=True)
class Sidecar:
    """A small file beside a shard that another reader needs, with one entry for each record."""

    # Suffix of its name, such as ``.idx``. It must differ from the suffix of every container, and from
    # ``.arrow`` and ``.json``
    suffix: str
    reader: str  # The program that reads it, for messages
    # Returns the entry of one record, called with ``Record.offset`` and ``Record.length``
    entry: Callable[[int, int], bytes]

    def name(self, shard: str, *, external: bool = False) -> str:
        """Return the name of the file beside the shard named ``shard``."""
        # The suffix replaces the suffix of a shard that Stoker wrote. It follows the whole name of an
        # external shard, because a name such as ``images.tfrecord-00000-of-00010`` has no suffix to replace.
        return f"{shard}{self.suffix}" if external else str(PurePosixPath(shard).with_suffix(self.suffix))


@dataclass(frozen=True, kw_only=True)
class Writing:
    """How conversions write the shards of a container."""

    suffix: str  # Suffix of the names of shards
    writer: Callable[[Path], ShardWriter]  # Starts a shard at a path that does not exist
    # Returns the bytes of a record before the encoded image and after it
    wrap_image: Callable[[ImageRecord], tuple[bytes, bytes]]
    # Returns the bytes of a record before an array and after it, which follow those of ``wrap_image``
    wrap_array: Callable[[StoredArray], tuple[bytes, bytes]]


@dataclass(frozen=True)
class PayloadFiles:
    """The functions that read payloads from separate files, which the data file names.

    The index has no checksums of such payloads.
    """

    read: Callable[[Path, int, int], bytes]  # Returns a payload, given the data file, offset and length
    # Returns the path of the file of a record, given the data file and ``Record.number``
    path: Callable[[Path, int], str]


def _itself(shard: _Shard) -> _Shard:
    return shard


@dataclass(frozen=True, kw_only=True)
class Container:
    """One format of shard files. A shard is a file, or a folder with one data file in it.

    Loaders read a payload by offset and length, so it must be contiguous in the data file. A container whose
    records may lie in several pieces provides ``join``. A container that is only read has no ``writing``.
    """

    name: str  # Name in manifests and on the command line
    # Returns whether a shard has this format, by the first bytes of its files
    recognizes: Callable[[ReadStart], bool]
    scan: Callable[[Path], Iterator[Record]]  # Yields the records of a data file from start to end
    # Finds the image in a record of an external shard, and what the record states about it
    parse_image: Callable[[Record, FeatureNames], ExternalSample]
    # Returns the data file of the shard at a local path; by default the shard itself
    data_file: Callable[[Path], Path] = _itself
    # As ``data_file``, for a shard at a URL or in a remote dataset, by its name alone
    data_url: Callable[[str], str] = _itself
    writing: Writing | None = None  # How shards are written; None for a container that is only read
    # The files beside each shard; the writer writes them, or ``stoker index`` if it is external
    sidecars: tuple[Sidecar, ...] = ()
    # Default names of the parts of a record, for ``parse_image``; None for a container that needs no names
    feature_names: FeatureNames | None = None
    # Name of a file in the folder of a shard that ``scan`` compares with the shard; empty for none
    beside: str = ""
    # Takes a value that lies in several pieces, and returns a record of one piece with the number of bytes
    # before the value in it. The indexer writes such records to a new shard
    join: Callable[[memoryview], tuple[bytes, int]] | None = None
    # How payloads are read from separate files; None if they lie in the data file
    payload_files: PayloadFiles | None = None
    # As ``scan``, given a function that reads the data file, its bytes, and its path or URL for errors. The
    # values of the records stay in the file. None for a container whose shards must be read whole
    scan_headers: Callable[[Read, int, str], Iterator[Record]] | None = None
    # Suffixes of shards that are compressed as a whole, which conversions decompress
    compressed_suffixes: tuple[str, ...] = ()


class ContainerRow(NamedTuple):
    """What is known of a container before its module is imported.

    The module has the name of the container, and the container in it the same name in capitals.
    """

    plural: str  # Plural noun for its shards in messages and help, such as "TFRecord files"
    can_write: bool = True  # Whether the container has a :class:`Writing`
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
SUFFIXES = tuple(row.suffix for row in CONTAINERS.values() if row.suffix)
DEFAULT_CONTAINER = "tfrecord"


def find_container(name: str) -> Container:
    """Return the container with a name that manifests and the option ``container`` use."""
    one_of("container", name, CONTAINERS)
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
    """Return the first bytes of a file of a local shard, see :data:`ReadStart`."""
    try:
        with open_regular(path / name) as (descriptor, _):
            return read_at(descriptor, 0, most)
    except OSError as error:
        if is_of_machine(reason := reason_of(error)) and not isinstance(error, PermissionError):
            raise storage_error(reason, path / name, hint="Make the file readable, and try again.") from error
        return None
