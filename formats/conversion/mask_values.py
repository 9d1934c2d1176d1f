"""The masks of images: maps from a source's values or colours to classes, and masks as shards store them."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from stoker.errors import ConfigError

from ..codecs.codec import CODECS
from ..codecs.header import grey_bits, open_mask
from ..sources.classes import read_labelmap
from ..sources.image_files import SkippedError, check_image
from ..sources.masks import mask_values
from .image_objects import ResizeGeometry, check_size, resize_mask, turn_pixels

_MOST = (1 << 16) - 1
_WITHOUT_NAMES = 255  # the largest value of masks whose classes have no names
# cityscapesScripts, helpers/labels.py: id and trainId; all others are ignored.
_CITYSCAPES = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
_ADE20K = 150  # classes; 0 is "other" (MMSegmentation's reduce_zero_label)
NAMED_MAPS = ("cityscapes", "ade20k", "none")
_PAIR = re.compile(r"(\d{1,5}|#[0-9a-fA-F]{6}):(\d{1,5})")

Table = dict[int | tuple[int, int, int], int]


def parse_mask_map(value: str | Mapping[Any, int] | None) -> str | None:
    """Return a map of the values of masks as text: a name, or pairs such as ``0:255,1:0,#ff0000:2``."""
    if isinstance(value, Mapping):
        value = ",".join(f"{_key(key)}:{to}" for key, to in value.items())
    elif value is not None and value.endswith(".txt"):
        value = ",".join(f"{color}:{to}" for to, color in enumerate(read_labelmap(value).values()))
    if value is None or value in NAMED_MAPS:
        return value
    pairs = [part.strip() for part in str(value).split(",")]
    matches = [_PAIR.fullmatch(pair) for pair in pairs]
    if not all(match and max(_number(match[1]), int(match[2])) <= _MOST for match in matches):
        raise ConfigError(
            f"mask_map must be one of {', '.join(NAMED_MAPS)}, or pairs of a value and its class such as "
            f"0:255,1:0 or #ff0000:1, or the path of a labelmap.txt, found {value!r}"
        )
    if len({pair.lower().partition(":")[0] for pair in pairs}) < len(pairs):
        raise ConfigError(f"mask_map has two classes for one value: {value!r}")
    if len({pair.startswith("#") for pair in pairs}) > 1:
        raise ConfigError(f"mask_map has values and colours, and a mask has either: {value!r}")
    return ",".join(pair.lower() for pair in pairs)


def _key(key: Any) -> str:
    is_color = isinstance(key, (tuple, list)) and len(key) == 3
    return "#" + "".join(f"{int(part):02x}" for part in key) if is_color else str(key)


def _number(text: str) -> int:
    return 0 if text.startswith("#") else int(text)


def mask_table(text: str, ignore: int | None) -> Table:
    """Return the class of each value or colour of a map in the form of :func:`parse_mask_map`."""
    # ``ignore`` is the value of pixels without a class.
    if text not in NAMED_MAPS:
        pairs = (pair.split(":") for pair in text.split(","))
        return {_color(key) if key.startswith("#") else int(key): int(to) for key, to in pairs}
    if ignore is None:
        raise ConfigError(f"mask_map {text} needs ignore_index, the value of pixels without a class")
    if text == "ade20k":
        return {0: ignore, **{value: value - 1 for value in range(1, _ADE20K + 1)}}
    return dict.fromkeys((*range(34), 255), ignore) | {value: to for to, value in enumerate(_CITYSCAPES)}


