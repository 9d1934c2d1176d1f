"""The page of the images that conversions with several resize modes would store."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from stoker.errors import ConfigError
from stoker.formats.codecs.codec import Codec
from stoker.formats.codecs.decode import decode_rgb
from stoker.formats.conversion.image_encoder import ImageEncoder, encode_image
from stoker.formats.conversion.options import ConvertOptions, parse_resize
from stoker.formats.dataset.manifest import MANIFEST_NAME
from stoker.formats.in_place.images import is_flat
from stoker.formats.open import open as open_dataset
from stoker.formats.sources.image_files import SkippedError
from stoker.formats.sources.listing import Skip, name_reasons
from stoker.formats.sources.options import SourceOptions
from stoker.formats.sources.registry import find_format, list_source
from stoker.formats.sources.source import Source
from stoker.formats.sources.tables import BlockImages
from stoker.urls import is_url

from .drawing import NO_MARKS, Legend
from .page import Cell, Page, spread_positions

_SHARD_BYTES = 1 << 28  # every conversion needs this option; here it has no effect


@dataclass(frozen=True)
class _File:
    """An image of a source: its name, and its bytes."""

    key: str
    data: bytes


def resize_page(
    source: str | Path, modes: Sequence[str], *, samples: int, positions: Sequence[int] | None, side: int
) -> Page:
    """Return a page with a row for each image: as it is, and as a conversion with each mode stores it."""
    all_modes = [mode for argument in modes for mode in _modes(argument)]
    options = {mode: _options(mode) for mode in all_modes}
    files, total = _read(source, samples, positions)
    upright = ConvertOptions(shard_bytes=_SHARD_BYTES, encoding="png")
    rows, skips = [], [file for file in files if isinstance(file, Skip)]
    for file in (file for file in files if isinstance(file, _File)):
        try:
            first, *stored = (_cell(file, one) for one in (upright, *options.values()))
        except SkippedError as error:
            skips.append(Skip(file.key, *error.args))
            continue
        rows.append((replace(first, caption=(file.key, *first.caption)), *stored))
    if not rows:
        raise ConfigError(f"no image can be shown: {name_reasons(skips)}", path=source, hint="Choose others.")
    lines = [f"{total:,} images", *([f"left out: {name_reasons(skips)}"] if skips else [])]
    title = str(source).rstrip("/").rpartition("/")[2]
    return Page(title, tuple(lines), ("original", *all_modes), tuple(rows), Legend(str), (), side)


def _modes(argument: str) -> list[str]:
    if re.fullmatch(r"\d+[xX]\d+", argument):
        return [f"{mode}={argument}" for mode in ("squash", "crop", "fill")]
    return [argument]


def _options(mode: str) -> ConvertOptions:
    name, height, width = parse_resize(mode)
    return ConvertOptions(shard_bytes=_SHARD_BYTES, mode=name, height=height, width=width, restarts=False)


def _read(
    source: str | Path, samples: int, positions: Sequence[int] | None
) -> tuple[list[_File | Skip], int]:
    """Return the chosen images, and the number of all images."""
    if (Path(source) / MANIFEST_NAME).is_file():
        dataset = open_dataset(source)
        if dataset.manifest.sample_type != "image" or (dataset.column("codec") == Codec.RAW).any():
            raise ConfigError("the dataset holds no encoded images", path=source, hint="Name its source.")
        chosen = spread_positions(len(dataset), samples, positions, what="image")
        keys = dataset.keys(chosen)
        return [_File(key, dataset.read(i)) for key, i in zip(keys, chosen, strict=True)], len(dataset)
    opened = Source(source)
    source_format = find_format(opened)
    if source_format.name == "folder" and not is_url(source) and is_flat(source):
        opened = Source(source, SourceOptions(unlabelled=True))
    listing = list_source(opened, source_format)
    as_they_are = ConvertOptions(shard_bytes=_SHARD_BYTES)
    blocks = listing.blocks
    with nullcontext() if blocks is None else closing(BlockImages(blocks, None, 1)) as images:
        encoder = ImageEncoder(listing, as_they_are, images)
        rows = np.array(spread_positions(len(listing), samples, positions, what="image"), np.int64)
        found = list(encoder.encode(rows))
    files = [one if isinstance(one, Skip) else _File(one.key, bytes(one.payload)) for one in found]
    return files, len(listing)


def _cell(file: _File, options: ConvertOptions) -> Cell:
    image = encode_image(file.data, options)
    pixels = decode_rgb(image.payload, image.codec, image.height, image.width)
    size = f"{image.width} x {image.height}"
    caption = size if options.mode == "none" else f"{size}, {len(image.payload):,} bytes"
    return Cell(pixels, NO_MARKS, (caption,))
