"""Protocol buffers, as far as records need them: the wire format, and tf.train.Example."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, cast

from stoker.errors import CorruptRecordError

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_WIDTH = {FIXED64: 8, FIXED32: 4}
_MASK = (1 << 64) - 1
_BYTES = [bytes([value]) for value in range(128)]


class Span(NamedTuple):
    """A byte range of a buffer: the offset of its first byte, and its length."""

    offset: int
    length: int

    def of(self, data: memoryview) -> memoryview:
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


Feature = bytes | str | int | Sequence[bytes] | Sequence[int] | Sequence[float]
"""The value of a feature. A single integer or a text is remembered: sizes, labels and classes repeat."""

_Values = list[Span] | list[int] | list[float]
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = 1, 2, 3


def encode_example(
    features: Mapping[str, Feature], payload: str | None = None, payload_bytes: int = 0
) -> tuple[bytes, bytes]:
    """Encode an Example, in the order of the names; return the bytes before its payload and after it."""
    before: list[bytes] = []
    after: list[bytes] = []
    parts = before
    for name in sorted([*features, payload] if payload is not None else features):
        if name == payload:
            value = delimited(_BYTES_LIST, delimited(1, b"", payload_bytes), payload_bytes)
            parts.append(_entry(name, value, payload_bytes))
            parts = after
        elif isinstance(feature := features[name], (int, str)):
            parts.append(_remembered_entry(name, feature))
        else:
            parts.append(_entry(name, _encode_feature(name, feature)))
    suffix = b"".join(after)
    return delimited(1, b"".join(before), payload_bytes + len(suffix)), suffix


def _entry(name: str, feature: bytes, following: int = 0) -> bytes:
    """Return an entry of the map ``Features.feature``: field 1 is the key, field 2 the value."""
    return delimited(1, delimited(1, name.encode()) + delimited(2, feature, following), following)


@lru_cache(maxsize=1 << 14)
def _remembered_entry(name: str, value: int | str) -> bytes:
    return _entry(name, _encode_feature(name, [value] if isinstance(value, int) else value.encode()))


def _encode_feature(name: str, value: bytes | Sequence[bytes] | Sequence[int] | Sequence[float]) -> bytes:
    if isinstance(value, bytes):
        value = [value]
    if not value:
        return b""
    if all(isinstance(item, int) for item in value):
        return delimited(_INT64_LIST, delimited(1, b"".join(map(varint, cast("Sequence[int]", value)))))
    if all(isinstance(item, float) for item in value):
        return delimited(_FLOAT_LIST, delimited(1, struct.pack(f"<{len(value)}f", *value)))
    if all(isinstance(item, bytes) for item in value):
        return delimited(_BYTES_LIST, b"".join(delimited(1, item) for item in cast("Sequence[bytes]", value)))
    raise TypeError(f"feature {name!r} must be bytes, integers or floats")


def parse_example(data: memoryview | bytes) -> dict[str, _Values]:
    """Return the features of an Example: integers, floats, or the spans in ``data`` of its bytes."""
    # The last of several features with one name counts, as in every protocol buffer map. A feature without a
    # value is an empty list.
    view = memoryview(data)
    features: dict[str, _Values] = {}
    for example in _messages(view, Span(0, len(view))):
        for entry in _messages(view, example):
            name, value = b"", Span(0, 0)
            for field in fields(view, entry):
                if field.number == 1 and field.wire == LENGTH:
                    name = bytes(field.span.of(view))
                elif field.number == 2 and field.wire == LENGTH:
                    value = field.span
            try:
                features[name.decode()] = _parse_feature(view, value)
            except UnicodeDecodeError as error:
                message = f"the message has a feature whose name is not UTF-8: {name[:40]!r}"
                raise CorruptRecordError(message) from error
    return features


def _messages(view: memoryview, span: Span) -> list[Span]:
    return [field.span for field in fields(view, span) if field.number == 1 and field.wire == LENGTH]


def _parse_feature(view: memoryview, span: Span) -> _Values:
    values: _Values = []
    for field in fields(view, span):
        if field.wire == LENGTH and (parse := _LISTS.get(field.number)) is not None:
            values = parse(view, field.span)
    return values


def _parse_integers(view: memoryview, span: Span) -> list[int]:
    """Return the values of an Int64List; both encodings are allowed, packed and one by one."""
    values: list[int] = []
    for field in fields(view, span):
        if field.number == 1 and field.wire == VARINT:
            values.append(signed(field.value))
        elif field.number == 1 and field.wire == LENGTH:
            at, end = field.span.offset, field.span.offset + field.span.length
            while at < end:
                value, at = read_varint(view, at, end)
                values.append(signed(value))
    return values


def _parse_floats(view: memoryview, span: Span) -> list[float]:
    values: list[float] = []
    for field in fields(view, span):
        if field.number == 1 and field.wire in (FIXED32, LENGTH):
            if field.span.length % 4:
                raise CorruptRecordError("the message has a list of floats that ends within a float")
            values.extend(struct.unpack(f"<{field.span.length // 4}f", field.span.of(view)))
    return values


_LISTS: dict[int, Callable[[memoryview, Span], _Values]] = {
    _BYTES_LIST: _messages,
    _FLOAT_LIST: _parse_floats,
    _INT64_LIST: _parse_integers,
}
