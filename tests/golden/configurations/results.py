"""Kinds of results, their digests and their summaries, for the configurations, the check and the test.

A result is a plain value, which every machine computes to the bit, or one of the classes below.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from itertools import chain
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

CELLS = 4  # an image is summarised by so many rows and columns of cells
LEVELS = 1.5 + 0.5  # the tolerance, and the rounding of what is recorded


@dataclass(frozen=True)
class Local:
    """A value that depends on the versions of other libraries: only the check compares it."""

    value: Any


@dataclass(frozen=True)
class Near:
    """Numbers that another processor may round differently: values of one structure, such as epochs.

    ``tolerance`` is a share of the largest number of an array.
    """

    values: tuple[Any, ...]
    tolerance: float = 1e-5


@dataclass(frozen=True)
class Pixels:
    """Images, (N, C, H, W) or (N, H, W, C); ``scale`` and ``offset`` turn their values into levels."""

    values: Array
    scale: float = 1.0
    offset: float = 0.0


def digest(value: Any) -> str:
    """Returns a digest of a result that depends on every bit and on no name of a class or field."""
    hashed = hashlib.sha256()
    for part in _parts(value):
        hashed.update(b"%d:" % len(part) + part)
    return hashed.hexdigest()[:20]


def summary(result: Any) -> Any:
    """Returns what the portable test compares instead of a digest; None where it compares nothing."""
    if isinstance(result, Near):
        return [_describe(leaf) for leaf in _merged(result.values)]
    if isinstance(result, Pixels):
        return [bytes(np.rint(cells).astype(np.uint8).ravel()).hex() for cells in _cells(result)]
    return None


def is_close(result: Near | Pixels, recorded: list[Any]) -> bool:
    """Returns whether a result agrees with its recorded summary within the tolerances."""
    if isinstance(result, Pixels):
        cells = _cells(result)
        known = [np.frombuffer(bytes.fromhex(image), np.uint8) for image in recorded]
        return len(cells) == len(known) and all(
            found.size == image.size and np.abs(found.ravel() - image).max() <= LEVELS
            for found, image in zip(cells, known, strict=True)
        )
    described = summary(result)
    return len(described) == len(recorded) and all(
        found[0] == leaf[0] and _is_close(np.array(found[1:]), np.array(leaf[1:]), result.tolerance)
        for found, leaf in zip(described, recorded, strict=True)
    )


def _is_close(found: Array, recorded: Array, tolerance: float) -> bool:
    largest = np.abs(recorded).max(initial=0)
    return found.size == recorded.size and np.abs(found - recorded).max(initial=0) <= tolerance * largest


def _parts(value: Any) -> Iterator[bytes]:
    """Yields bytes that together determine a value."""
    if isinstance(value, np.ndarray) and value.dtype.kind not in "OUS":
        bits = value.view(np.uint16) if value.dtype.name == "bfloat16" else value
        yield f"{value.dtype.name}{value.shape}".encode()
        yield np.ascontiguousarray(bits).tobytes()
    elif isinstance(value, (bytes, bytearray)):
        yield b"bytes"
        yield bytes(value)
    elif isinstance(value, Enum):
        yield from _parts(value.value)
    elif value is None or isinstance(value, (bool, int, float, str, np.generic)):
        yield repr(value.item() if isinstance(value, np.generic) else value).encode()
    else:
        yield from _parts_of_many(value)


def _parts_of_many(value: Any) -> Iterator[bytes]:
    if isinstance(value, Mapping):
        items: list[Any] = [part for key in sorted(value) for part in (key, value[key])]
    elif isinstance(value, Set):
        items = sorted(value)
    elif is_dataclass(value):
        items = _recorded_fields(value)
    elif isinstance(value, (list, tuple, np.ndarray)):
        items = list(value)
    else:
        raise TypeError(f"no digest of {type(value).__name__}; turn it into arrays or numbers")
    yield b"many %d" % len(items)
    for item in items:
        yield from _parts(item)


def _recorded_fields(value: Any) -> list[Any]:
    return [getattr(value, field.name) for field in fields(value) if not _is_later(field.name, value)]


def _is_later(name: str, value: Any) -> bool:
    """Whether a field is younger than the recorded digests, and empty."""
    later = ("image_size", "mean_image", "composition", "plain", "direct", "corners")
    return name in later and (getattr(value, name) is None or getattr(value, name) is False)


def _leaves(value: Any) -> Iterator[Array]:
    """Yields the numbers of a value as flat arrays, in order."""
    if isinstance(value, (bool, int, float, np.generic, np.ndarray)):
        yield np.asarray(value, np.float64).ravel()
    elif isinstance(value, Mapping):
        yield from chain.from_iterable(_leaves(value[key]) for key in sorted(value))
    elif is_dataclass(value):
        yield from chain.from_iterable(map(_leaves, _recorded_fields(value)))
    elif isinstance(value, (list, tuple)):
        yield from chain.from_iterable(map(_leaves, value))


def _merged(values: tuple[Any, ...]) -> list[Array]:
    """Returns the leaves of values of one structure, concatenated over the values."""
    leaves = [list(_leaves(value)) for value in values]
    if len(set(map(len, leaves))) > 1:
        return list(chain.from_iterable(leaves))
    return [np.concatenate(same) for same in zip(*leaves, strict=True)]


def _describe(leaf: Array) -> list[Any]:
    """Returns how many numbers there are, and the mean, the least and the largest of the finite ones."""
    finite = leaf[np.isfinite(leaf)]
    numbers = (finite.mean(), finite.min(), finite.max()) if finite.size > 1 else finite
    return [leaf.size, *(float(f"{number:.6g}") for number in numbers)]


def _cells(result: Pixels) -> list[Array]:
    """Returns the mean levels of the cells of each image, with a weight of its own for each channel."""
    values = result.values
    if values.dtype == np.uint16:  # the bits of bfloat16
        values = (values.astype(np.uint32) << 16).view(np.float32)
    values = values.astype(np.float64) * result.scale + result.offset
    if values.shape[1] != 3:
        values = np.moveaxis(values, -1, 1)
    gray = np.tensordot(values[:, :3], np.array((1, 2, 3)) / 6, (1, 0)).clip(0, 255)
    bands = chain.from_iterable(np.array_split(image, CELLS, 0) for image in gray)
    cells = [cell.mean() for band in bands for cell in np.array_split(band, CELLS, 1)]
    return list(np.reshape(cells, (len(gray), CELLS**2)))
