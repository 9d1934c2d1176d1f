"""The wire format of protocol buffers, in the parts that Example and Datum need (docs/decisions/0012).

The encoding is that of https://protobuf.dev/programming-guides/encoding/. Reading is strict: every length
is checked against the message that contains it, and nothing is allocated for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stoker.errors import CorruptRecordError

__all__ = [
    "FIXED32",
    "FIXED64",
    "LENGTH",
    "VARINT",
    "Field",
    "Span",
    "delimited",
    "fields",
    "read_varint",
    "signed",
    "varint",
]

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_WIDTH = {FIXED64: 8, FIXED32: 4}
_MASK = (1 << 64) - 1
_BYTES = [bytes([value]) for value in range(128)]


class Span(NamedTuple):
    """A byte range of a buffer: the offset of its first byte, and its length."""

    offset: int
    length: int

    def of(self, data: memoryview) -> memoryview:
        """Return these bytes of a buffer."""
        return data[self.offset : self.offset + self.length]


class Field(NamedTuple):
    """One field of a message: its number, its wire type, the span of its value, and the value of a varint."""

    number: int
    wire: int
    span: Span
    value: int


def varint(value: int) -> bytes:
    """Encode an integer of up to 64 bits. A negative one takes ten bytes, as its two's complement."""
    if 0 <= value < 128:  # most values are: numbers of fields, short lengths
        return _BYTES[value]
    value &= _MASK
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def delimited(number: int, content: bytes, following: int = 0) -> bytes:
    """Return field ``number`` up to the end of ``content``; ``following`` more bytes of its value follow."""
    return varint(number << 3 | LENGTH) + varint(len(content) + following) + content


def read_varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """Return the value of the varint at ``at`` as uint64, and the offset after the varint."""
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > _MASK:
                break
            return value, at
        shift += 7
        if shift > 63:
            break
    raise CorruptRecordError("the message has a number that does not end or is too large")


def signed(value: int) -> int:
    """Return the int64 whose two's complement is the uint64 ``value``."""
    return value - (1 << 64) if value >> 63 else value


def fields(data: memoryview, span: Span) -> Iterator[Field]:
    """Yield the fields of the message in ``span``, in the order of the wire."""
    at, end = span.offset, span.offset + span.length
    while at < end:
        tag, at = read_varint(data, at, end)
        number, wire = tag >> 3, tag & 7
        value = 0
        start = at
        if wire == VARINT:
            value, at = read_varint(data, at, end)
        elif wire == LENGTH:
            length, start = read_varint(data, at, end)
            at = start + length
        elif wire in _WIDTH:
            at += _WIDTH[wire]
        else:
            raise CorruptRecordError(f"the message has a field of the unknown wire type {wire}")
        if at > end:
            raise CorruptRecordError("the message has a field that reaches beyond its end")
        if not 0 < number < 1 << 29:
            raise CorruptRecordError(f"the message has a field with the number {number}, which no field has")
        yield Field(number, wire, Span(start, at - start), value)
