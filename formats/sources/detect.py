"""The format of a source of images, found in the registry, and the listing of its samples."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from stoker.errors import ConfigError, SourceError, StokerError
from stoker.urls import is_url

from ..containers.external import is_pattern
from .annotated.masks.instance_pairs import with_instances
from .annotated.masks.mask_pairs import with_masks
from .dataset_roots import check_has_one_split, check_is_no_root
from .format_names import SourceFormatName
from .listing import Listing
from .registry import SOURCE_FORMATS, SourceFormat
from .source import Source


def find_format(source: Source, name: str | None = None) -> SourceFormat:
    """The format of a source: the one of this name, or the first that detects it.

    Formats are tried in the order of ``SOURCE_FORMATS``, by the names of files and the start of one.
    """
    if name is not None:
        named = {row.name: row for row in SOURCE_FORMATS}
        if name not in named:
            raise ConfigError(
                f"source_format must be one of {', '.join(get_args(SourceFormatName))}, not {name!r}"
            )
        return named[name]
    try:
        detected = next(row for row in SOURCE_FORMATS if row.detects(source))
        if detected.name == "folder":
            check_is_no_root(source)
        elif detected.name == "yolo":
            check_has_one_split(source)
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
    if source.masks is not None:
        listing = with_masks(listing, source.open(source.masks), source.ignore_index)
    if source.instances is not None and not source_format.reads_instances:
        folder = source.open(source.instances)
        listing = with_instances(listing, folder, has_mask_map=source.has_mask_map)
    return listing


def _check_options(source: Source, source_format: SourceFormat) -> None:
    for option in {option: None for row in SOURCE_FORMATS for option in row.options}:
        if option not in source_format.options and getattr(source, option) is not None:
            named = " or ".join(row.name for row in SOURCE_FORMATS if option in row.options)
            raise ConfigError(
                f"{option} is for sources of the format {named}; this one is {source_format.name}",
                hint=f"leave {option} out, or name the format with source_format (--source-format)",
            )
