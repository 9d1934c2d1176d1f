"""A call of ``stoker.convert`` as data: :mod:`.convert` makes one and executes it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from ..sources.classes import parse_class_map
from ..sources.options import SourceFormatName
from .execution import Engine
from .images.mask_values import parse_mask_map
from .option_values import ResizeMode
from .options import ConvertOptions, shard_options
from .run import Progress


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
    min_count: int | None
    max_size: int | None
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
