"""Images as Python has them (bytes, paths, PIL images, arrays) as the files that a source would have."""

from __future__ import annotations

import io
import os
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from stoker.errors import ConfigError

from ....files import open_regular, read_at
from ....sources.source_reader import SkippedError

_CHANNELS = (1, 3, 4)
_PNG_MODES = {"1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA"}
_COLOUR_TYPES = {3: 2, 4: 6}  # of PNG, by channels


def image_file(image: Any, key: str) -> bytes:
    """Return the file of an image."""
    if isinstance(image, (bytes, bytearray, memoryview)):
        return bytes(image)
    if isinstance(image, (str, os.PathLike)):
        return _read(image)
    if isinstance(image, Image.Image):
        return _png(image if image.mode in _PNG_MODES else _rgb(image, key))
    return _array_file(_as_array(image, "image", key), "image", key)


def mask_file(mask: Any, key: str) -> bytes:
    """Return the file of a mask of classes: bytes, a path, an image of Pillow, or (H, W) uint8 or uint16.

    Raises: As :func:`image_file`.
    """
    if isinstance(mask, (bytes, bytearray, memoryview, str, os.PathLike, Image.Image)):
        return image_file(mask, key)
    pixels = _as_array(mask, "segmentation", key)
    if pixels.ndim != 2:
        raise ConfigError(f"segmentation has the shape {pixels.shape}, and a mask has (H, W)", key=key)
    if pixels.dtype.kind in "iub" and pixels.size and 0 <= pixels.min() <= pixels.max() < 1 << 16:
        pixels = pixels.astype(np.uint8 if pixels.max() < 256 else np.uint16)
    return _array_file(pixels, "segmentation", key)


def _read(path: str | os.PathLike[str]) -> bytes:
    try:
        with open_regular(path) as (descriptor, size):
            return read_at(descriptor, 0, size)
    except OSError as error:
        raise SkippedError("unreadable", f"{os.fspath(path)}: {error.strerror or error}") from error


def _rgb(image: Image.Image, key: str) -> Image.Image:
    if image.mode == "F":
        raise ConfigError("the pixels of the image are floats, and none is known to be white", key=key)
    return image.convert("RGB")


def _as_array(image: Any, column: str, key: str) -> npt.NDArray[Any]:
    if hasattr(image, "permute") and getattr(image, "ndim", 0) == 3:  # a tensor of PyTorch: channels first
        image = image.permute(1, 2, 0)
    try:
        return np.asarray(image)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"{column} is no image: {error}", key=key) from error


def _array_file(pixels: npt.NDArray[Any], column: str, key: str) -> bytes:
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    shaped = pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] in _CHANNELS)
    if not shaped or pixels.dtype not in (np.uint8, np.uint16) or not pixels.size:
        raise ConfigError(
            f"{column} is {type(pixels).__name__} of {pixels.dtype} with the shape {pixels.shape}",
            key=key,
            hint="give bytes of a file, a path, an image of Pillow, or an array (H, W) or (H, W, 3) of "
            "uint8 or uint16 as it was before it was normalised",
        )
    if pixels.dtype == np.uint16 and pixels.ndim == 3:
        return _png_of_colours(pixels)
    return _png(Image.fromarray(np.ascontiguousarray(pixels)))


def _png(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "PNG", exif=b"")  # the pixels are taken as they are seen, whatever EXIF said
    return stream.getvalue()


def _png_of_colours(pixels: npt.NDArray[np.uint16]) -> bytes:
    """A PNG of (H, W, 3) or (H, W, 4) uint16, which Pillow does not write (PNG 1.2, chapters 3 and 4)."""
    height, width, channels = pixels.shape
    rows = pixels.astype(">u2").reshape(height, -1).view(np.uint8)
    filtered = np.concatenate((np.zeros((height, 1), np.uint8), rows), axis=1)  # filter 0: no filter
    header = struct.pack(">IIBBBBB", width, height, 16, _COLOUR_TYPES[channels], 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(filtered.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
