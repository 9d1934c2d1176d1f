"""The values of options of a conversion, parsed from the texts and numbers that users give."""

from __future__ import annotations

import re
from fractions import Fraction
from operator import index
from typing import Any, Literal, SupportsIndex, cast

from stoker.errors import ConfigError

from ..files import parse_byte_size

ResizeMode = Literal["none", "shorter", "longer", "squash", "crop", "fill"]

_DEFAULT_SHARD_BYTES = 256_000_000
_LONGEST_SIDE = 65_500  # of a JPEG, in libjpeg


def shard_bytes(shard_size: str | int | None, shard_records: int | None, shards: int | None) -> int:
    """Bytes of a shard: as given, by default 256 MB, and 0 where another option divides the samples."""
    if shard_size is None:
        return 0 if shard_records is not None or shards is not None else _DEFAULT_SHARD_BYTES
    return parse_byte_size("shard_size", shard_size)


def parse_share(name: str, value: str | float | Fraction) -> Fraction:
    """Parse a share of all samples, such as 0.1, "0.1" or "10%", into an exact fraction."""
    share = parse_fraction(value)
    if not 0 <= share < 1:
        raise ConfigError(f"{name} must be a share such as 0.1 or 10%, from 0 to less than 1, not {value!r}")
    return share


def parse_fraction(value: str | float | Fraction) -> Fraction:
    """Parse 0.1, "0.1" or "10%" into an exact fraction; -1 for other texts."""
    text = str(value).strip()
    try:
        return Fraction(text[:-1]) / 100 if text.endswith("%") else Fraction(text)
    except (ValueError, ZeroDivisionError):
        return Fraction(-1)


def parse_resize(value: str | None) -> tuple[ResizeMode, int, int]:
    """Parse a resize such as shorter=256 or fill=224x224 (height x width) into mode, height and width.

    The modes are those of NVIDIA DIGITS. ``shorter`` and ``longer`` scale an image so that this side has at
    most N pixels (torchvision's ``Resize(n)`` is ``shorter``, but enlarges, too); ``squash`` scales height
    and width independently; ``crop`` scales the image to cover height x width and crops the centre; ``fill``
    scales it to fit into height x width and pads it with black.
    """
    if value is None:
        return "none", 0, 0
    match = re.fullmatch(r"(shorter|longer)=(\d+)|(squash|crop|fill)=(\d+)[xX](\d+)", str(value).strip())
    if match is None:
        raise ConfigError(
            f"resize must be shorter=N, longer=N, squash=HxW, crop=HxW or fill=HxW, not {value!r}"
        )
    mode = cast("ResizeMode", match[1] or match[3])
    height, width = (int(match[2]),) * 2 if match[1] else (int(match[4]), int(match[5]))
    for side in (height, width):
        check_integer("a side in resize", side, 1, _LONGEST_SIDE)
    return mode, height, width


def check_integer(name: str, value: Any, low: int, high: int) -> int:
    """Return an integer of any type, such as NumPy's, as a Python int."""
    number = index(value) if isinstance(value, SupportsIndex) and not isinstance(value, bool) else low - 1
    if not low <= number <= high:
        raise ConfigError(f"{name} must be an integer from {low} to {high}, not {value!r}")
    return number
