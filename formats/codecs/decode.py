"""Decoding of payloads to pixels, where engines do not do it, and re-encoding of images for conversions."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageChops

from stoker import _native
from stoker.errors import DecodeError, ImageTooLargeError

from .codec import CODECS, MAX_PIXELS, Codec, StoredForm, is_native
from .header import check_rows, exif_orientation, is_negative, open_image, turned
from .npy import decode_npy, npy_to_rgb, read_npy_header

Pixels = npt.NDArray[np.uint8]
DeepPixels = npt.NDArray[np.uint8 | np.uint16 | np.float32]

# Pillow's modes of 16-bit grey. Of 16-bit colours it takes the higher bytes by itself. Before version 11 it
# gives 16-bit grey of some formats the mode "I", which otherwise has 32 bits.
_SIXTEEN_BITS = ("I;16", "I;16L", "I;16B", "I;16N")
_SIXTEEN_BITS_AS_I = ("PNG", "PPM", "JPEG2000")

_MODES = {"1": "L", "L": "L", "LA": "LA", "RGBA": "RGBA", "La": "LA", "RGBa": "RGBA", "PA": "RGBA"}
"""The mode that an image of each of Pillow's modes is converted to; all other modes become RGB."""


class PixelCountError(ValueError):
    """Raw pixels are more or fewer than the index says."""


def decode_rgb(data: Any, codec: int, height: int, width: int, max_pixels: int = MAX_PIXELS) -> Pixels:
    """Decode a payload to (H, W, 3) uint8 RGB, its EXIF orientation applied."""
    if is_native(codec):
        try:
            return _decode_natively(data, height, width, max_pixels)
        except ValueError:
            if CODECS[Codec(codec)].strict:
                raise
            # Of other codecs, errors are the same with every engine.
    return decode_for_reference(data, codec, height, width, max_pixels)


def decode_for_reference(
    data: Any, codec: int, height: int, width: int, max_pixels: int = MAX_PIXELS
) -> Pixels:
    """Decode a payload in Python, for the reference engine; see :func:`decode_rgb`."""
    return _DECODERS.get(Codec(codec), _decode_with_pillow)(data, height, width, max_pixels)


def decode_grey(data: Any, codec: int, height: int, width: int, max_pixels: int = MAX_PIXELS) -> Pixels:
    """Decode a payload to grey: (H, W, 3) uint8, three equal channels, its EXIF orientation applied."""
    # Of a JPEG that stores luma (Y of JFIF 1.02), grey is the luma. Of other images it is Pillow's mode "L"
    # of RGB, ``(19595 R + 38470 G + 7471 B + 32768) >> 16``, with the weights of ITU-R BT.601.
    shown = Image.fromarray(decode_for_reference(data, codec, height, width, max_pixels))
    if codec == Codec.JPEG:
        image = open_image(data)
        if image.mode != "CMYK":
            image.draft("L", image.size)
            shown = turned(image, exif_orientation(data, image))
    return np.repeat(np.asarray(shown.convert("L"))[..., np.newaxis], 3, axis=2)


def decode_channels(
    data: Any, codec: int, height: int, width: int, max_pixels: int = MAX_PIXELS, *, alpha: bool
) -> DeepPixels:
    """Decode a payload to (H, W, C) uint8, or the dtype of its stored form; its EXIF orientation is applied.

    With ``alpha``, the result is RGB and alpha, which is 255 if the image has none. Otherwise its channels
    and bits are as :func:`stored_form` says.
    """
    if codec == Codec.NPY and not alpha:
        return decode_npy(data, max_pixels)
    if codec in (Codec.JPEG, Codec.RAW, Codec.PLANES, Codec.NPY):
        rgb = decode_rgb(data, codec, height, width, max_pixels)
        return _with_alpha(rgb) if alpha else rgb[..., : stored_form(data, codec, height, width).channels]
    with _opened(data, max_pixels) as image:
        return _pillow_channels(image, exif_orientation(data, image), alpha=alpha)


@contextmanager
def _opened(data: Any, max_pixels: int) -> Iterator[Image.Image]:
    try:
        with open_image(data) as image:
            _check_size(image.height, image.width, max_pixels)
            check_rows(data, image)
            yield image
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageTooLargeError(str(error)) from error


def _pillow_channels(image: Image.Image, orientation: int, *, alpha: bool) -> DeepPixels:
    mode = _stored_mode(image)
    if alpha and (mode in ("LA", "RGBA") or "transparency" in image.info):
        return np.array(turned(image, orientation).convert("RGBA"))
    if alpha:
        return _with_alpha(_pillow_rgb(image, orientation))
    if mode == "RGB":
        return _pillow_rgb(image, orientation)
    if _has_sixteen_bits(image):
        return sixteen_bits(image, orientation)[..., np.newaxis]
    if mode == "L":
        return _pillow_rgb(image, orientation)[..., :1]
    return np.array(turned(image, orientation).convert(mode))


def stored_form(data: Any, codec: int, height: int, width: int) -> StoredForm:
    """Return the form in which an image is stored, from its header."""
    if codec == Codec.JPEG:
        return StoredForm(1 if _native.probe(data)[4] == 1 else 3)
    if codec in (Codec.RAW, Codec.PLANES):
        return StoredForm(1 if memoryview(data).nbytes == height * width else 3)
    if codec == Codec.NPY:
        header = read_npy_header(data)
        return StoredForm(header.shape[2], 8 * header.dtype.itemsize)
    with open_image(data) as image:
        bits = 16 if _has_sixteen_bits(image) else 8
        return StoredForm(Image.getmodebands(_stored_mode(image)), bits)


