"""Checks that the files of a dataset match its manifest."""

from __future__ import annotations

import os
import stat
from functools import partial
from pathlib import Path

from stoker.errors import DatasetError, StaleIndexError

from ..files.reading import check_named, file_digest
from ..remote.store import is_url
from .index import IMAGE_COLUMNS, Index
from .manifest import Manifest, Shard

_SMALL_INDEX = 64 << 20  # about a million samples, read in some ten milliseconds


def local_folder(path: str | os.PathLike[str]) -> Path:
    """Return a dataset's folder on this machine."""
    check_named(dataset=path)
    if is_url(path):
        raise DatasetError(
            "the dataset is at a URL, not on a disk",
            path=path,
            hint="copy it to a disk with stoker stage, or open it with a cache: cache=FOLDER",
        )
    return Path(path)


def check_data_files(manifest: Manifest, files: list[Path]) -> None:
    """Check the size of the data file of every shard."""
    for shard, file in zip(manifest.shards, files, strict=True):
        _check_size(file, shard)


def _check_size(file: Path, shard: Shard) -> None:
    name, expected = shard.name, shard.bytes
    again = "convert the source" if shard.path is None else "index the shards"
    wrong = partial(DatasetError, path=file, shard=name, hint=f"restore the file, or {again} again")
    try:
        status = file.stat()
    except OSError as error:
        raise wrong(f"shard {name} is missing: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise wrong(f"shard {name} is missing: no regular file")
    size = status.st_size
    if size != expected:
        what = "truncated" if size < expected else "longer than it was"
        raise wrong(f"shard {name} is {what}: {size} bytes where the manifest says {expected}")


def is_index_whole(file: Path, manifest: Manifest) -> bool:
    """Return whether the file of an index has the size and, if it is small, the digest in the manifest."""
    if file.is_symlink() or not file.is_file() or file.stat().st_size != manifest.index.bytes:
        return False
    return manifest.index.bytes > _SMALL_INDEX or file_digest(file) == manifest.index.digest


def open_index(folder: Path, manifest: Manifest) -> Index:
    """Map the index of a dataset and check that it matches the manifest.

    The digest and the sizes of images are checked here only for a small index, because the check reads the
    whole file. For a larger index :func:`stoker.verify` checks them, and reading a sample checks its size.
    """
    path = folder / manifest.index.file
    hint = "index and manifest come from different conversions: convert or index again"
    stale = partial(StaleIndexError, path=path, hint=hint)
    if not path.is_file():
        raise stale("the index is missing")
    # Before mapping: a file that is shorter than its header says would end the process.
    size = path.stat().st_size
    if size != manifest.index.bytes:
        raise stale(f"the index has {size} bytes where the manifest says {manifest.index.bytes}")
    if size <= _SMALL_INDEX and file_digest(path) != manifest.index.digest:
        raise stale("the index is not the one of the manifest: its digest differs")
    index = Index.open(path)
    needed = IMAGE_COLUMNS if manifest.sample_type == "image" else {}
    if missing := ", ".join(sorted(needed.keys() - manifest.columns.keys())):
        raise stale(f"the index of a dataset of images lacks the columns {missing}")
    if len(index) != manifest.index.rows or index.types != dict(manifest.columns):
        raise stale("the index has other rows or columns than the manifest says")
    if manifest.sample_type == "image" and size <= _SMALL_INDEX:
        index.check_sizes()
    return index
