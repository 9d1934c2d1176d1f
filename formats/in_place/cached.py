"""Shards and images as ``stoker.open`` takes them: their indexes are kept in the user's cache.

An index is used again as long as its source is unchanged. Shards have the sizes, the times of last change
and the validators, such as an ETag, that they had; where a storage states neither, their sizes alone
decide. Of images, all folders are checked, but at most :data:`_FILES_CHECKED` files, evenly spread. If
another file has changed, a loader raises an error when it reads the file.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from stoker._native import first_changed
from stoker.log import EventLog, progress_line
from stoker.urls import is_url, split_query, without_credentials

from ..codecs.header import reads_heic
from ..containers.container import SUFFIXES, is_local_shard
from ..containers.external import find_shards
from ..containers.listing import LISTING_NAME, read_listing, write_listing
from ..containers.shard_names import expand, is_pattern, names_tfrecord
from ..dataset.columns import Strings
from ..dataset.manifest import MANIFEST_NAME, Manifest
from ..files import modified_ns, write_durably
from ..index_cache import cached_index
from ..sources.listing import Listing, count_reasons
from ..threads import available_cores
from .images import list_images, write_image_index
from .shards import index

_FILES_CHECKED = 10_000
_LOG = EventLog("dataset")
_FOLDERS = "folders.listing"
_TICK = 20_000_000  # nanoseconds in which two changes may get the same time from Linux
_SECOND = 1_000_000_000


def names_shards(path: str | os.PathLike[str]) -> bool:
    """Return whether a path or URL names external shards."""
    # On a disk the start of the first shard decides. At a URL the name decides: it must be an archive, a list
    # in braces or a pattern.
    if is_url(path):
        return is_pattern(path) or names_tfrecord(os.fspath(path)) or split_query(path)[0].endswith(SUFFIXES)
    return is_local_shard(Path(expand(path)[0]))


def index_shards_in_cache(path: str | os.PathLike[str], classes: tuple[str, ...] | None = None) -> Path:
    """Return the folder of the index of shards; it is made if the cache does not have it."""
    origin = without_credentials(os.fspath(path)) if is_url(path) else os.path.abspath(path)  # noqa: PTH100 - it may be a pattern
    container, shards = find_shards([path], door="open")
    of_each = ((without_credentials(one.source), one.size, one.modified) for one in shards)
    identity = [value for values in of_each for value in values]

    def make(folder: Path) -> None:
        with progress_line(f"indexing {origin}", "bytes") as show:
            manifest = index([path], folder, container=container.name, classes=classes, progress=show)
        _warn_of_broken(origin, manifest, {})

    return cached_index(origin, [container.name, *identity, *_named(classes)], make)


def _named(classes: tuple[str, ...] | None) -> list[str]:
    return [] if classes is None else ["classes", *classes]


def index_in_cache(
    path: Path, class_depth: int | None = None, classes: tuple[str, ...] | None = None
) -> Path:
    """Return the folder of the index of a folder or list of images, and make it if it is missing."""
    source = os.path.realpath(path)

    def make(folder: Path) -> None:
        began = time.time_ns()
        with progress_line(f"listing {path}", "images") as show:
            listing = list_images(source, class_depth, classes)
            manifest = write_image_index(listing, folder, max(8, 2 * available_cores()), show)
        _warn_of_broken(source, manifest, count_reasons(listing.skipped))
        _write_folders(folder / _FOLDERS, _folders_of(listing, source), began)
        write_durably(folder / MANIFEST_NAME, manifest.to_json().encode())

    identity: list[str | int] = [
        "images",
        class_depth or 0,
        *(["heic"] if reads_heic() else []),
        *_named(classes),
    ]
    return cached_index(source, identity, make, _is_current)


def _warn_of_broken(source: str, manifest: Manifest, expected: Mapping[str, int]) -> None:
    """Say which images are left out; ``expected`` are files that were left out as no images."""
    if broken := Counter(manifest.skipped) - Counter(expected):
        reasons = ", ".join(f"{number:,} x {reason}" for reason, number in sorted(broken.items()))
        _LOG.warning(source, f"images of {source} are left out: {reasons}")


def _folders_of(listing: Listing, source: str) -> list[str]:
    """Return the paths whose times show new or lost files: folders with files, or the list itself."""
    if not os.path.isdir(source):  # noqa: PTH112 - a path as text
        return [source]
    root, folders = str(listing.root), {source}
    of_files = pc.unique(pc.replace_substring_regex(listing.keys, r"(^|/)[^/]*$", "")).to_pylist()
    for name in [*of_files, *(skip.key for skip in listing.skipped)]:
        inner = name
        while inner and (folder := os.path.join(root, inner)) not in folders:  # noqa: PTH118 - paths as text
            if os.path.isdir(folder):  # noqa: PTH112
                folders.add(folder)
            inner = inner.rpartition("/")[0]
    return sorted(folders)


def _write_folders(file: Path, folders: list[str], began: int) -> None:
    """Write a listing of folders, whose time is -1 if they may have changed while they were listed."""
    names, times = Strings(), np.empty(len(folders), np.int64)
    for i, folder in enumerate(folders):
        names.add(os.fsencode(folder))
        changed = modified_ns(os.stat(folder))  # noqa: PTH116 - a path as text
        resolution = _TICK if changed % _SECOND else _SECOND
        times[i] = changed if changed + resolution <= began else -1
    write_listing(file, "/", names.to_arrow(), np.full(len(folders), -1, np.int64), times)


def _is_current(folder: Path) -> bool:
    try:
        folders, files = (read_listing(folder / name) for name in (_FOLDERS, LISTING_NAME))
    except (OSError, ValueError):  # damaged
        return False
    steps = 1, max(1, -(-len(files.modified) // _FILES_CHECKED))
    return all(
        first_changed(one.root, one.name_starts, one.text, one.sizes, one.modified, step) == -1
        for one, step in zip((folders, files), steps, strict=True)
    )