def _stored_mode(image: Image.Image) -> str:
    if image.mode == "P":
        return "RGBA" if "transparency" in image.info else "RGB"
    return "L" if image.mode.startswith(("I", "F")) else _MODES.get(image.mode, "RGB")


def _has_sixteen_bits(image: Image.Image) -> bool:
    return image.mode in _SIXTEEN_BITS or (image.mode == "I" and image.format in _SIXTEEN_BITS_AS_I)


def sixteen_bits(image: Image.Image, orientation: int = 1) -> npt.NDArray[np.uint16]:
    """Return the levels of an opened grey image of 16 bits, (H, W), 0 is black."""
    levels = np.asarray(turned(image, orientation)).astype(np.uint16)
    return ~levels if is_negative(image) else levels


def _with_alpha(rgb: Pixels) -> Pixels:
    return np.dstack((rgb, np.full(rgb.shape[:2], 255, np.uint8)))


def _check_size(height: int, width: int, max_pixels: int) -> None:
    if height * width > max_pixels:
        raise ImageTooLargeError(f"{height}x{width} pixels")


def _decode_natively(data: Any, height: int, width: int, max_pixels: int) -> Pixels:
    """Decode an image of a codec that has a header, in C++."""
    _check_size(height, width, max_pixels)
    payload, height, width = _native.transcode(data, "none", 0, 0, "raw", 90, "420", max_pixels)
    return _decode_raw(payload, height, width, max_pixels)


def _decode_with_pillow(data: Any, height: int, width: int, max_pixels: int) -> Pixels:
    """Decode an image of any format of Pillow; of an animation the first frame."""
    with _opened(data, max_pixels) as image:
        return _pillow_rgb(image, exif_orientation(data, image))


def _pillow_rgb(image: Image.Image, orientation: int) -> Pixels:
    """Return the pixels of an opened image as (H, W, 3) uint8 RGB, turned by its EXIF orientation."""
    # Of 16 bits the higher 8 are taken, as Pillow does for colours. Its conversion of 16-bit grey makes all
    # but the darkest 256 levels white. Transparency is left out.
    if _has_sixteen_bits(image):
        grey = (sixteen_bits(image, orientation) >> 8).astype(np.uint8)
        return np.repeat(grey[..., np.newaxis], 3, axis=2)
    shown = turned(image, orientation)
    if shown.mode in ("I", "F"):
        numbers = "integers of 32 bits" if shown.mode == "I" else "floats"
        raise DecodeError(f"the pixels are {numbers}, and nothing says which values are black and white")
    if shown.mode == "CMYK" and image.format in ("JPEG", "MPO") and "adobe" not in image.info:
        shown = ImageChops.invert(shown)  # Pillow assumes Adobe's inverted inks in every CMYK JPEG
    return np.array(shown.convert("RGB"))


def _decode_jpeg(data: Any, height: int, width: int, max_pixels: int) -> Pixels:
    """Decode with Pillow, and refuse a JPEG that lacks pixels, which Pillow silently makes grey."""
    pixels = _decode_with_pillow(data, height, width, max_pixels)
    _decode_natively(data, height, width, max_pixels)
    return pixels


def _decode_raw(data: Any, height: int, width: int, max_pixels: int) -> Pixels:
    _check_size(height, width, max_pixels)
    pixels = np.frombuffer(data, np.uint8)
    if pixels.size != height * width * 3:
        raise PixelCountError("the image has another size than the index says")
    return pixels.reshape(height, width, 3)


def _decode_planes(data: Any, height: int, width: int, max_pixels: int) -> Pixels:
    """Decode the pixels of Caffe's Datum: one plane is grey, and three are blue, green and red."""
    _check_size(height, width, max_pixels)
    planes = np.frombuffer(data, np.uint8).reshape(-1, height, width)
    if len(planes) not in (1, 3):
        raise ValueError(f"{len(planes)} planes of {height} x {width} pixels, not 1 or 3")
    return np.ascontiguousarray(np.broadcast_to(planes[::-1], (3, height, width)).transpose(1, 2, 0))


_DECODERS: dict[Codec, Callable[[Any, int, int, int], Pixels]] = {
    Codec.JPEG: _decode_jpeg,
    Codec.RAW: _decode_raw,
    Codec.PLANES: _decode_planes,
    Codec.NPY: npy_to_rgb,
}
"""Decoders in Python, given the payload, the height and width of the index, and the most pixels."""


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
    how = (*rules[:3], "jpeg" if target == Codec.JPEG else "raw", *rules[3:])
    if is_native(codec):
        payload, height, width = _native.transcode(data, *how)
    else:
        pixels = decode_rgb(data, codec, 0, 0, rules.max_pixels)
        payload, height, width = _native.transcode_pixels(pixels, *how)
    if target == Codec.PNG:
        stream = io.BytesIO()
        Image.frombytes("RGB", (width, height), payload).save(stream, "PNG")
        payload = stream.getvalue()
    return payload, height, width
