"""The user's columns of samples from Python: numbers, texts and arrays, typed by the first sample."""

from __future__ import annotations

import io
import keyword
import os
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from PIL import Image

from stoker.errors import ConfigError

from ..containers.image_record import StoredArray
from ..dataset.columns import ARRAY_DTYPES, ORIGIN_COLUMNS, array_types
from ..dataset.index import KNOWN_COLUMNS
from ..files import is_unicode, open_regular, read_at
from ..sources.source_reader import SkippedError

_RESERVED = {"label", "row", "image", "mask", "count", "dataset", "segmentation", "to_source", "source_size"}
_RESERVED |= {*KNOWN_COLUMNS, *ORIGIN_COLUMNS}
_RESERVED_STARTS = ("object_", "mask_")
_KINDS = {"number": "a number", "text": "a text", "array": "an array"}

Value = int | float | str | np.ndarray[Any, Any]


@dataclass(frozen=True)
class ColumnType:
    """The type of a column."""

    kind: Literal["number", "text", "array"]  # Whether values are numbers, texts or arrays
    dtype: str  # NumPy's name of the type of a number or of the elements of an array; "str" for texts
    sides: int = 0  # Number of sides of an array; 0 for numbers and texts

    def __str__(self) -> str:
        if self.kind == "array":
            return f"an array of {self.dtype} with {self.sides} {'side' if self.sides == 1 else 'sides'}"
        return "a text" if self.kind == "text" else f"a number of {self.dtype}"


def check_names(names: Iterable[str]) -> None:
    """Raise ConfigError for a name that a column of a batch or of the index cannot have."""
    names = list(names)
    derived = {column: name for name in names for column in array_types(name)}
    for name in names:
        wrong = None
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
            wrong = "is no name that a column of a batch can have"
        elif name in _RESERVED or name.startswith(_RESERVED_STARTS):
            wrong = "is a name that the index uses itself"
        elif name in derived:
            wrong = f"is a name that the index uses for the arrays {derived[name]!r}"
        if wrong:
            raise ConfigError(f"column {name!r} {wrong}", hint="Give the column another name.")


def column_type(name: str, value: Any, key: str) -> ColumnType:
    """Return the type of a column whose first value is ``value``."""
    # Python's integers are int64, its floats float64, and True and False uint8; a value of NumPy has its own
    # type. A list or a tuple of numbers, and anything that NumPy can make an array of, is an array.
    plain = _plain(name, value, key)
    if isinstance(plain, str):
        return ColumnType("text", "str")
    if plain.ndim == 0:
        return ColumnType("number", "uint8" if plain.dtype == bool else plain.dtype.name)
    return ColumnType("array", plain.dtype.name, plain.ndim)


def _plain(name: str, value: Any, key: str) -> str | npt.NDArray[Any]:
    """A text, or numbers as an array; numbers alone have no side."""
    if isinstance(value, str):
        return value
    try:
        plain = np.asarray(value)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise ConfigError(f"column {name!r} holds no value that can be stored: {error}", key=key) from error
    if plain.dtype.name not in ARRAY_DTYPES:
        kind = "None" if value is None else f"a value of the type {type(value).__name__}"
        inside = f" of {plain.dtype}" if plain.ndim else ""
        raise ConfigError(
            f"column {name!r} holds {kind}{inside}, which cannot be stored",
            key=key,
            hint="A column has a number, a text or an array of numbers in every sample.",
        )
    return plain


def store_value(name: str, value: Any, wanted: ColumnType, key: str) -> Value:
    """Return a value as the type of its column; of an array the elements in C order, little-endian."""
    plain = _plain(name, value, key)
    if isinstance(plain, str):
        if wanted.kind == "text" and is_unicode(plain):
            return plain
        raise _misfit(name, "a text" if wanted.kind != "text" else "half of a surrogate pair", wanted, key)
    if wanted.kind == "text" or plain.ndim != wanted.sides:
        raise _misfit(name, str(column_type(name, value, key)), wanted, key)
    target = np.dtype(wanted.dtype)
    if plain.dtype != target and not _keeps_value(plain, target, value):
        raise _misfit(name, _description(plain), wanted, key)
    if wanted.kind == "number":
        number: int | float = plain.astype(target).item()
        return number
    return np.ascontiguousarray(plain, target.newbyteorder("<"))


def _keeps_value(plain: npt.NDArray[Any], target: np.dtype[Any], value: Any) -> bool:
    """Whether numbers keep their values in another type; Python's own take the type of their column."""
    if np.can_cast(plain.dtype, target, "safe"):
        return True
    if type(value) is int and target.kind in "iu":
        return bool(np.iinfo(target).min <= value <= np.iinfo(target).max)
    return type(value) in (int, float) and target.kind == "f"


def _description(plain: npt.NDArray[Any]) -> str:
    if plain.ndim == 0:
        return f"{plain.item()!r}, a number of {plain.dtype}"
    return str(ColumnType("array", plain.dtype.name, plain.ndim))


def _misfit(name: str, description: str, wanted: ColumnType, key: str) -> ConfigError:
    return ConfigError(
        f"column {name!r} holds {description}, and in the first sample {wanted}",
        key=key,
        hint=f"The first sample fixes the type of a column: write {_KINDS[wanted.kind]} of one type in all.",
    )


def store_array(name: str, array: npt.NDArray[Any]) -> StoredArray:
    """Return an array of :func:`store_value` as its record has it."""
    return StoredArray(name, array.dtype.name, array.shape, array.tobytes())


def number_column(values: Sequence[Any], column: ColumnType) -> pa.Array:
    """Return a column of the index, (N,), of numbers or texts."""
    if column.kind == "text":
        return pa.array(values, pa.large_string())
    return pa.array(np.array(values, column.dtype))


def types_of(values: Mapping[str, Any], key: str) -> dict[str, ColumnType]:
    """Return the types of the columns of the first sample."""
    check_names(values)
    return {name: column_type(name, value, key) for name, value in values.items()}


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
    """Return the file of a mask of classes: bytes, a path, an image of Pillow, or (H, W) uint8 or uint16."""
    # Raises: As :func:`image_file`.
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
            hint="Give bytes of a file, a path, an image of Pillow, or an array (H, W) or (H, W, 3) of "
            "uint8 or uint16 as it was before it was normalised.",
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
