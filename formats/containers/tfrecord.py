"""The container TFRecord: files of tf.train.Example, with an index for DALI beside each.

A file is a row of records: length, masked CRC of the length, value, masked CRC of the value. The format is
TensorFlow's (tensorflow/core/lib/io/record_writer.h, TensorFlow 2.21): lengths are uint64 and checksums
uint32, both little-endian.
"""

from __future__ import annotations

import hashlib
import shlex
import struct
from array import array
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from stoker._native import crc32c
from stoker.errors import CorruptRecordError

from ..files.reading import FileDigests, digest_of, open_regular, read_at
from .base import Container, ReadStart, Record, Sidecar, Writing, WrittenShard
from .messages.image_example import parse_image, wrap_arrays, wrap_image
from .messages.image_record import FeatureNames

_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
_FRAMING = _HEADER.size + _FOOTER.size
_BUFFER = 1 << 20
# A protocol buffer message is shorter than 2 GiB: a sparse file cannot make a reader allocate more.
_LONGEST = (1 << 31) - 1


def masked_crc(crc: int) -> int:
    """Return a CRC32C as TFRecord stores it: rotated right by 15 bits, plus 0xa282ead8.

    The formula is ``Mask`` in tensorflow/tsl (xla/tsl/lib/hash/crc32c.h).
    """
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _dali_index_line(value_offset: int, value_length: int) -> bytes:
    """Return a line of the index of DALI's ``readers.tfrecord``: first byte and bytes of the record."""
    return b"%d %d\n" % (value_offset - _HEADER.size, value_length + _FRAMING)


DALI_INDEX = Sidecar(".idx", "DALI", _dali_index_line)


class TFRecordWriter:
    """Writes one TFRecord shard and its DALI index; a :class:`.base.ShardWriter`."""

    def __init__(self, path: Path) -> None:
        self._path = Path(path)
        self._file = self._path.open("xb", buffering=_BUFFER)
        self._size = 0
        self._crc = 0
        self._sha256 = hashlib.sha256()
        self._index = bytearray()
        # For each payload. A shard may have millions, so these are the smallest types that hold the numbers.
        self._offsets, self._lengths, self._checksums = array("q"), array("I"), array("I")

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        # Closing flushes again, but the error of a full disk was raised before.
        with suppress(OSError):
            self._file.close()

    def write(self, key: bytes, prefix: bytes, payload: Any, suffix: bytes) -> None:
        """Append a record whose value is ``prefix + payload + suffix``; TFRecord stores no key."""
        size = memoryview(payload).nbytes
        length = len(prefix) + size + len(suffix)
        if length > _LONGEST:
            raise ValueError(f"a record holds at most {_LONGEST} bytes, not {length}")
        length_bytes = struct.pack("<Q", length)
        header = length_bytes + _FOOTER.pack(masked_crc(crc32c(length_bytes)))
        value_crc = crc32c(suffix, crc32c(payload, crc32c(prefix)))
        self._index += DALI_INDEX.entry(self._size + _HEADER.size, length)
        self._offsets.append(self._size + len(header) + len(prefix))
        self._lengths.append(size)
        self._checksums.append(crc32c(payload))
        for part in (header + prefix, payload, suffix + _FOOTER.pack(masked_crc(value_crc))):
            self._file.write(part)
            self._crc = crc32c(part, self._crc)
            self._sha256.update(part)
        self._size += length + _FRAMING

    def finish(self) -> WrittenShard:
        """Write the remaining bytes and the DALI index, and close both files."""
        self._file.close()
        index = self._path.with_name(DALI_INDEX.name(self._path.name))
        index.write_bytes(self._index)
        return WrittenShard(
            files=(self._path, index),
            data_bytes=self._size,
            records=len(self._offsets),
            digests=FileDigests(digest_of(self._crc), self._sha256.hexdigest()),
            offset=np.array(self._offsets, np.int64),
            length=np.array(self._lengths, np.int64),
            crc=np.array(self._checksums, np.uint32),
        )


def scan(path: Path) -> Iterator[Record]:
    """Yield the records of a TFRecord file; every length and every checksum is checked.

    A length is compared with the size of the file before anything is allocated for it.
    """
    with open_regular(path) as (descriptor, size):
        offset = number = 0
        while offset < size:
            header = read_at(descriptor, offset, _HEADER.size)
            length = _value_length(path, number, header, size - offset)
            offset += _HEADER.size
            body = read_at(descriptor, offset, length + _FOOTER.size)
            if len(body) < length + _FOOTER.size:
                raise _corrupt("the file became shorter while it was read", path, number)
            view = memoryview(body)[:length]
            if masked_crc(crc32c(view)) != _FOOTER.unpack_from(body, length)[0]:
                raise _corrupt("the value's checksum does not match", path, number)
            yield Record(number, b"", offset, length, view)
            offset += length + _FOOTER.size
            number += 1


def _value_length(path: Path, number: int, header: bytes, left: int) -> int:
    if len(header) < _HEADER.size or left < _FRAMING:
        raise _corrupt(f"the file ends within a record, {left} bytes after its start", path, number)
    length, crc = _HEADER.unpack(header)
    if masked_crc(crc32c(header[:8])) != crc:
        if number == 0:
            _check_uncompressed(path, header)
        hint = None if number else "the file is damaged, or it is no TFRecord"
        raise _corrupt("the length's checksum does not match", path, number, hint)
    if length > min(left - _FRAMING, _LONGEST):
        raise _corrupt(f"the record claims {length} bytes where {left - _FRAMING} are left", path, number)
    return int(length)


def _check_uncompressed(path: Path, header: bytes) -> None:
    """Raise CorruptRecordError for a file that TensorFlow wrote with compression, GZIP or ZLIB."""
    plain = shlex.quote(f"{path.name.removesuffix('.gz').removesuffix('.tfrecord')}-plain.tfrecord")
    packed = shlex.quote(path.name)
    if header[:2] == b"\x1f\x8b":
        # With a redirection, because gunzip refuses names that do not end in .gz.
        name, command = "gzip", f"gunzip < {packed} > {plain}"
    elif header[0] & 15 == 8 and int.from_bytes(header[:2], "big") % 31 == 0:  # RFC 1950, section 2.2
        inflate = "import sys, zlib; sys.stdout.buffer.write(zlib.decompress(sys.stdin.buffer.read()))"
        name, command = "zlib", f'python -c "{inflate}" < {packed} > {plain}'
    else:
        return
    raise _corrupt(
        f"the file is compressed with {name}, which allows no random access",
        path,
        0,
        hint=f"decompress it first: {command}",
    )


def _corrupt(message: str, path: Path, number: int, hint: str | None = None) -> CorruptRecordError:
    return CorruptRecordError(message, path=path, shard=Path(path).name, record=number, hint=hint)


def _recognizes(read_start: ReadStart) -> bool:
    """Return whether the shard is a file that starts with a length and its checksum."""
    header = read_start("", _HEADER.size)
    return (
        header is not None
        and len(header) == _HEADER.size
        and masked_crc(crc32c(header[:8])) == _HEADER.unpack(header)[1]
    )


TFRECORD = Container(
    name="tfrecord",
    recognizes=_recognizes,
    scan=scan,
    parse_image=parse_image,
    writing=Writing(
        suffix=".tfrecord", writer=TFRecordWriter, wrap_image=wrap_image, wrap_arrays=wrap_arrays
    ),
    sidecars=(DALI_INDEX,),
    feature_names=FeatureNames(),
)
