"""The formats of sources, one row each; conversions and data in place find and list their source here.

A new format is a test in :mod:`.detection`, a description in :mod:`.options`, a module with a function that
lists a source, and a row here. The module loads for its format alone.

The first format that detects a source takes it: put a row before every format that would accept the same
sources, such as ``list``, which takes every file on a disk.

The function returns a :class:`.listing.Listing` and reads no image. ``find_files`` of :mod:`.image_files`
finds the named images, on a disk or at a URL, sorts them, and returns the rest as skips.
``Listing(**vars(found.files), ...)`` sets root, keys, sizes and times; ``found.entries`` says which name each
file had. A format of objects adds each to an :class:`.objects.ObjectTable`, in pixels with edges at integers;
``table.listed(rows, sizes, name)`` makes ``objects`` of it, where ``rows`` has the row of each object's
image; :class:`.objects.AnnotatedImages` does this for boxes. Labels are numbered from 0 by ``classes``. An
object that cannot be used raises BadObjectError and becomes a :class:`.listing.Skip`; a source without images
or objects raises SourceError. Classes are in the order of the source if it declares them, else sorted.

Further columns of the index go to ``Listing.columns``. Loaders return a column of numbers or strings. They
return columns of lists only if they are named ``label`` or ``object_*``, with one entry for each object;
others stay in the index. A column of labels is renumbered with the classes only if it is ``label`` or
``object_labels``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from stoker.arguments import one_of
from stoker.errors import ConfigError, SourceError
from stoker.urls import is_url

from ..containers.shard_names import is_pattern
from ..files import missing_path, read_errors
from ..options import declarations
from ..splits import Door
from . import detection
from .listing import Listing
from .options import SOURCE_DESCRIPTIONS, SourceFormatName
from .roots import check_is_one_dataset
from .source import Source


@dataclass(frozen=True)
class SourceFormat:
    """A format of sources."""

    name: SourceFormatName
    detects: Callable[[Source], bool]  # Whether a source has this format
    # Module in this package, or with a dot in formats, and its function that lists a source: "coco.list_coco"
    lists: str
    has_captions: bool = False  # Whether a sample may have captions
    reads_instances: bool = False  # Whether the format reads the masks in ``instances`` itself


SOURCE_FORMATS = (
    SourceFormat("dataset", detection.is_dataset_of_stoker, "datasets.list_dataset", has_captions=True),
    SourceFormat("table", detection.is_table, "tables.list_table", has_captions=True),
    SourceFormat("recordio", detection.is_recordio, "archives.list_recordio"),
    SourceFormat("mds", detection.is_mds, "archives.list_mds", has_captions=True),
    SourceFormat("webdataset", detection.is_webdataset, "archives.list_tar", has_captions=True),
    SourceFormat("shards", detection.is_shards, ".in_place.shards.list_shards", has_captions=True),
    SourceFormat("voc", detection.is_voc, "voc.list_voc"),
    SourceFormat(
        "open_images", detection.is_open_images, "open_images.list_open_images", reads_instances=True
    ),
    SourceFormat("coco", detection.is_coco, "coco.list_coco"),
    SourceFormat("list", detection.is_list, "file_list.list_named_images", has_captions=True),
    SourceFormat("yolo", detection.is_yolo, "yolo.list_yolo"),
    SourceFormat("labelme", detection.is_labelme, "labelme.list_labelme"),
    SourceFormat("pairs", detection.is_pairs, "masks.list_pairs"),
    SourceFormat("folder", lambda _: True, "class_folder.list_folder"),
)
"""In the order in which detection tries them: a source has the first format that detects it."""
_WITH_CAPTIONS = [row.name for row in SOURCE_FORMATS if row.has_captions]


def find_format(source: Source, name: str | None = None, door: Door = "convert") -> SourceFormat:
    """The format of a source: the one of this name, or the first that detects it."""
    # A folder of several datasets, or of annotations that would be lost, is refused with calls of ``door``.
    if name is not None:
        named: dict[str, SourceFormat] = {row.name: row for row in SOURCE_FORMATS}
        return named[one_of("source_format", name, SOURCE_DESCRIPTIONS)]
    with read_errors(source.path):
        detected = next(row for row in SOURCE_FORMATS if row.detects(source))
        check_is_one_dataset(source, detected.name, door)
        return detected


def list_source(source: Source, source_format: SourceFormat) -> Listing:
    """List the images of a source, with all labels, objects and masks that it has for them."""
    with read_errors(source.path):
        return _list(source, source_format)


def _list(source: Source, source_format: SourceFormat) -> Listing:
    options = source.options
    if source_format.name != "dataset" and not is_pattern(source.path):
        _check_exists(source.path)
    for folder in (options.images, options.masks, options.instances):
        if folder is not None:
            _check_exists(folder)
    _check_options(source, source_format)
    listing: Listing = _load("classes.with_distinct_names")(_load(source_format.lists)(source))
    if options.keypoint_pairs is not None:
        info = _load("objects.with_pairs")(listing.info, options.keypoint_pairs)
        listing = replace(listing, info=info)
    listing = _load("classes.check_labels")(listing)
    if options.masks is not None:
        listing = _load("masks.with_masks")(listing, source.open(options.masks), options)
    if options.instances is not None and not source_format.reads_instances:
        has_mask_map = options.mask_map not in (None, "none")
        with_instances = _load("masks.with_instances")
        listing = with_instances(listing, source.open(options.instances), has_mask_map=has_mask_map)
    return listing


def _check_exists(path: str | os.PathLike[str]) -> None:
    if is_url(path):
        return
    if missing := missing_path(path):
        raise SourceError(missing[0], path=path, hint=missing[1])
    mode = Path(path).stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # a pipe could block for ever
        raise SourceError("the source cannot be read: not a regular file", path=path)


def _load(name: str) -> Callable[..., Any]:
    """Import a function of a module of this package."""
    module, _, function = name.rpartition(".")
    loaded: Callable[..., Any] = getattr(import_module(f".{module}", __package__), function)
    return loaded


def _check_options(source: Source, source_format: SourceFormat) -> None:
    """Raise ConfigError for an option that sources of this format do not have."""
    formats = {
        item.name: declaration.sources
        for item, declaration in declarations(source.options)
        if declaration.sources and getattr(source.options, item.name) != item.default
    }
    if source.caption_column is not None:
        formats["caption_column"] = tuple(_WITH_CAPTIONS)
    for name, allowed in formats.items():
        if source_format.name not in allowed:
            raise ConfigError(
                f"{name} is for sources of the format {' or '.join(allowed)}; this one is "
                f"{source_format.name}",
                hint=f"Leave {name} out, or name the format with source_format.",
            )
