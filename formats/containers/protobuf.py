"""Protocol buffers, as far as records need them: the wire format, and tf.train.Example."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeGuard, TypeVar

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


Feature = bytes | Sequence[bytes] | Sequence[int] | Sequence[float]

_Item = TypeVar("_Item", bytes, int, float)

_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = 1, 2, 3


def encode_example(
    features: Mapping[str, Feature], payload: str | None = None, payload_bytes: int = 0
) -> tuple[bytes, bytes]:
    """Encode an Example around a payload."""
    # Features are written in the order of their names, so that equal features give equal bytes.
    names = sorted([*features, payload] if payload is not None else features)
    parts: list[bytes] = []
    suffix_at = len(names)
    for position, name in enumerate(names):
        if name == payload:
            parts.append(_payload_entry(name, payload_bytes))
            suffix_at = position + 1
        else:
            parts.append(_entry(name, _encode_feature(name, features[name])))
    return _frame(b"".join(parts[:suffix_at]), payload_bytes, b"".join(parts[suffix_at:]))


def _frame(prefix: bytes, payload_bytes: int, suffix: bytes) -> tuple[bytes, bytes]:
    """Return the message ``Example``, whose field 1 has the entries before, around and after the payload."""
    return delimited(1, prefix, payload_bytes + len(suffix)), suffix


def _payload_entry(name: str, payload_bytes: int) -> bytes:
    """Return the start of the entry of the payload, which the payload follows."""
    feature = delimited(_BYTES_LIST, delimited(1, b"", payload_bytes), payload_bytes)
    return _entry(name, feature, payload_bytes)


def _entry(name: str, feature: bytes, following: int = 0) -> bytes:
    """Return an entry of the map ``Features.feature``: field 1 is the key, field 2 the value."""
    return delimited(1, delimited(1, name.encode()) + delimited(2, feature, following), following)


def _encode_feature(name: str, value: Feature) -> bytes:
    if isinstance(value, bytes):
        return delimited(_BYTES_LIST, delimited(1, value))
    if not value:
        return b""
    if _are(value, int):
        return delimited(_INT64_LIST, delimited(1, b"".join(map(varint, value))))
    if _are(value, float):
        return delimited(_FLOAT_LIST, delimited(1, struct.pack(f"<{len(value)}f", *value)))
    if _are(value, bytes):
        return delimited(_BYTES_LIST, b"".join(delimited(1, item) for item in value))
    raise TypeError(f"feature {name!r} must be bytes, integers or floats")


def _are(values: Sequence[Any], kind: type[_Item]) -> TypeGuard[Sequence[_Item]]:
    return all(isinstance(value, kind) for value in values)


def encode_image_example(
    *,
    payload_bytes: int,
    format: str,  # noqa: A002 - the feature's name
    height: int,
    width: int,
    key: str,
    orientation: int = 1,
    label: int | None = None,
    class_name: str | None = None,
) -> tuple[bytes, bytes]:
    """Encode an image as an Example with the feature names of ImageNet's TFRecord files."""
    # The names are from research/slim/datasets/build_imagenet_data.py in tensorflow/models.
    before = [_entry_of("image/channels", 3)]
    if label is not None:
        before.append(_entry_of("image/class/label", label))
    if class_name is not None:
        before.append(_entry_of("image/class/text", class_name))
    before.append(_payload_entry("image/encoded", payload_bytes))
    after = [
        _entry("image/filename", _encode_feature("image/filename", key.encode())),
        _entry_of("image/format", format),
        _entry_of("image/height", height),
    ]
    if orientation != 1:
        after.append(_entry_of("image/orientation", orientation))
    after.append(_entry_of("image/width", width))
    return _frame(b"".join(before), payload_bytes, b"".join(after))


@lru_cache(maxsize=1 << 14)
def _entry_of(name: str, value: int | str) -> bytes:
    """Return the entry of a feature with one value, cached because sizes and labels repeat."""
    return _entry(name, _encode_feature(name, [value] if isinstance(value, int) else value.encode()))


def parse_example(data: memoryview | bytes) -> dict[str, list[Span] | list[int] | list[float]]:
    """Return the features of an Example: integers, floats, or the spans in ``data`` of its bytes."""
    # The last of several features with one name counts, as in every protocol buffer map. A feature without a
    # value is an empty list.
    view = memoryview(data)
    features: dict[str, list[Span] | list[int] | list[float]] = {}
    for example in _messages(view, Span(0, len(view))):
        for entry in _messages(view, example):
            name, value = b"", Span(0, 0)
            for field in fields(view, entry):
                if field.number == 1 and field.wire == LENGTH:
                    name = bytes(field.span.of(view))
                elif field.number == 2 and field.wire == LENGTH:
                    value = field.span
            features[_utf8(name)] = _parse_feature(view, value)
    return features


def _messages(view: memoryview, span: Span) -> list[Span]:
    """Return the bytes values of field 1 of a message."""
    return [field.span for field in fields(view, span) if field.number == 1 and field.wire == LENGTH]


def _utf8(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise CorruptRecordError(
            f"the message has a feature whose name is not UTF-8: {name[:40]!r}"
        ) from error


def _parse_feature(view: memoryview, span: Span) -> list[Span] | list[int] | list[float]:
    values: list[Span] | list[int] | list[float] = []
    for field in fields(view, span):
        if field.wire != LENGTH:
            continue
        if field.number == _BYTES_LIST:
            values = _messages(view, field.span)
        elif field.number == _INT64_LIST:
            values = _parse_integers(view, field.span)
        elif field.number == _FLOAT_LIST:
            values = _parse_floats(view, field.span)
    return values


def _parse_integers(view: memoryview, span: Span) -> list[int]:
    """Return the values of an Int64List; both encodings are allowed, packed and one by one."""
    values: list[int] = []
    for field in fields(view, span):
        if field.number != 1:
            continue
        if field.wire == VARINT:
            values.append(signed(field.value))
        elif field.wire == LENGTH:
            at, end = field.span.offset, field.span.offset + field.span.length
            while at < end:
                value, at = read_varint(view, at, end)
                values.append(signed(value))
    return values


def _parse_floats(view: memoryview, span: Span) -> list[float]:
    values: list[float] = []
    for field in fields(view, span):
        if field.number != 1 or field.wire not in (FIXED32, LENGTH):
            continue
        if field.span.length % 4:
            raise CorruptRecordError("the message has a list of floats that ends within a float")
        values.extend(struct.unpack(f"<{field.span.length // 4}f", field.span.of(view)))
    return values
