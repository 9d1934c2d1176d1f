"""The options of a conversion, checked and in one form."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from operator import index
from typing import Any, ClassVar, Literal, Protocol, SupportsIndex, cast

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from ..codecs.codec import BYTES_PER_PIXEL, MAX_PIXELS
from ..containers.registry import DEFAULT_CONTAINER, find_writing
from ..files import parse_byte_size
from ..sources.classes import parse_class_map
from ..sources.options import SourceFormatName
from .captions import CaptionOptions
from .mask_values import parse_mask_map

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


QUALITY = 90
SUBSAMPLING = "420"

_SUBSAMPLINGS = ("444", "422", "420")
_RECORD_OVERHEAD = 300  # approximate bytes beside the payload: framing, the names of the features, the key
_ASPECT = 4 / 3  # average of photographs: longer side by shorter side


@dataclass(frozen=True)
class ShardOptions:
    """How samples, of images or of text, are divided among splits and shards."""

    container: str = DEFAULT_CONTAINER  # Name of the container of the shards, such as tfrecord
    seed: int | None = None  # Seed of the global shuffle, from 0; None keeps the order of the source
    # Approximate largest size of a shard, which a larger sample exceeds; 0 if another option counts
    shard_bytes: int = 0
    shard_records: int = 0  # Largest number of records in a shard; 0 if another option counts
    shards: int = 0  # Number of shards; 0 if another option counts
    val: Fraction = Fraction(0)  # Share of each class that goes to ``val``, 0 to 1
    test: Fraction = Fraction(0)  # Share of each class that goes to ``test``
    strict: bool = False  # Whether the first sample that would be skipped stops the conversion

    made_by: ClassVar[str] = "convert"
    most_records: ClassVar[int] = (1 << 63) - 1
    """About the largest number of records in a shard of ``shard_bytes``; it bounds the memory of writing."""

    def __post_init__(self) -> None:
        find_writing(self.container)
        if self.seed is not None:
            self._set_integer("seed", 0, (1 << 64) - 1)
        for name in ("shard_bytes", "shard_records", "shards"):
            self._set_integer(name, 0, (1 << 63) - 1)
        if [self.shard_bytes > 0, self.shard_records > 0, self.shards > 0].count(True) != 1:
            raise ConfigError("shards are made by one of shard_size, shard_records and shards, each above 0")
        if self.val + self.test >= 1:
            raise ConfigError(
                f"val and test leave nothing to train on: {float(self.val):g} + {float(self.test):g} of all"
            )

    def _set_integer(self, name: str, low: int, high: int) -> None:
        """Replace a number by a Python int, for the manifest; raise ConfigError if it is out of range."""
        object.__setattr__(self, name, check_integer(name, getattr(self, name), low, high))

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the datasets; one empty name if there are no splits."""
        if not self.val and not self.test:
            return ("",)
        return ("train", *(["val"] if self.val else []), *(["test"] if self.test else []))

    def record_bytes(self, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Approximate bytes of each record, (N,), for samples of ``sizes`` bytes in the source."""
        return sizes + _RECORD_OVERHEAD

    def to_manifest(self) -> dict[str, str | int | float | bool | None]:
        """The options as the manifest records them."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {
            "made_by": self.made_by,
            **{name: float(v) if isinstance(v, Fraction) else v for name, v in values.items()},
        }


