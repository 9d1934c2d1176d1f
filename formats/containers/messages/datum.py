"""Encoding and parsing of Caffe's Datum without Caffe, and images in LMDB as Datums.

The encoder returns the bytes before and after the payload of a Datum, as :mod:`.example` does.
Field numbers are those of caffe/proto/caffe.proto.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stoker.errors import CorruptRecordError, SourceError

from ...codecs.codec import Codec
from ...codecs.header import ImageHeader, read_header
from ..base import Record
from .image_record import ExternalSample, FeatureNames, ImageRecord, StoredArray
from .wire import LENGTH, VARINT, Span, delimited, fields, signed, varint


@dataclass(frozen=True)
class Datum:
    """The fields of a Caffe Datum; an absent number is 0."""

    channels: int  # Number of channels
    height: int  # Pixels
    width: int  # Pixels
    label: int  # The class
    encoded: bool  # Whether ``data`` is an encoded image; otherwise it is (channels, height, width) uint8
    data: Span | None  # Span of the bytes; None if there are none
    floats: bool  # Whether the Datum holds pixels as floats


_CHANNELS, _HEIGHT, _WIDTH, _DATA, _LABEL, _FLOATS, _ENCODED = range(1, 8)
_MASK, _ARRAY = 1000, 1001  # not fields of Datum, so that Caffe and DALI ignore them
_ARRAY_NAME, _ARRAY_DTYPE, _ARRAY_SIDE, _ARRAY_DATA = range(1, 5)


def encode_datum(
    *, payload_bytes: int, height: int, width: int, label: int | None = None, mask: bytes | None = None
) -> tuple[bytes, bytes]:
    """Encode an encoded image as a Caffe Datum, in the order of the field numbers."""
    prefix = b"".join(_number(*item) for item in ((_CHANNELS, 3), (_HEIGHT, height), (_WIDTH, width)))
    suffix = b"" if label is None else _number(_LABEL, label)
    suffix += _number(_ENCODED, 1)
    return prefix + delimited(_DATA, b"", payload_bytes), suffix + (delimited(_MASK, mask) if mask else b"")


def _number(number: int, value: int) -> bytes:
    return varint(number << 3 | VARINT) + varint(value)


def parse_datum(data: memoryview | bytes) -> Datum:
    """Return the fields of a Datum."""
    view = memoryview(data)
    numbers: dict[int, int] = {}
    payload: Span | None = None
    floats = False
    for field in fields(view, Span(0, len(view))):
        if field.number == _DATA and field.wire == LENGTH:
            payload = field.span
        elif field.number == _FLOATS:
            floats = True
        elif field.wire == VARINT:
            numbers[field.number] = signed(field.value)
    return Datum(
        channels=numbers.get(_CHANNELS, 0),
        height=numbers.get(_HEIGHT, 0),
        width=numbers.get(_WIDTH, 0),
        label=numbers.get(_LABEL, 0),
        encoded=bool(numbers.get(_ENCODED, 0)),
        data=payload,
        floats=floats,
    )


def wrap_image(image: ImageRecord) -> tuple[bytes, bytes]:
    """Return the bytes of a Datum before and after an encoded image. It has the first label and the mask."""
    return encode_datum(
        payload_bytes=image.payload_bytes,
        height=image.height,
        width=image.width,
        label=image.labels[0] if image.labels else None,
        mask=image.mask,
    )


def wrap_arrays(arrays: Sequence[StoredArray]) -> tuple[bytes, list[int]]:
    """Return further fields of a Datum, with the offset of each array in them.

    An array is a message in field 1001, which other readers of a Datum ignore: its name (field 1), its dtype
    (2), the sides of its shape (3), and its bytes (4).
    """
    parts, offsets, end = [], [], 0
    for array in arrays:
        head = delimited(_ARRAY_NAME, array.name.encode()) + delimited(_ARRAY_DTYPE, array.dtype.encode())
        head += b"".join(_number(_ARRAY_SIDE, side) for side in array.shape)
        head = delimited(_ARRAY, head + delimited(_ARRAY_DATA, b"", len(array.data)), len(array.data))
        offsets.append(end + len(head))
        parts += [head, array.data]
        end += len(head) + len(array.data)
    return b"".join(parts), offsets


def parse_image(record: Record, names: FeatureNames) -> ExternalSample:
    """Return the image in a record that holds a Caffe Datum, with fixed names, or an encoded image."""
    key = record.key.decode(errors="backslashreplace")
    datum: Datum | None
    try:
        datum = parse_datum(record.view)
    except CorruptRecordError:
        datum = None
    if datum is None or (datum.data is None and not datum.floats):
        whole = Span(0, record.length)
        return ExternalSample(whole, read_header(record.view), key, None, "")
    sizes = (datum.channels, datum.height, datum.width)
    planar = datum.data is not None and min(sizes) > 0 and math.prod(sizes) == datum.data.length
    if datum.data is None or (planar and not datum.encoded and datum.channels not in {1, 3}):
        content = "floats" if datum.data is None else f"pixels of {datum.channels} channels"
        raise SourceError(
            f"the Datum holds {content}, neither grey nor colours of 8 bits, nor an encoded image",
            hint="images are read from what Caffe's convert_imageset writes, with --encoded or without",
        )
    if planar and not datum.encoded:
        header = ImageHeader(Codec.PLANES, datum.height, datum.width, 1)
    else:
        header = read_header(datum.data.of(record.view))
    return ExternalSample(datum.data, header, key, datum.label, "")
