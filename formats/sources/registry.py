"""The formats of sources, one row each; conversions and data in place find and list their source here.

A new format is a module with two functions, a row here, and a description in :mod:`.options`. The module
loads when its format is tried.

The first function says whether a source has the format. It looks at names, or at the start of one file:
``source.path`` may be a file, a folder or a URL, and ``source.folder`` is the folder, which reads disks and
URLs alike. The first format that detects a source takes it: put a row before every format that would accept
the same sources, such as ``list``, which takes every file on a disk.

The second function returns a :class:`.listing.Listing` and reads no image. ``find_files`` of
:mod:`.file_list` finds the named images, on a disk or at a URL, sorts them, and returns the rest as skips.
``Listing(**vars(found.files), ...)`` sets root, keys, sizes and times; ``found.entries`` says which name each
file had. A format of objects adds each to an :class:`.objects.ObjectTable`, in pixels with edges at integers;
``table.listed(rows, sizes, name)`` makes ``objects`` of it, where ``rows`` has the row of each object's
image. Labels are numbered from 0 by ``classes``. An object that cannot be used raises BadObjectError and
becomes a :class:`.listing.Skip`; a source without images or objects raises SourceError. :mod:`.coco` does all
of this for JSON, and :mod:`.voc` for XML, whose entities must be refused. Classes are in the order of the
source if it declares them, else sorted.

Further columns of the index go to ``Listing.columns``. Loaders return a column of numbers or strings. They
return columns of lists only if they are named ``label`` or ``object_*``, with one entry for each object;
others stay in the index. A column of labels is renumbered with the classes only if it is ``label`` or
``object_labels``.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from stoker.errors import ConfigError, SourceError, StokerError
from stoker.urls import is_url

from ..containers.external import is_pattern
from ..options import declarations
from .listing import Listing
from .options import SOURCE_DESCRIPTIONS, SourceFormatName
from .source import Source


@dataclass(frozen=True)
class SourceFormat:
    """A format of sources."""

    name: SourceFormatName
    module: str  # Name of its module in this package
    is_format: str  # Function of the module: whether a source has this format
    list_format: str  # Function of the module that lists the samples of a source
    has_captions: bool = False  # Whether a sample may have captions
    reads_instances: bool = False  # Whether the format reads the masks in ``instances`` itself

    def detects(self, source: Source) -> bool:
        """Whether a source has this format, from the names of its files or the start of one."""
        return bool(_function(self.module, self.is_format)(source))

    def list_samples(self, source: Source) -> Listing:
        """List the samples of a source in this format."""
        listing: Listing = _function(self.module, self.list_format)(source)
        return listing


def _function(module: str, name: str) -> Any:
    return getattr(import_module(f".{module}", __package__), name)


SOURCE_FORMATS = (
    SourceFormat("table", "tables", "is_table", "list_table", has_captions=True),
    SourceFormat("recordio", "archives", "is_recordio", "list_recordio"),
    SourceFormat("mds", "archives", "is_mds", "list_mds", has_captions=True),
    SourceFormat("webdataset", "archives", "is_tar", "list_tar", has_captions=True),
    SourceFormat("voc", "voc", "is_voc", "list_voc"),
    SourceFormat("open_images", "open_images", "is_open_images", "list_open_images", reads_instances=True),
    SourceFormat("coco", "coco", "is_coco", "list_coco"),
    SourceFormat("list", "file_list", "is_list", "list_named_images", has_captions=True),
    SourceFormat("yolo", "yolo", "is_yolo", "list_yolo"),
    SourceFormat("pairs", "mask_pairs", "is_pairs", "list_pairs"),
    SourceFormat("folder", "class_folder", "is_folder", "list_folder"),
)
"""In the order in which detection tries them: a source has the first format that detects it."""
_WITH_CAPTIONS = [row.name for row in SOURCE_FORMATS if row.has_captions]


def find_format(source: Source, name: str | None = None) -> SourceFormat:
    """The format of a source: the one of this name, or the first that detects it."""
    if name is not None:
        named = {row.name: row for row in SOURCE_FORMATS}
        if name not in named:
            raise ConfigError(
                f"source_format must be one of {', '.join(SOURCE_DESCRIPTIONS)}, found {name!r}"
            )
        return named[name]
    try:
        detected = next(row for row in SOURCE_FORMATS if row.detects(source))
        if detected.name == "folder":
            _function("dataset_roots", "check_is_no_root")(source)
        elif detected.name == "yolo":
            _function("dataset_roots", "check_has_one_split")(source)
        return detected
    except StokerError:
        raise
    except OSError as error:
        raise SourceError(f"the source cannot be read: {error.strerror}", path=source.path) from error


def list_source(source: Source, source_format: SourceFormat) -> Listing:
    """List the images of a source, with all labels, objects and masks that it has for them."""
    _check_options(source, source_format)
    if not is_url(source.path) and not is_pattern(source.path):
        try:
            Path(source.path).stat()
        except OSError as error:
            raise SourceError(f"the source cannot be read: {error.strerror}", path=source.path) from error
    listing = source_format.list_samples(source)
    if source.options.masks is not None:
        with_masks = _function("mask_pairs", "with_masks")
        listing = with_masks(listing, source.open(source.options.masks), source.options.ignore_index)
    if source.options.instances is not None and not source_format.reads_instances:
        with_instances = _function("instance_pairs", "with_instances")
        listing = with_instances(
            listing,
            source.open(source.options.instances),
            has_mask_map=source.options.mask_map not in (None, "none"),
        )
    return listing


def _check_options(source: Source, source_format: SourceFormat) -> None:
    """Raise ConfigError for an option that sources of this format do not have."""
    for item, declaration in declarations(source.options):
        given = getattr(source.options, item.name) != item.default
        if given and declaration.sources and source_format.name not in declaration.sources:
            raise ConfigError(
                f"{item.name} is for sources of the format {' or '.join(declaration.sources)}; this one is "
                f"{source_format.name}",
                hint=f"Leave {item.name} out, or name the format with source_format.",
            )
    if source.caption_column is not None and not source_format.has_captions:
        raise ConfigError(
            f"caption_column is for sources of the format {' or '.join(_WITH_CAPTIONS)}; this one is "
            f"{source_format.name}",
            hint="Leave caption_column out, or name the format with source_format.",
        )
