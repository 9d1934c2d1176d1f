"""Listings of image files: a container whose payloads stay in the files of a folder.

The data file of such a shard, :data:`LISTING_NAME`, names the files. Their bytes count as if the files lay
one after the other, so a payload has an offset and a length as in any shard. There are no checksums. Instead,
a reader compares the size and the time of the last change of each file that it opens.

A listing has the following parts; all numbers are little-endian int64:

- the 8 bytes ``STKLIST1``
- the number of files N, the bytes of the folder's path, and the bytes of all names
- N + 1 numbers: the start of each file, counted in the bytes of all files
- N numbers: the times of the last changes, nanoseconds since 1970
- N + 1 numbers: the start of each name
- the path of the folder, relative to the folder of the listing or absolute
- the names, relative to the folder or absolute, in UTF-8

``native/records/file_listing.h`` also reads it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker._native import Shards
from stoker.errors import CorruptRecordError, SourceError

from ..files import open_regular, read_at
from .container import Container, PayloadFiles, Record
from .image_record import FeatureNames

Int64 = npt.NDArray[np.int64]

LISTING_NAME = "files.listing"
_MAGIC = b"STKLIST1"
_HEADER = struct.Struct("<8sqqq")


@dataclass(frozen=True)
class FileListing:
    """The content of a listing of N files, mapped."""

    root: str  # Absolute path of the folder
    starts: Int64  # (N + 1,) int64, start of each file, counted in the bytes of all files
    modified: Int64  # (N,) int64, times of the last changes, nanoseconds since 1970
    name_starts: Int64  # (N + 1,) int64, start of each name in ``text``
    text: npt.NDArray[np.uint8]  # (T,) uint8, the names

    @property
    def sizes(self) -> Int64:
        """(N,) int64, bytes of each file."""
        return np.diff(self.starts)

    def path(self, number: int) -> str:
        name = self.text[self.name_starts[number] : self.name_starts[number + 1]].tobytes()
        return os.path.join(self.root, name.decode(errors="replace"))  # noqa: PTH118 - names may be absolute


def write_listing(path: Path, root: str, names: pa.Array, sizes: Int64, modified: Int64) -> Int64:
    """Write a listing, and return the start of each of its files, (N,) int64."""
    # names (N,), sizes (N,) int64, modified (N,) int64
    _, name_starts, text = names.buffers()
    bounds = np.frombuffer(name_starts, np.int64)[: len(names) + 1]
    starts = np.zeros(len(names) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    folder = os.fsencode(root)
    with path.open("xb") as file:
        file.write(_HEADER.pack(_MAGIC, len(names), len(folder), int(bounds[-1])))
        for numbers in (starts, modified, bounds):
            file.write(np.ascontiguousarray(numbers, "<i8").data)
        file.write(folder)
        file.write(memoryview(text)[: int(bounds[-1])])
    return starts[:-1]


def read_listing(path: Path) -> FileListing:
    """Map a listing."""
    with open_regular(path) as (descriptor, size):
        header = read_at(descriptor, 0, _HEADER.size).ljust(_HEADER.size, b"\0")
    magic, count, root_bytes, text_bytes = _HEADER.unpack(header)
    expected = _HEADER.size + 8 * (3 * count + 2) + root_bytes + text_bytes
    if magic != _MAGIC or min(count, root_bytes, text_bytes) < 0 or size != expected:
        raise CorruptRecordError("the listing of files is damaged", path=path, hint="Make the index again.")
    data: npt.NDArray[np.uint8] = np.memmap(path, np.uint8, "r")
    _, numbers, text = np.split(data, [_HEADER.size, _HEADER.size + 8 * (3 * count + 2)])
    starts, modified, name_starts = np.split(numbers.view("<i8"), [count + 1, 2 * count + 1])
    root = os.path.join(path.absolute().parent, os.fsdecode(text[:root_bytes].tobytes()))  # noqa: PTH118
    return FileListing(root, starts, modified, name_starts, text[root_bytes:])


def _scan(path: Path) -> Iterator[Record]:
    listing = read_listing(path)
    starts, sizes = listing.starts.tolist(), listing.sizes.tolist()
    for number, (start, size) in enumerate(zip(starts, sizes, strict=False)):
        yield Record(number, b"", start, size, memoryview(b""))


def _parse_image(record: Record, names: FeatureNames) -> NoReturn:
    raise SourceError(
        "a listing of image files is not a shard", hint="Index the folder of the images itself."
    )


def _read(path: Path, offset: int, length: int) -> bytes:
    try:
        status = path.stat()
        return bytes(
            _opened(str(path), status.st_size, status.st_mtime_ns, status.st_ino).view(0, offset, length)
        )
    except (ValueError, RuntimeError) as error:  # RuntimeError: a damaged name is not UTF-8
        raise OSError(str(error)) from error


@lru_cache(maxsize=4)
def _opened(path: str, size: int, modified: int, inode: int) -> Shards:  # a new file may take its place
    return Shards([path], [size])


def _path_of(path: Path, record: int) -> str:
    listing = read_listing(path)
    return listing.path(record) if 0 <= record < len(listing.modified) else str(path)


LISTING = Container(
    name="listing",
    recognizes=lambda read_start: False,  # it is part of a dataset, not a shard of another program
    scan=_scan,
    parse_image=_parse_image,
    payload_files=PayloadFiles(_read, _path_of),
)