def _color(text: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(text[1:])
    return red, green, blue


@dataclass(frozen=True)
class MaskRules:
    """The rules for all masks of a dataset."""

    padding: int = 255  # Value of pixels that show nothing of the source
    ignore: int | None = None  # Value of pixels without a class; None if every value is a class
    classes: int = 0  # Number of classes; 0 if they have no names
    # The class of each value or colour of the source; None where values are classes
    table: Table | None = None
    seen: set[int] | None = None  # Collects classes until there are three; None to collect none

    @property
    def has_colors(self) -> bool:
        """Whether masks of the source are images in colours."""
        return self.table is not None and isinstance(next(iter(self.table)), tuple)

    def classes_of(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the classes, (H, W) uint8 or uint16, of such values or of (H, W, 3) uint8 colours."""
        classes = values if self.table is None else self._mapped(values)
        most = _WITHOUT_NAMES if self.padding <= _WITHOUT_NAMES else _MOST
        if self.classes:
            most = self.classes - 1
        wrong = (classes > most) & (classes != (-1 if self.ignore is None else self.ignore))
        if wrong.any():
            raise SkippedError(
                "mask with a value without a class", f"{classes[wrong].min()}, more than {most}"
            )
        if self.seen is not None and len(self.seen) < 3:
            self.seen.update(np.unique(classes).tolist())
        return classes

    def _mapped(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        table: dict[int, int] = {
            key if isinstance(key, int) else int.from_bytes(bytes(key), "big"): to
            for key, to in (self.table or {}).items()
        }
        flat = values if values.ndim == 2 else values.astype(np.int64) @ (1 << 16, 1 << 8, 1)
        keys = np.array(sorted(table), np.int64)
        indices = np.searchsorted(keys, flat).clip(max=len(keys) - 1)
        unknown = keys[indices] != flat
        if unknown.any():
            value = int(flat[unknown].min())
            shown = f"#{value:06x}" if self.has_colors else str(value)
            raise SkippedError("mask with a value that mask_map lacks", shown)
        class_of = np.array([table[key] for key in keys.tolist()], np.int64)
        classes: npt.NDArray[Any] = class_of.astype(np.uint8 if class_of.max() < 256 else np.uint16)[indices]
        return classes


def encode_mask(
    data: bytes,
    source: tuple[int, int],
    geometry: ResizeGeometry,
    rules: MaskRules,
    limit: int,
    *,
    orientation: int = 1,
    before_exif: bool = False,
) -> bytes:
    """A mask as a shard stores it: a PNG with one channel of 8 or 16 bits, whose values are classes."""
    # A file that is such a PNG is stored as it is, unless it is resized, turned or mapped. In a resized mask
    # each pixel takes the value of the nearest pixel of the source. Values of a PNG with a palette are the
    # indexes into it; values of less than 8 bits are not scaled. With ``before_exif`` the mask is turned by
    # the ``orientation`` of its image.
    try:
        header = check_image(data, limit)
    except SkippedError as error:
        raise SkippedError("broken mask", ": ".join(filter(None, error.args))) from error
    size = (header.height, header.width)
    check_size("mask of another size than its image", size, source, orientation, before_exif)
    if CODECS[header.codec].lossy:
        raise SkippedError(f"mask in {header.codec.name}, which changes values", "PNG keeps them")
    bits = grey_bits(data, header.codec)
    is_as_stored = geometry.is_identity and (orientation == 1 or not before_exif)
    values = rules.classes_of(_colors(data) if rules.has_colors else mask_values(data, bits or 8))
    if bits in (8, 16) and is_as_stored and rules.table is None:
        return data
    if rules.padding > np.iinfo(values.dtype).max:  # its padding takes more bits than its classes
        values = values.astype(np.uint16)
    values = turn_pixels(values, orientation) if before_exif else values
    values = resize_mask(values, geometry, rules.padding)
    stream = io.BytesIO()
    Image.fromarray(values).save(stream, "PNG")
    return stream.getvalue()


def _colors(data: bytes) -> npt.NDArray[np.uint8]:
    """Colours of a mask, (H, W, 3) uint8."""
    try:
        with open_mask(data) as image:
            return np.asarray(image.convert("RGB"))
    except MemoryError:
        raise
    # Pillow's decoders raise nearly anything on a damaged image.
    except Exception as error:
        raise SkippedError("broken mask", str(error)) from error
