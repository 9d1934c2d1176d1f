"""The options of a conversion: the arguments in groups, and their resolved form.

The command line, the checks of :func:`stoker.convert` and the reference page read the declarations. Plans
and encoders use the resolved form, :class:`ConvertOptions`, and manifests record it.
``formats/changes/append.py`` takes from this record what appended samples must share with the dataset.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, ClassVar, Literal, TypeVar, cast

import numpy as np
import numpy.typing as npt

from stoker.arguments import NamedArguments, whole_number
from stoker.errors import ConfigError

from ..codecs.codec import BYTES_PER_PIXEL, MAX_PIXELS
from ..containers.container import DEFAULT_CONTAINER, find_writing, writable
from ..files import parse_byte_size
from ..options import check_options, one_of, option, option_group, whole
from ..sources.classes import check_classes, parse_class_map, parse_class_names
from ..sources.options import SourceFormatName, SourceOptions
from .captions import CaptionOptions, Captions
from .image_objects import ResizeMode

Share = str | float | Fraction
Resolved = TypeVar("Resolved", bound="ConvertOptions")
Engine = Literal["local", "ray"]
Progress = Callable[[int, int, int, str], None]
"""The user's callback. The converting thread calls it with the samples done, the samples in all, the source
bytes done, and the stage: listing, converting, publishing."""

QUALITY = 90
SUBSAMPLING = "420"
DAILY, _SHARDS, _STORED, _CLASSES = "Options", "Shards", "Stored images", "Classes"

_DEFAULT_SHARD_BYTES = 256_000_000
_LONGEST_SIDE = 65_500  # of a JPEG, in libjpeg
_MOST = (1 << 63) - 1
_RECORD_OVERHEAD = 300  # approximate bytes beside the payload: framing, the names of the features, the key
_ASPECT = 4 / 3  # average of photographs: longer side by shorter side


def _fraction(value: Share) -> Fraction:
    """The exact fraction of 0.1, "0.1" or "10%"; -1 for other texts."""
    text = str(value).strip()
    try:
        return Fraction(text[:-1]) / 100 if text.endswith("%") else Fraction(text)
    except (ValueError, ZeroDivisionError):
        return Fraction(-1)


def parse_share(name: str, value: Share) -> Fraction:
    """Parse a share of all samples, such as 0.1, "0.1" or "10%", into an exact fraction."""
    if not 0 <= (share := _fraction(value)) < 1:
        raise ConfigError(
            f"{name} must be a share such as 0.1 or 10%, from 0 to less than 1, found {value!r}"
        )
    return share


def parse_loss(name: str, value: Share) -> Fraction:
    """Parse the share of a source that may be left out, which may be all of it."""
    if not 0 <= (share := _fraction(value)) <= 1:
        raise ConfigError(f"{name} must be a share such as 0.01 or 1%, from 0 to 1, found {value!r}")
    return share


def parse_resize(value: str | None) -> tuple[ResizeMode, int, int]:
    """Parse a resize such as shorter=256 or fill=224x224 (height x width) into mode, height and width."""
    # NVIDIA DIGITS has the same modes; torchvision's ``Resize(n)`` is ``shorter``, but enlarges, too.
    if value is None:
        return "none", 0, 0
    match = re.fullmatch(r"(shorter|longer)=(\d+)|(squash|crop|fill)=(\d+)[xX](\d+)", str(value).strip())
    if match is None:
        raise ConfigError(
            f"resize must be shorter=N, longer=N, squash=HxW, crop=HxW or fill=HxW, found {value!r}"
        )
    mode = cast("ResizeMode", match[1] or match[3])
    height, width = (int(match[2]),) * 2 if match[1] else (int(match[4]), int(match[5]))
    for side in (height, width):
        whole_number("a side in resize", side, 1, _LONGEST_SIDE)
    return mode, height, width


def _check_resize(name: str, value: str) -> str:
    parse_resize(value)
    return value


def _check_container(name: str, value: str) -> str:
    find_writing(value)
    return value


@dataclass(frozen=True)
class Storage(NamedArguments):
    """How samples become shards, where the size of a shard alone does not say it."""

    shard_records: int | None = option(
        None, "Largest number of samples in a shard, instead of a size.", _SHARDS, check=whole(1, _MOST)
    )
    shards: int | None = option(
        None, "Number of shards of each split, instead of a size.", _SHARDS, check=whole(1, _MOST)
    )

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class ImageStorage(Storage):
    """How images become shards, beside the daily options."""

    subsampling: str | None = option(
        None,
        "Chroma subsampling of the JPEGs that are encoded: 444, 422 or 420; by default 420.",
        _STORED,
        check=one_of("444", "422", "420"),
    )
    restarts: bool | None = option(
        None,
        "Give JPEGs restart markers, so that a loader decodes crops of them faster. Pixels stay the same. By "
        "default only resized JPEGs get them.",
        _STORED,
    )
    max_pixels: int = option(
        MAX_PIXELS, "Leave out images with more pixels than this.", _STORED, check=whole(1, MAX_PIXELS)
    )


@dataclass(frozen=True)
class Selection(NamedArguments):
    """Which samples and classes of a source become samples of the dataset, and under which names."""

    skip_other_classes: bool = option(
        False,
        "Leave out samples or objects of classes that ``classes`` does not name. By default such a class is "
        "an error.",
        _CLASSES,
    )
    allow_missing_classes: bool = option(
        False, "Convert even if a class has no image, for instance because its folder is empty.", _CLASSES
    )
    class_map: Mapping[str, str] | Sequence[str] | None = option(
        None,
        "New names of classes by old ones, such as van:car; classes that get the same name are joined.",
        _CLASSES,
        check=lambda _, value: parse_class_map(value),
        flags=("--map", "--class-map"),
        metavar="OLD:NEW",
        repeatable=True,
    )
    min_per_class: int | None = option(
        None, "Leave out classes with fewer images.", _CLASSES, check=whole(1, _MOST)
    )
    max_per_class: int | None = option(
        None,
        "Largest number of images of a class; their keys and the seed decide which ones stay.",
        _CLASSES,
        check=whole(1, _MOST),
    )
    allow_loss: Fraction | float | str | None = option(
        None,
        "Largest share of images and objects that may be left out, such as 10%. The default is 1% for a "
        "source with objects or masks, and no limit for others.",
        _CLASSES,
        check=parse_loss,
    )

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, kw_only=True)
class CommonArguments:
    """The options that conversions of images and of text, and writers, have."""

    container: str = option(
        DEFAULT_CONTAINER,
        f"Format of the shards: {' or '.join(writable())}.",
        DAILY,
        check=_check_container,
        flags=("--format", "--container"),
    )
    seed: int | None = option(
        None,
        "Seed of a global shuffle; without it, samples keep their order.",
        DAILY,
        check=whole(0, (1 << 64) - 1),
    )
    shard_size: str | int | None = option(
        None, "Approximate size of a shard, such as 500MB; by default 256MB.", DAILY, check=parse_byte_size
    )
    val: Share = option(
        0,
        "Share of the samples of each class to hold out for validation, such as 10%.",
        DAILY,
        check=parse_share,
    )
    test: Share = option(
        0, "Share of the samples of each class to hold out for testing.", DAILY, check=parse_share
    )
    classes: Sequence[str] | None = option(
        None,
        "Names of the classes, label 0 first: names with commas between, a file with a name on each line, or "
        "the folder of a dataset. By default the source names them.",
        DAILY,
        check=lambda _, value: check_classes(value),
        flags=("--classes", "--labels"),
        parse=parse_class_names,
    )
    strict: bool = option(False, "Stop at the first sample that would be skipped.", DAILY)
    overwrite: bool = option(False, "Replace a dataset, or an unfinished conversion, in the target.", DAILY)
    num_threads: int | None = option(
        None,
        "Number of threads; by default one for each core that this process may use.",
        DAILY,
        check=whole(1, 4096),
        flags=("--threads", "--num-threads"),
    )

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, kw_only=True)
class ConvertArguments(CommonArguments):
    """The arguments of :func:`stoker.convert`, without source, target and progress."""

    resize: str | None = option(
        None,
        "Reduce a side to N pixels (shorter=N, longer=N), or make all images HxW: scale each side "
        "(squash=HxW), crop the centre (crop=HxW) or pad with black (fill=HxW).",
        DAILY,
        check=_check_resize,
    )
    encoding: str = option(
        "keep",
        "How images are stored: keep, jpeg, png or raw (RGB bytes).",
        DAILY,
        check=one_of(*BYTES_PER_PIXEL),
    )
    quality: int | None = option(
        None,
        "Quality of the JPEGs that Stoker encodes, 1 to 100; by default 90. With the encoding jpeg, images "
        "that are JPEGs already are encoded again.",
        DAILY,
        check=whole(1, 100),
    )
    engine: Engine = option(
        "local",
        "What makes the shards: threads of this process (local) or a Ray cluster (ray).",
        DAILY,
        check=one_of("local", "ray"),
    )
    source_options: SourceOptions = option_group(SourceOptions)
    selection: Selection = option_group(Selection)
    captions: Captions = option_group(Captions)
    storage: ImageStorage = option_group(ImageStorage)


@dataclass(frozen=True)
class ShardOptions:
    """The resolved options of shards and splits, of images or of text."""

    container: str = DEFAULT_CONTAINER
    seed: int | None = None  # None keeps the order of the source
    # Approximate largest size of a shard, which a larger sample exceeds; 0 if another option counts
    shard_bytes: int = 0
    shard_records: int = 0  # Largest number of records in a shard; 0 if another option counts
    shards: int = 0  # Number of shards; 0 if another option counts
    val: Fraction = Fraction(0)  # Share of each class that goes to ``val``, 0 to 1
    test: Fraction = Fraction(0)  # Share of each class that goes to ``test``
    strict: bool = False  # Whether the first sample that would be skipped stops the conversion

    made_by: ClassVar[str] = "convert"
    most_records: ClassVar[int] = _MOST
    """About the largest number of records in a shard of ``shard_bytes``; it bounds the memory of writing."""
    omitted: ClassVar[frozenset[str]] = frozenset()
    """Options that are left out of manifests while they are not used, as older datasets lack them."""

    def __post_init__(self) -> None:
        if [self.shard_bytes > 0, self.shard_records > 0, self.shards > 0].count(True) != 1:
            raise ConfigError("shards are made by one of shard_size, shard_records and shards")
        if self.val + self.test >= 1:
            raise ConfigError(
                f"val and test leave nothing to train on: {float(self.val):g} + {float(self.test):g} of all"
            )

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
            **{
                name: float(value) if isinstance(value, Fraction) else value
                for name, value in values.items()
                if value or name not in self.omitted
            },
        }


def resolve_shards(arguments: CommonArguments, storage: Storage) -> dict[str, Any]:
    """The fields of :class:`ShardOptions` that follow from arguments."""
    size = arguments.shard_size
    if size is None:
        size = 0 if storage.shard_records or storage.shards else _DEFAULT_SHARD_BYTES
    return {
        "shard_bytes": size,
        "shard_records": storage.shard_records or 0,
        "shards": storage.shards or 0,
        **{name: getattr(arguments, name) for name in ("container", "seed", "strict")},
        **{name: Fraction(getattr(arguments, name)) for name in ("val", "test")},
    }


@dataclass(frozen=True)
class ConvertOptions(ShardOptions):
    """The resolved options of images."""

    mode: ResizeMode = "none"
    height: int = 0  # Height in pixels, or the shorter or longer side in these modes; 0 with ``none``
    width: int = 0
    encoding: str = "keep"
    # None means :data:`QUALITY`, and keeps JPEGs that need no resizing
    quality: int | None = None
    subsampling: str | None = None  # None means :data:`SUBSAMPLING` in the same way
    class_depth: int | None = None
    max_pixels: int = MAX_PIXELS
    restarts: bool | None = None  # None means where images are resized to JPEG
    source_format: SourceFormatName = "folder"
    mask_map: str | None = None  # As parse_mask_map returns it
    annotations_before_exif: bool = False  # Whether objects and masks are turned with their image
    class_map: str | None = None  # New names of classes by old ones, as JSON, which an append applies again
    captions: CaptionOptions | None = field(default=None)

    omitted: ClassVar[frozenset[str]] = frozenset(
        ("restarts", "mask_map", "class_map", "annotations_before_exif")
    )

    @classmethod
    def resolve(
        cls: type[Resolved],
        arguments: ConvertArguments,
        source_format: SourceFormatName,
        captions: CaptionOptions | None = None,
    ) -> Resolved:
        """Return the options of a conversion of a source in this format."""
        mode, height, width = parse_resize(arguments.resize)
        class_map, mask_map = arguments.selection.class_map, arguments.source_options.mask_map
        if mask_map is not None:
            from .mask_values import parse_mask_map

            mask_map = parse_mask_map(mask_map)
        return cls(
            **resolve_shards(arguments, arguments.storage),
            mode=mode,
            height=height,
            width=width,
            encoding=arguments.encoding,
            quality=arguments.quality,
            subsampling=arguments.storage.subsampling,
            class_depth=arguments.source_options.class_depth,
            max_pixels=arguments.storage.max_pixels,
            restarts=arguments.storage.restarts,
            source_format=source_format,
            mask_map=mask_map,
            annotations_before_exif=arguments.source_options.annotations_before_exif,
            class_map=None if class_map is None else json.dumps(class_map),
            captions=captions,
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        encodes_jpeg = self.encoding == "jpeg" or (self.encoding == "keep" and self.mode != "none")
        for name in ("quality", "subsampling"):
            if getattr(self, name) is not None and not encodes_jpeg:
                raise ConfigError(
                    f"{name} is for JPEGs that are encoded, and with encoding {self.encoding!r} none is",
                    hint=f"Store JPEGs with encoding='jpeg', or leave out {name}.",
                )
        stores_jpeg = self.encoding in ("keep", "jpeg")
        if self.restarts and not stores_jpeg:
            raise ConfigError(
                f"restarts is for JPEGs, and with encoding {self.encoding!r} none is stored",
                hint="Leave out restarts, or store JPEGs with the encoding keep or jpeg.",
            )
        if self.restarts is None:
            object.__setattr__(self, "restarts", stores_jpeg and self.mode != "none")
        if self.mode != "none" and self.height * self.width > self.max_pixels:
            raise ConfigError(f"resize asks for more than max_pixels, {self.max_pixels}")

    def to_manifest(self) -> dict[str, str | int | float | bool | None]:
        recorded = super().to_manifest()
        del recorded["captions"]
        of_captions = {} if self.captions is None else vars(self.captions)
        return recorded | {
            name: value for name, value in of_captions.items() if value != "" or name != "tokenizer_settings"
        }

    @property
    def compresses_again(self) -> bool:
        """Whether JPEGs that need no resizing are encoded again, for a quality or a subsampling."""
        return self.encoding == "jpeg" and (self.quality is not None or self.subsampling is not None)

    @property
    def keeps_images(self) -> bool:
        """Whether every image keeps its encoding and its pixels."""
        return self.mode == "none" and self.encoding == "keep"

    @property
    def keeps_bytes(self) -> bool:
        """Whether the bytes of every image are stored as they are in the source."""
        return self.keeps_images and not self.restarts

    def record_bytes(self, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """See :meth:`ShardOptions.record_bytes`."""
        # It is exact where bytes are kept or raw pixels have one size, else an estimate from averages of
        # photographs, because planning opens no file.
        if not self.keeps_images:
            pixels = sizes / BYTES_PER_PIXEL["keep"]
            if self.mode != "none":
                pixels = np.full(len(sizes), float(self.height * self.width))
                pixels *= {"shorter": _ASPECT, "longer": 1 / _ASPECT}.get(self.mode, 1)
            sizes = (pixels * BYTES_PER_PIXEL[self.encoding]).astype(np.int64)
        return super().record_bytes(sizes)


@dataclass(frozen=True)
class WriterOptions(ConvertOptions):
    """The resolved options of a writer, which has no source."""

    made_by: ClassVar[str] = "writer"

    def to_manifest(self) -> dict[str, str | int | float | bool | None]:
        of_sources = {"seed", "val", "test", "shards", "class_depth", "source_format"}
        return {name: value for name, value in super().to_manifest().items() if name not in of_sources}
