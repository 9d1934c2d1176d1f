"""Re-encoding of images: resized, in another codec, or both."""

from __future__ import annotations

from typing import NamedTuple

from stoker import _native

from .codec import Codec
from .decode import decode_rgb, is_native
from .registry import CODECS

_WRITTEN = {codec.name.lower(): row for codec, row in CODECS.items() if row.written_as}
BYTES_PER_PIXEL = {"keep": _WRITTEN["jpeg"].bytes_per_pixel} | {
    name: row.bytes_per_pixel for name, row in _WRITTEN.items()
}
"""Values of the option ``encoding``, with the average bytes of a pixel of photographs."""


class TranscodeRules(NamedTuple):
    """How an image is re-encoded."""

    mode: str  # How it is resized: none, shorter, longer, squash, crop, fill
    height: int  # Pixels; of the shorter or longer side if ``mode`` is one of these
    width: int  # Pixels, in the same way
    quality: int  # Quality of JPEG, 1 to 100
    subsampling: str  # Subsampling of JPEG: 444, 422 or 420
    max_pixels: int  # Most pixels of the image
    restarts: bool  # Whether a JPEG gets restart markers


def target_codec(codec: Codec, encoding: str) -> Codec:
    """Return the codec of a re-encoded image, by the option ``encoding`` or, for "keep", by its codec."""
    if encoding != "keep":
        return Codec[encoding.upper()]
    return Codec.JPEG if CODECS[codec].resized_as_jpeg else Codec.PNG


def transcode(data: bytes, codec: Codec, target: Codec, rules: TranscodeRules) -> tuple[bytes, int, int]:
    """Return an image in the codec ``target``, its height and its width; the EXIF orientation is applied."""
    row = CODECS[target]
    if row.written_as is None:
        raise ValueError(f"images are not written as {target.name}")
    how = (*rules[:3], row.written_as, *rules[3:])
    if is_native(codec):
        payload, height, width = _native.transcode(data, *how)
    else:
        pixels = decode_rgb(data, codec, 0, 0, rules.max_pixels)
        payload, height, width = _native.transcode_pixels(pixels, *how)
    return row.compress(payload, height, width) if row.compress else payload, height, width
