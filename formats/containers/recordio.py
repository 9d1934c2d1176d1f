"""The container RecordIO: MXNet's ``.rec`` files of images, as ``im2rec`` writes them; read in place.

A file is a row of records, each padded to four bytes: a magic number, a continuation flag of 3 bits with a
length of 29 bits, and the value. A value that contains the magic number at a multiple of four bytes is cut
there into pieces, without that number (include/dmlc/recordio.h in dmlc-core). The value of an image is an
``IRHeader`` and the encoded image (python/mxnet/recordio.py, MXNet 1.9). All numbers are little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from stoker.errors import DecodeError, SourceError

from ..files import open_regular, read_at
from .container import BadShardError, Container, ReadStart, Record, read_whole
from .image_record import ExternalSample, FeatureNames, to_label
from .protobuf import Span

_PIECE = struct.Struct("<II")  # magic number; continuation flag and length
_MAGIC = 0xCED7230A
_MAGIC_BYTES = _MAGIC.to_bytes(4, "little")
_LENGTH_BITS = 29
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)  # continuation flags
_IMAGE = struct.Struct("<IfQQ")  # flag, which is the number of labels that follow; label; id; second id


class _Piece(NamedTuple):
    """A piece of a value: its continuation flag, its bytes in the file, and where the next piece starts."""

    flag: int
    offset: int
    length: int
    end: int


def scan(path: Path) -> Iterator[Record]:
    """Yield the records of a RecordIO file; every magic number, flag and length is checked."""
    # RecordIO stores no checksums of values.
    with open_regular(path) as (descriptor, size):
        offset = number = 0
        while offset < size:
            try:
                pieces = _pieces(descriptor, offset, size)
                parts = [read_whole(descriptor, piece.offset, piece.length) for piece in pieces]
            except BadShardError as error:
                error.key = (
                    _key(read_at(descriptor, offset + _PIECE.size, _IMAGE.size), number).decode() or None
                )
                error.hint = None if number else "The file is damaged, or it is not a RecordIO file."
                raise error.about(number, path) from error
            value = memoryview(_MAGIC_BYTES.join(parts))
            first = pieces[0].offset
            yield Record(number, _key(value, number), first, len(value), value, pieces=len(pieces))
            offset = pieces[-1].end
            number += 1


def _pieces(descriptor: int, offset: int, size: int) -> list[_Piece]:
    pieces = [_piece(descriptor, offset, size)]
    if pieces[0].flag not in (_WHOLE, _FIRST):
        raise BadShardError(f"the record starts with continuation flag {pieces[0].flag}")
    while pieces[-1].flag in (_FIRST, _MIDDLE):
        piece = _piece(descriptor, pieces[-1].end, size)
        if piece.flag not in (_MIDDLE, _LAST):
            raise BadShardError(f"a record in pieces goes on with continuation flag {piece.flag}")
        pieces.append(piece)
    return pieces


def _piece(descriptor: int, offset: int, size: int) -> _Piece:
    header = read_at(descriptor, offset, _PIECE.size)
    if len(header) < _PIECE.size:
        raise BadShardError(f"the file ends within a record, {len(header)} bytes after the start of a piece")
    magic, word = _PIECE.unpack(header)
    if magic != _MAGIC:
        raise BadShardError(f"the magic number is {magic:#010x}, not {_MAGIC:#010x}, at byte {offset}")
    length, start = word & ((1 << _LENGTH_BITS) - 1), offset + _PIECE.size
    if (left := size - start) < length:
        raise BadShardError(f"the record claims {length} bytes where {left} are left")
    return _Piece(word >> _LENGTH_BITS, start, length, start + -(-length // 4) * 4)


def _key(value: bytes | memoryview, number: int) -> bytes:
    """Return the id of an image; empty if there is none. Writers that set no ids leave 0 in all records."""
    if len(value) < _IMAGE.size:
        return b""
    image_id = _IMAGE.unpack_from(value)[2]
    return b"%d" % image_id if image_id or not number else b""


def parse_image(record: Record, names: FeatureNames) -> ExternalSample:
    """Find the image of a record, with one label if the flag is 0, and otherwise as many as the flag says."""
    # ``names`` states the form of the label, and whether the image is raw pixels, with their shape.
    if record.length < _IMAGE.size:
        raise SourceError(
            f"the record has {record.length} bytes, and the header of an image has {_IMAGE.size}",
            hint="Images are read from what im2rec and mxnet.recordio.pack write.",
        )
    count, label, _, _ = _IMAGE.unpack_from(record.view)
    start = _IMAGE.size + 4 * count
    if start > record.length:
        raise SourceError(
            f"the record claims {count} labels where {record.length - _IMAGE.size} bytes are left",
            hint="Copy the file again, or write it again with im2rec.",
        )
    if start == record.length:  # files of faces begin with such a record
        raise DecodeError("the record has no image")
    labels = struct.unpack_from(f"<{count}f", record.view, _IMAGE.size) if count else (label,)
    return ExternalSample(
        payload=Span(start, record.length - start),
        key=record.key.decode(),
        label=to_label(labels, names.label_type, "the label in the record's header"),
        header=names.raw_header(record.length - start),
    )


def join(value: memoryview) -> tuple[bytes, int]:
    """Return a record of one piece; its value may contain the magic number, as readers use the length."""
    header = _PIECE.pack(_MAGIC, _WHOLE << _LENGTH_BITS | len(value))
    return b"".join((header, value, bytes(-len(value) % 4))), len(header)


def join_pieces(data: bytes) -> bytes:
    """Return a part of a value that lies in several pieces, as it was before it was cut."""
    # A value is cut at every magic number at a multiple of four bytes. The file keeps that number, with four
    # bytes for flag and length after it. ``data`` starts a multiple of four bytes after the start of the
    # value.
    parts, start, at = [], 0, data.find(_MAGIC_BYTES)
    while at >= 0:
        if at % 4:
            at = data.find(_MAGIC_BYTES, at + 1)
            continue
        parts.append(data[start : at + 4])
        start = at + _PIECE.size
        at = data.find(_MAGIC_BYTES, start)
    return b"".join((*parts, data[start:]))


def _recognizes(read_start: ReadStart) -> bool:
    header = read_start("", _PIECE.size)
    if header is None or len(header) < _PIECE.size:
        return False
    magic, word = _PIECE.unpack(header)
    return magic == _MAGIC and word >> _LENGTH_BITS in (_WHOLE, _FIRST)


RECORDIO = Container(name="recordio", recognizes=_recognizes, scan=scan, parse_image=parse_image, join=join)