@dataclass(frozen=True)
class ConvertOptions(ShardOptions):
    """How images become shards."""

    mode: ResizeMode = "none"  # How images are resized: none, shorter, longer, squash, crop, fill
    height: int = 0  # Height in pixels, or the shorter or longer side in these modes; 0 with ``none``
    width: int = 0  # Width in pixels, in the same way
    encoding: str = "keep"  # keep, jpeg, png or raw
    # JPEG quality, 1 to 100. None means :data:`QUALITY`, and keeps JPEGs that need no resizing
    quality: int | None = None
    # JPEG chroma subsampling: 444, 422 or 420. None means :data:`SUBSAMPLING` in the same way
    subsampling: str | None = None
    class_depth: int | None = None  # Number of leading folders that name the class; None for all
    max_pixels: int = MAX_PIXELS  # Images of more pixels are skipped
    # Whether stored JPEGs get restart markers. None means where images are resized to JPEG
    restarts: bool | None = None
    # Name of the format of the source, see :mod:`stoker.formats.sources.registry`
    source_format: SourceFormatName = "folder"
    # Classes by the values of masks, see :func:`.images.mask_values.parse_mask_map`
    mask_map: str | None = None
    class_map: str | None = None  # New names of classes by old ones, as JSON, which an append applies again
    captions: CaptionOptions | None = None  # The captions beside the images; None if there are none

    def __post_init__(self) -> None:
        super().__post_init__()
        _one_of("encoding", self.encoding, tuple(BYTES_PER_PIXEL))
        if self.subsampling is not None:
            _one_of("subsampling", self.subsampling, _SUBSAMPLINGS)
        if self.quality is not None:
            self._set_integer("quality", 1, 100)
        self._check_jpegs_are_encoded()
        self._set_restarts()
        self._set_integer("max_pixels", 1, MAX_PIXELS)
        if self.class_depth is not None:
            self._set_integer("class_depth", 1, 4096)
        if self.mode != "none" and self.height * self.width > self.max_pixels:
            raise ConfigError(f"resize asks for more than max_pixels, {self.max_pixels}")

    def _check_jpegs_are_encoded(self) -> None:
        """Raise ConfigError if quality or subsampling is given and no JPEG is encoded anew."""
        if self.encoding == "jpeg" or (self.encoding == "keep" and self.mode != "none"):
            return
        for name in ("quality", "subsampling"):
            if getattr(self, name) is not None:
                raise ConfigError(
                    f"{name} is for JPEGs that are encoded anew, and with encoding {self.encoding!r} none is",
                    hint=f"add --encoding jpeg (encoding='jpeg'), or leave out {name}",
                )

    def _set_restarts(self) -> None:
        """Decide ``restarts`` where it is None; raise ConfigError if it is True and no JPEG is stored."""
        stores_jpeg = self.encoding in ("keep", "jpeg")
        if self.restarts and not stores_jpeg:
            raise ConfigError(
                f"restarts is for JPEGs, and with encoding {self.encoding!r} none is stored",
                hint="leave out --restarts (restarts=True), or store JPEGs: --encoding keep or jpeg",
            )
        if self.restarts is None:
            object.__setattr__(self, "restarts", stores_jpeg and self.mode != "none")

    def to_manifest(self) -> dict[str, str | int | float | bool | None]:
        """See :meth:`ShardOptions.to_manifest`; it omits unused options of later versions.

        So the manifest stays equal to that of a version without these options.
        """
        later = ("restarts", "mask_map", "class_map")
        unused = {name for name in later if not getattr(self, name)}
        unused.add("captions")
        kept = {name: value for name, value in super().to_manifest().items() if name not in unused}
        return {**kept, **({} if self.captions is None else vars(self.captions))}

    @property
    def compresses_again(self) -> bool:
        """Whether JPEGs that need no resizing are encoded anew, because a quality is asked for."""
        return self.encoding == "jpeg" and (self.quality is not None or self.subsampling is not None)

    @property
    def keeps_images(self) -> bool:
        """Whether every image keeps its encoding and its pixels."""
        return self.mode == "none" and self.encoding == "keep"

    @property
    def keeps_bytes(self) -> bool:
        """Whether every image is stored as it is."""
        return self.keeps_images and not self.restarts

    def record_bytes(self, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """See :meth:`ShardOptions.record_bytes`.

        It is exact where bytes are kept or raw pixels have one size, else an estimate from averages of
        photographs, because planning opens no file.
        """
        if not self.keeps_images:
            pixels = sizes / BYTES_PER_PIXEL["keep"]
            if self.mode != "none":
                pixels = np.full(len(sizes), float(self.height * self.width))
                pixels *= {"shorter": _ASPECT, "longer": 1 / _ASPECT}.get(self.mode, 1)
            sizes = (pixels * BYTES_PER_PIXEL[self.encoding]).astype(np.int64)
        return super().record_bytes(sizes)


def shard_options(  # noqa: PLR0917 - in the order of stoker.convert's arguments
    container: str,
    seed: int | None,
    shard_size: str | int | None,
    shard_records: int | None,
    shards: int | None,
    val: str | float | Fraction,
    test: str | float | Fraction,
    *,
    strict: bool,
) -> ShardOptions:
    """The checked options of shards and splits, from arguments as :func:`stoker.convert` has them."""
    size = shard_bytes(shard_size, shard_records, shards)
    shares = parse_share("val", val), parse_share("test", test)
    return ShardOptions(container, seed, size, shard_records or 0, shards or 0, *shares, strict)


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")


@dataclass(frozen=True)
class WriterOptions(ConvertOptions):
    """How the samples of a writer become shards; those of :class:`ConvertOptions` that it has."""

    made_by: ClassVar[str] = "writer"

    def to_manifest(self) -> dict[str, str | int | float | bool | None]:
        """The options as the manifest records them."""
        of_sources = {"seed", "val", "test", "shards", "class_depth", "source_format"}
        kept = {item.name for item in fields(self)} - of_sources | {"made_by"}
        kept |= set() if self.captions is None else {*vars(self.captions)}
        return {name: value for name, value in super().to_manifest().items() if name in kept}


Engine = Literal["local", "ray"]

Progress = Callable[[int, int, int, str], None]
"""The user's callback. The converting thread calls it with the samples done, the samples in all, the source
bytes done, and the stage: listing, converting, publishing."""


class SupportsItems(Protocol):
    """A dataset of PyTorch's kind: a number of items, which are read by their indices."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class ConvertRequest:
    """The arguments of a call of :func:`stoker.convert`, as they were given."""

    src: Any
    dst: str | os.PathLike[str]
    make: Callable[[Any], Any] | None
    fields: Mapping[str, str | None] | None
    format: str
    seed: int | None
    resize: str | None
    encoding: str
    quality: int | None
    subsampling: str | None
    shard_size: str | int | None
    shard_records: int | None
    shards: int | None
    val: str | float | Fraction
    test: str | float | Fraction
    strict: bool
    num_threads: int | None
    class_depth: int | None
    unlabelled: bool
    classes: Sequence[str] | None
    allow_missing_classes: bool
    follow_links: bool
    max_pixels: int
    restarts: bool | None
    overwrite: bool
    engine: Engine
    source_format: SourceFormatName | None
    images: str | os.PathLike[str] | None
    masks: str | os.PathLike[str] | None
    instances: str | os.PathLike[str] | None
    ignore_index: int | None
    path_column: str | None
    label_column: str | None
    suffix: str | None
    skip_other_classes: bool
    min_per_class: int | None
    max_per_class: int | None
    allow_loss: str | float | Fraction | None
    mask_map: str | Mapping[Any, int] | None
    class_map: Mapping[str, str] | Sequence[str] | None
    caption_column: str | None
    tokenizer: str | os.PathLike[str] | None
    vocabulary: str | os.PathLike[str] | None
    bos: bool
    eos: bool
    progress: Progress | None

    def options(self, resize: tuple[ResizeMode, int, int], source_format: SourceFormatName) -> ConvertOptions:
        """Return the checked options of the conversion of a source of files.

        ``resize`` has mode, height and width, as :func:`.option_values.parse_resize` returns them.
        """
        mode, height, width = resize
        class_map = parse_class_map(self.class_map)
        shards = shard_options(
            self.format, self.seed, self.shard_size, self.shard_records, self.shards, self.val, self.test,
            strict=self.strict,
        )  # fmt: skip
        return ConvertOptions(
            **vars(shards),
            mode=mode,
            height=height,
            width=width,
            encoding=self.encoding,
            quality=self.quality,
            subsampling=self.subsampling,
            class_depth=self.class_depth,
            max_pixels=self.max_pixels,
            restarts=self.restarts,
            source_format=source_format,
            mask_map=parse_mask_map(self.mask_map),
            class_map=None if class_map is None else json.dumps(class_map),
        )
