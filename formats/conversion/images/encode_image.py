"""Encoding one image of a source for a shard: checked, resized and in the encoding that is asked for."""

from __future__ import annotations

from typing import NamedTuple

from stoker import _native

from ...codecs.codec import Codec
from ...codecs.decode import TranscodeRules, decode_rgb, target_codec, transcode
from ...codecs.header import DAMAGE_CHECKS, ImageHeader
from ...sources.source_reader import SkippedError, check_image
from ..options import QUALITY, SUBSAMPLING, ConvertOptions


class EncodedImage(NamedTuple):
    """An image as it is stored."""

    payload: bytes  # The encoded image; for raw pixels (height, width, 3) uint8 RGB
    codec: Codec  # Its encoding
    height: int  # Height in pixels, after the EXIF orientation has been applied
    width: int  # Width in pixels, after it as well
    orientation: int  # EXIF orientation that readers must still apply, 1 to 8
    source: tuple[int, int]  # Height and width of the image in the source, after its EXIF orientation
    # Why a JPEG has no restart markers although they were asked for, and a detail; or None
    unmarked: tuple[str, str] | None = None


def encode_image(data: bytes, options: ConvertOptions) -> EncodedImage:
    """Encode an image as the options ask; without such options its bytes stay as they are."""
    header = check_image(data, options.max_pixels)
    target = target_codec(header.codec, options.encoding)
    try:
        is_as_asked = options.mode == "none" and target == header.codec and not options.compresses_again
        if options.keeps_images or is_as_asked:
            if header.codec not in DAMAGE_CHECKS:  # only decoding shows whether it is whole
                decode_rgb(data, header.codec, header.height, header.width)
            return _kept(data, header, restarts=bool(options.restarts))
        return _transcode(data, header, target, options)
    # Pillow's decoders raise nearly anything on a damaged image.
    except Exception as error:
        raise SkippedError("broken image", str(error)) from error


def _kept(data: bytes, header: ImageHeader, *, restarts: bool) -> EncodedImage:
    """Return an image as it is, or, where it is a JPEG and ``restarts``, the same with restart markers."""
    size = (header.height, header.width)
    marked, reason, detail = None, "", ""
    if restarts and header.codec == Codec.JPEG:
        marked, reason, detail = _native.mark_restarts(data)
    unmarked = (reason, detail) if reason else None
    return EncodedImage(marked or data, header.codec, *size, header.orientation, size, unmarked)


def _transcode(data: bytes, header: ImageHeader, target: Codec, options: ConvertOptions) -> EncodedImage:
    rules = TranscodeRules(
        mode=options.mode,
        height=options.height,
        width=options.width,
        quality=QUALITY if options.quality is None else options.quality,
        subsampling=options.subsampling or SUBSAMPLING,
        max_pixels=options.max_pixels,
        restarts=bool(options.restarts),
    )
    payload, height, width = transcode(data, header.codec, target, rules)
    return EncodedImage(payload, target, height, width, 1, (header.height, header.width))
