"""The contract of a container: all that a format of shard files provides to be read, indexed and written.

A container is one module with one :class:`Container`, and one row in
:mod:`stoker.formats.containers.registry`, where other modules find it. Some sources import one directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ..files.reading import FileDigests
from .messages.image_record import ExternalSample, FeatureNames, ImageRecord, StoredArray
from .messages.wire import Span

__all__ = [
    "Container",
    "PayloadFiles",
    "Read",
    "ReadStart",
    "Record",
    "RecordPart",
    "ShardWriter",
    "Sidecar",
    "Writing",
    "WrittenShard",
]

_Shard = TypeVar("_Shard")
Read = Callable[[int, int], bytes]
"""Returns bytes of a file, given an offset and a length; fewer at the end of the file."""

ReadStart = Callable[[str, int], bytes | None]
"""Reads the start of a file of a shard, given the file's name in the shard (empty for the shard itself) and
the most bytes to return. Returns None if there is no such regular file."""


class RecordPart(NamedTuple):
    """One named part of a record.

    Attributes:
        name: Its name, such as the suffix of a file in an archive.
        kind: Why it cannot be read, such as "link"; empty for a part that can be read.
        span: Its byte range in the value of the record.
        encoding: Encoding of its value, if the container states it.
    """

    name: str
    kind: str
    span: Span
    encoding: str = ""


class Record(NamedTuple):
    """One record in a data file.

    Attributes:
        number: Number of the record in the shard, from 0.
        key: The key in the container; empty if the container has none.
        offset: First byte of the value in the data file.
        length: Bytes of the value.
        view: The value; empty if ``read`` is given.
        parts: Its parts, if the container names them.
        pieces: Number of pieces of the value in the data file, the first at ``offset``; ``view`` joins them.
        read: Reads the data file, for a value that stays there; None if ``view`` has the value.
    """

    number: int
    key: bytes
    offset: int
    length: int
    view: memoryview
    parts: tuple[RecordPart, ...] = ()
    pieces: int = 1
    read: Read | None = None


@dataclass(frozen=True, eq=False)
class WrittenShard:
    """A shard that is complete on disk, though not yet synced or published.

    Attributes:
        files: Every file written, the data file first.
        data_bytes: Size of the data file.
        records: Number of records, N.
        digests: Digests of the data file.
        offset: (N,) int64, first byte of each payload in the data file.
        length: (N,) int64, bytes of each payload.
        crc: (N,) uint32, CRC32C of each payload.
    """

    files: tuple[Path, ...]
    data_bytes: int
    records: int
    digests: FileDigests
    offset: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    crc: npt.NDArray[np.uint32]


class ShardWriter(Protocol):
    """Writes one shard and its sidecar files; a context manager that always closes its files.

    It does not sync or rename files, because the conversion publishes the shard.
    """

    def __enter__(self) -> ShardWriter: ...

    def __exit__(self, *exception: object) -> None: ...

    def write(self, key: bytes, prefix: bytes, payload: Any, suffix: bytes) -> None:
        """Append a record whose value is ``prefix + payload + suffix``.

        Args:
            key: The sample's name.
            prefix: The bytes of the message before the payload.
            payload: Any C-contiguous buffer.
            suffix: The bytes of the message after the payload.

        Raises:
            OSError: The operating system refuses the write, such as on a full disk.
        """

    def finish(self) -> WrittenShard:
        """Write the remaining bytes, close the files and describe the shard."""


@dataclass(frozen=True)
class Sidecar:
    """A small file beside a shard that another reader needs, with one entry for each record.

    Attributes:
        suffix: Suffix of its name, such as ``.idx``. It must differ from the suffix of every container, and
            from ``.arrow`` and ``.json``.
        reader: The program that reads it, for messages.
        entry: Returns the entry of one record, called with ``Record.offset`` and ``Record.length``.
    """

    suffix: str
    reader: str
    entry: Callable[[int, int], bytes]

    def name(self, shard: str, *, external: bool = False) -> str:
        """Return the name of the file beside the shard named ``shard``.

        The suffix replaces the suffix of a shard that Stoker wrote. It follows the whole name of an external
        shard, because a name such as ``images.tfrecord-00000-of-00010`` has no suffix to replace.
        """
        return f"{shard}{self.suffix}" if external else str(PurePosixPath(shard).with_suffix(self.suffix))


@dataclass(frozen=True, kw_only=True)
class Writing:
    """How conversions write the shards of a container.

    Attributes:
        suffix: Suffix of the names of shards.
        writer: Starts a shard at a path that does not exist.
        wrap_image: Returns the bytes of a record before the encoded image and after it; the image lies
            between them in one piece. A mask lies in one piece in the bytes after it, where the conversion
            searches for it.
        wrap_arrays: Returns the bytes after those of ``wrap_image``, which hold each array in one piece, and
            the offset of each array in them. None if records hold no arrays.
    """

    suffix: str
    writer: Callable[[Path], ShardWriter]
    wrap_image: Callable[[ImageRecord], tuple[bytes, bytes]]
    wrap_arrays: Callable[[Sequence[StoredArray]], tuple[bytes, list[int]]] | None = None


@dataclass(frozen=True)
class PayloadFiles:
    """The functions that read payloads from separate files, which the data file names.

    The index has no checksums of such payloads.

    Attributes:
        read: Returns a payload, given the data file, offset and length. Raises OSError for a file that
            cannot be read, or has changed.
        path: Returns the path of the file of a record, given the data file and ``Record.number``.
    """

    read: Callable[[Path, int, int], bytes]
    path: Callable[[Path, int], str]


def _itself(shard: _Shard) -> _Shard:
    """Return a shard that is its own data file."""
    return shard


@dataclass(frozen=True, kw_only=True)
class Container:
    """One format of shard files. A shard is a file, or a folder with one data file in it.

    Loaders read a payload by offset and length, so it must be contiguous in the data file. A container whose
    records may lie in several pieces provides ``join``. A container that is only read has no ``writing``. The
    module of a container reads files by ``open_regular`` and ``read_at`` of :mod:`..files.reading`, and the
    size of an image by ``read_header`` of :mod:`..codecs.header`.

    Attributes:
        name: Name in manifests and on the command line.
        recognizes: Returns whether a shard has this format, by the first bytes of its files.
        scan: Yields the records of a data file from start to end. It checks every length against the file,
            and raises CorruptRecordError at the first fault.
        scan_at_url: As ``scan``, for a data file at a URL, given a function that reads it, its bytes and its
            URL. It reads no payload, and the values of its records stay in the file. None for a container
            whose shards must be read whole.
        parse_image: Returns the image in a record of an external shard, and what the record states about it.
            Raises SourceError for a record without an image, DecodeError for an image whose header is
            damaged, CorruptRecordError for a damaged record, and LeftOutError for a record that is left out
            and counted.
        data_file: Returns the data file of the shard at a local path; by default the shard itself.
        data_url: As ``data_file``, for a shard at a URL or in a remote dataset, by its name alone.
        writing: How shards are written; None for a container that is only read.
        sidecars: The files beside each shard; the writer writes them, or ``stoker index`` if it is external.
        feature_names: Default names of the parts of a record, for ``parse_image``; None for a container that
            needs no names.
        beside: Name of a file in the folder of a shard that ``scan`` compares with the shard; empty for none.
        join: Takes a value that lies in several pieces, and returns a record of one piece with the number of
            bytes before the value in it. The indexer writes such records to a new shard.
        payload_files: How payloads are read from separate files; None if they lie in the data file.
    """

    name: str
    recognizes: Callable[[ReadStart], bool]
    scan: Callable[[Path], Iterator[Record]]
    parse_image: Callable[[Record, FeatureNames], ExternalSample]
    data_file: Callable[[Path], Path] = _itself
    data_url: Callable[[str], str] = _itself
    writing: Writing | None = None
    sidecars: tuple[Sidecar, ...] = ()
    feature_names: FeatureNames | None = None
    beside: str = ""
    join: Callable[[memoryview], tuple[bytes, int]] | None = None
    payload_files: PayloadFiles | None = None
    scan_at_url: Callable[[Read, int, str], Iterator[Record]] | None = None
