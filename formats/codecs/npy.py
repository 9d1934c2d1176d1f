"""Images in NumPy's format ``.npy``: arrays of any number of channels, of 8 or 16 bits or floats.

The format is ``numpy.lib.format``, versions 1.0 and 2.0. Pickled objects are never read.
"""

from __future__ import annotations

import io
import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy_format

from stoker.errors import DecodeError, ImageTooLargeError

_DTYPES = ("uint8", "uint16", "float32")
_LONGEST_HEADER = 1 << 14  # bytes; NumPy's own is 128


class NpyHeader(NamedTuple):
    """The header of an image in a ``.npy`` file."""

    shape: tuple[int, int, int]  # Height, width and channels
    dtype: np.dtype[Any]  # uint8, uint16 or float32, of any byte order
    fortran: bool  # Whether the first axis changes fastest
    sides: int  # Number of stored axes, 2 or 3
    start: int  # First byte of the elements

    @property
    def end(self) -> int:
        return self.start + math.prod(self.shape) * self.dtype.itemsize


def read_npy_header(data: Any) -> NpyHeader:
    """Return the header of a ``.npy`` file, (H, W, C) or (H, W), uint8, uint16 or float32."""
    stream = io.BytesIO(bytes(memoryview(data)[:_LONGEST_HEADER]))
    try:
        version = npy_format.read_magic(stream)
        read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
        shape, fortran, dtype = read(stream)
    except Exception as error:  # NumPy parses a Python literal, which may fail in many ways
        raise DecodeError(f"the header of the array is damaged: {error}") from error
    if dtype.hasobject:
        raise DecodeError("the array holds pickled objects, which are never read")
    if dtype.newbyteorder("=").name not in _DTYPES:
        raise DecodeError(f"the array is of {dtype}, not of uint8, uint16 or float32")
    if len(shape) not in (2, 3) or not all(0 < side < 1 << 24 for side in shape):
        raise DecodeError(
            f"the array has the shape {shape}, not (height, width, channels) or (height, width)"
        )
    height, width, channels = (*shape, 1)[:3]
    return NpyHeader((height, width, channels), dtype, fortran, len(shape), stream.tell())


def npy_damage(data: bytes) -> str:
    """Check that an array has as many bytes as its header says; return the problem, or an empty text."""
    end = read_npy_header(data).end
    if len(data) == end:
        return ""
    return "the file ends before the array does" if len(data) < end else "bytes follow the end of the array"


def decode_npy(data: Any, max_pixels: int) -> npt.NDArray[Any]:
    """Return the array of a ``.npy`` file, (H, W, C), C-contiguous, in native byte order."""
    header = read_npy_header(data)
    height, width, channels = header.shape
    if height * width > max_pixels:
        raise ImageTooLargeError(f"{height}x{width} pixels")
    if memoryview(data).nbytes != header.end:
        raise DecodeError(f"the array has not the {height} x {width} x {channels} elements of its header")
    stored = header.shape[: header.sides]
    flat = np.frombuffer(data, header.dtype, math.prod(stored), header.start)
    array = flat.reshape(stored, order="F" if header.fortran else "C").reshape(header.shape)
    return np.require(array, header.dtype.newbyteorder("="), ["C_CONTIGUOUS", "ALIGNED"])


def npy_to_rgb(data: Any, height: int, width: int, max_pixels: int) -> npt.NDArray[np.uint8]:
    """Return an array of one or three channels of uint8 as (H, W, 3) RGB; one channel is grey."""
    # Raises: As :func:`decode_npy`, and DecodeError for all other arrays.
    array = decode_npy(data, max_pixels)
    if array.dtype != np.uint8 or array.shape[2] not in (1, 3):
        channels = f"{array.shape[2]} channel{'s' if array.shape[2] != 1 else ''}"
        raise DecodeError(f"an array of {channels} of {array.dtype} has no colours; use color='as_stored'")
    return np.ascontiguousarray(np.broadcast_to(array, (*array.shape[:2], 3)))
