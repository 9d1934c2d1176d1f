"""The execution of a conversion's request, whose source is files or a dataset in Python."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc

from stoker.arguments import check_progress
from stoker.errors import ConfigError
from stoker.urls import is_url

from ..dataset.columns import ORIGIN_COLUMNS
from ..files import check_named
from ..sources.classes import check_classes
from ..sources.listing import Listing
from ..sources.registry import find_format
from ..sources.source import Source
from ..sources.table_blocks import BlockImages
from .execution import Summary, check_num_threads, check_outside_source, execute
from .images.captions import caption_choice, tokenize_captions
from .images.image_encoder import ImageEncoder
from .listed_samples import check_mask_map, list_samples
from .option_values import parse_resize
from .options import ConvertOptions
from .plan import plan_conversion
from .request import ConvertRequest
from .run import no_progress
from .samples.convert_samples import convert_samples
from .targets.loss import check_loss, parse_loss

_FILE_OPTIONS = (
    "val", "test", "shards", "class_depth", "unlabelled", "source_format", "images", "masks", "instances",
    "path_column", "label_column", "suffix", "skip_other_classes", "min_per_class", "max_per_class",
    "allow_loss", "mask_map", "class_map", "min_count", "max_size",
)  # fmt: skip
_WRITER_OPTIONS = (
    "classes", "format", "resize", "encoding", "quality", "subsampling", "restarts", "shard_size",
    "shard_records", "strict", "max_pixels", "overwrite", "ignore_index", "caption_column", "tokenizer",
    "vocabulary", "bos", "eos",
)  # fmt: skip


def convert_request(request: ConvertRequest) -> Summary:
    """Check the options that belong to the kind of the source, and convert it."""
    src = request.src
    if request.make is not None or not isinstance(src, (str, os.PathLike)):
        return _convert_items(request)
    return _convert_files(request, src)


def _convert_items(request: ConvertRequest) -> Summary:
    """Convert the items of a dataset in Python, or the samples that ``make`` returns for them."""
    for name in _FILE_OPTIONS:
        if getattr(request, name):
            raise ConfigError(
                f"{name} is for sources of files, and the source is a dataset in Python",
                hint="leave it out; Dataset.split divides a dataset that is written",
            )
    check_progress(request.progress)
    return convert_samples(
        request.src,
        request.dst,
        make=request.make,
        fields=request.fields,
        seed=request.seed,
        engine=request.engine,
        num_threads=request.num_threads,
        progress=request.progress,
        **{name: getattr(request, name) for name in _WRITER_OPTIONS},
    )


def _convert_files(request: ConvertRequest, src: str | os.PathLike[str]) -> Summary:
    """Convert images in files, with annotations of a format that Stoker knows."""
    dst, images, masks, instances = request.dst, request.images, request.masks, request.instances
    check_named(source=src, target=dst, images=images, masks=masks, instances=instances)
    resize = parse_resize(request.resize)
    names = check_classes(request.classes)
    source = _source(src, request)
    choice = caption_choice(request)
    found_format = find_format(source, request.source_format)
    options = request.options(resize, found_format.name)
    allow_loss = parse_loss(request.allow_loss)
    check_progress(request.progress)
    threads = check_num_threads(request.num_threads, remote=any(map(is_url, (src, images, masks, instances))))
    check_outside_source(src, dst, options.splits)
    report = request.progress or no_progress
    report(0, 0, 0, "listing")
    listing = list_samples(request, source, found_format, names)
    _check_splits(listing, options, dst)
    _check_columns(listing, options)
    check_mask_map(listing, options.mask_map)
    tokenizer: bytes | None = None
    if choice is not None and request.caption_column is not None:
        column = request.caption_column
        listing, captions, tokenizer = tokenize_captions(listing, column, choice, threads, src)
        options = replace(options, captions=captions)
    check_loss(listing, allow_loss)
    with _block_images(listing, request, threads) as block_images:
        return execute(
            plan_conversion(listing, options, ImageEncoder(listing, options, block_images, tokenizer)),
            dst,
            threads,
            overwrite=request.overwrite,
            report=report,
            engine=request.engine,
            allow_loss=allow_loss,
        )


def _source(src: str | os.PathLike[str], request: ConvertRequest) -> Source:
    return Source(
        src,
        request.images,
        request.masks,
        request.ignore_index,
        request.class_depth,
        request.follow_links,
        request.fields,
        unlabelled=request.unlabelled or None,
        path_column=request.path_column,
        label_column=request.label_column,
        suffix=request.suffix,
        instances=request.instances,
        has_mask_map=request.mask_map not in (None, "none"),
        caption_column=request.caption_column,
    )


def _check_splits(listing: Listing, options: ConvertOptions, dst: str | os.PathLike[str]) -> None:
    """Raise ConfigError if a source with splits is to be divided, or a split would lie among its images."""
    if listing.splits and (options.val or options.test):
        raise ConfigError(
            f"val and test divide a source, and this one has the splits {', '.join(listing.splits)}",
            hint="leave val and test (--val, --test) out, or convert the folder of one split",
        )
    for split in () if is_url(dst) else listing.splits:
        folder = os.path.relpath(os.path.realpath(Path(dst) / split), listing.root)
        if pc.any(pc.starts_with(listing.keys, f"{folder}/")).as_py():
            raise ConfigError(
                "images of the source lie in the target, and would mix with shards",
                path=Path(dst) / split,
                hint="name another folder as the target",
            )


def _check_columns(listing: Listing, options: ConvertOptions) -> None:
    """Raise ConfigError if a column of the source has the name of a column that resizing adds."""
    taken = sorted(listing.columns.keys() & ORIGIN_COLUMNS.keys())
    if taken and options.mode != "none":
        raise ConfigError(
            f"the source has a column {taken[0]!r}, a name that the index of resized images uses itself",
            hint="give the column another name in the source, or convert without resize (--resize)",
        )


@contextmanager
def _block_images(listing: Listing, request: ConvertRequest, threads: int) -> Iterator[BlockImages | None]:
    """Yield the reader of images that lie in blocks of files; None for other listings."""
    if listing.blocks is None:
        yield None
        return
    folder = tempfile.gettempdir() if is_url(request.dst) else os.path.abspath(request.dst)  # noqa: PTH100 - as text
    spool = None if request.seed is None else folder
    with closing(BlockImages(listing.blocks, spool, threads)) as images:
        yield images
