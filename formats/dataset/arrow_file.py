"""A check whether an Arrow IPC file is compressed, which PyArrow reports only after decompression.

The layout is that of https://arrow.apache.org/docs/format/Columnar.html#ipc-file-format, and the tables are
those of format/File.fbs and format/Message.fbs in the repository of Arrow, as FlatBuffers.
"""

from __future__ import annotations

import struct

import pyarrow as pa

_TAIL = struct.Struct("<i6s")  # length of the footer, and the magic bytes
_BLOCK = struct.Struct("<qi4xq")  # a message: its offset, bytes of its metadata, bytes of its body
_CONTINUED = 0xFFFFFFFF
_DICTIONARIES, _RECORD_BATCHES = 2, 3  # fields of Footer
_HEADER = 2  # field of Message
_COMPRESSION = 3  # field of RecordBatch


def is_compressed(file: pa.NativeFile) -> bool:
    """Return whether a file is compressed, or has dictionaries, which may be compressed."""
    size = file.size()
    length, _ = _TAIL.unpack(_read(file, size - _TAIL.size, _TAIL.size))
    footer = _read(file, size - _TAIL.size - length, length)
    root = _offset(footer, 0)
    dictionaries = _field(footer, root, _DICTIONARIES)
    if dictionaries and _number(footer, _offset(footer, dictionaries)):
        return True
    batches = _offset(footer, _field(footer, root, _RECORD_BATCHES))
    offset, metadata_bytes, _ = _BLOCK.unpack_from(footer, batches + 4)
    message = _read(file, offset, metadata_bytes)
    # Files of old versions have no mark before the length.
    message = message[8 if _number(message, 0) == _CONTINUED else 4 :]
    header = _offset(message, _field(message, _offset(message, 0), _HEADER))
    return _field(message, header, _COMPRESSION) != 0


def _read(file: pa.NativeFile, offset: int, length: int) -> bytes:
    if offset < 0 or not 0 <= length <= file.size() - offset:
        raise struct.error("a part of the file lies outside of it")
    return bytes(file.read_at(length, offset))


def _number(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", data, at)[0])


def _offset(data: bytes, at: int) -> int:
    """Return the absolute offset that the relative offset at ``at`` leads to."""
    return at + _number(data, at)


def _field(data: bytes, table: int, number: int) -> int:
    """Return the offset of a field of a table; 0 if it is absent."""
    vtable = table - int(struct.unpack_from("<i", data, table)[0])
    (vtable_bytes,) = struct.unpack_from("<H", data, vtable)
    slot = 4 + 2 * number
    if slot >= vtable_bytes:
        return 0
    (field_offset,) = struct.unpack_from("<H", data, vtable + slot)
    return table + int(field_offset) if field_offset else 0
