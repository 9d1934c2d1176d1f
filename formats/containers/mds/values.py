"""Values of MDS columns: images, numbers and texts (streaming/base/format/mds/encodings.py, version 0.13)."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from stoker.errors import SourceError

from ...codecs.header import ImageHeader, read_header
from ..base import RecordPart
from ..messages.image_record import FeatureNames, Value
from ..messages.wire import Span
from ..parts.raw_pixels import raw_header

IMAGES = ("jpeg", "png", "jpeg_array", "jpegarray", "pil")
"""Encodings that hold one image."""

_TEXTS = ("str", "json", "str_decimal")
_NUMBERS = {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
_NUMBERS |= {"float16", "float32", "float64"}
_SPELLED: dict[str, Callable[[str], int | float]] = {"str_int": int, "str_float": float}
_VALUES = {"int", *_TEXTS, *_SPELLED, *_NUMBERS}
_PIL = struct.Struct("<III")  # width, height, bytes of the mode
_CHANNELS = {b"RGB": 3, b"L": 1}


def is_value(part: RecordPart) -> bool:
    """Return whether a column holds one number or one text."""
    return part.encoding in _VALUES


def decode_value(part: RecordPart, view: memoryview) -> Value:
    """Return the number or the text of a column."""
    data = bytes(part.span.of(view))
    if part.encoding in _TEXTS:
        return data.decode(errors="backslashreplace")
    try:
        if part.encoding in _SPELLED:
            return _SPELLED[part.encoding](data.decode())
        dtype = np.dtype("int64" if part.encoding == "int" else part.encoding) if is_value(part) else None
        if dtype is not None and len(data) == dtype.itemsize:
            number: int | float = np.frombuffer(data, dtype.newbyteorder("<"))[0].item()
            return number
    except ValueError:
        pass
    raise SourceError(
        f"the column {part.name!r} of encoding {part.encoding} holds no number or text",
        hint="name another column: --label for the label, --key for the name, --column for others",
    )


def find_image(
    part: RecordPart, view: memoryview, names: FeatureNames, sides: tuple[int, ...]
) -> tuple[Span, ImageHeader]:
    """Return the byte range of the image in a column, and its header.

    ``sides`` are height and width of raw pixels, from other columns; empty if no columns state them.
    """
    if part.encoding == "pil":
        return _pil_image(part, view)
    if part.encoding != "bytes" and part.encoding not in IMAGES:
        raise SourceError(
            f"the column {part.name!r} has the encoding {part.encoding}, which cannot be read in place",
            hint=f"images are read from {', '.join((*IMAGES, 'bytes'))}; or convert a StreamingDataset with "
            "stoker.convert",
        )
    if not names.raw:
        return part.span, read_header(part.span.of(view))
    if names.shape is None and not sides:
        raise SourceError("the record does not state the size of raw pixels", hint="name it: --shape 32x32x3")
    return part.span, raw_header(part.span.length, names.shape or sides, any_channels=names.shape is None)


def _pil_image(part: RecordPart, view: memoryview) -> tuple[Span, ImageHeader]:
    """Return the pixels of an image that Pillow's ``tobytes`` wrote."""
    offset, length = part.span
    if length >= _PIL.size:
        width, height, mode_bytes = _PIL.unpack_from(view, offset)
        start = offset + _PIL.size + mode_bytes
        mode = bytes(view[offset + _PIL.size : start]) if mode_bytes < 8 else b""
        if mode in _CHANNELS:
            pixels = Span(start, offset + length - start)
            return pixels, raw_header(pixels.length, (height, width, _CHANNELS[mode]))
    raise SourceError(
        f"the column {part.name!r} holds no pixels of Pillow's mode RGB or L",
        hint="convert a StreamingDataset with stoker.convert",
    )
