"""Checks that the files of a dataset are those that its manifest describes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from stoker.errors import DatasetError, StaleIndexError

from ..files.reading import check_named, file_digest
from ..remote.store import is_url
from .index import IMAGE_COLUMNS, Index
from .manifest import Manifest, Shard

__all__ = ["check_data_files", "is_index_whole", "local_folder", "open_index"]

_SMALL_INDEX = 64 << 20  # about a million samples, read in some ten milliseconds


def local_folder(path: str | os.PathLike[str]) -> Path:
    """Return a dataset's folder on this machine.

    Raises:
        ConfigError: The path is empty.
        DatasetError: The path is a URL.
    """
    check_named(dataset=path)
    if is_url(path):
        raise DatasetError(
            "the dataset is at a URL, not on a disk",
            path=path,
            hint="copy it to a disk with stoker stage, or open it with a cache: cache=FOLDER",
        )
    return Path(path)


def check_data_files(manifest: Manifest, files: list[Path]) -> None:
    """Check the size of every data file.

    Args:
        manifest: The manifest.
        files: Data file of every shard.

    Raises:
        DatasetError: A file is missing, or has another size than the manifest says.
    """
    for shard, file in zip(manifest.shards, files, strict=True):
        _check_size(file, shard)


def _check_size(file: Path, shard: Shard) -> None:
    name, expected = shard.name, shard.bytes
    again = "convert the source" if shard.path is None else "index the shards"
    hint = f"restore the file, or {again} again"
    try:
        status = file.stat()
    except OSError as error:
        raise DatasetError(
            f"shard {name} is missing: {error.strerror}", path=file, shard=name, hint=hint
        ) from error
    if not stat.S_ISREG(status.st_mode):
        raise DatasetError(f"shard {name} is missing: no regular file", path=file, shard=name, hint=hint)
    size = status.st_size
    if size != expected:
        what = "truncated" if size < expected else "longer than it was"
        raise DatasetError(
            f"shard {name} is {what}: {size} bytes where the manifest says {expected}",
            path=file,
            shard=name,
            hint=hint,
        )


def is_index_whole(file: Path, manifest: Manifest) -> bool:
    """Return whether the file of an index has the size and, if it is small, the digest in the manifest."""
    if file.is_symlink() or not file.is_file() or file.stat().st_size != manifest.index.bytes:
        return False
    return manifest.index.bytes > _SMALL_INDEX or file_digest(file) == manifest.index.digest


def open_index(folder: Path, manifest: Manifest) -> Index:
    """Map the index of a dataset and check that it is the one that the manifest describes.

    The digest of a small index and the sizes of its images are checked here, and those of a larger one by
    :func:`stoker.verify` or where a sample is read, because the check reads the whole file.

    Raises:
        StaleIndexError: The index is missing, damaged, or another one.
    """
    path = folder / manifest.index.file
    hint = "index and manifest come from different conversions: convert or index again"
    if not path.is_file():
        raise StaleIndexError("the index is missing", path=path, hint=hint)
    # Before mapping: a file that is shorter than its header says would end the process.
    size = path.stat().st_size
    if size != manifest.index.bytes:
        raise StaleIndexError(
            f"the index has {size} bytes where the manifest says {manifest.index.bytes}", path=path, hint=hint
        )
    if size <= _SMALL_INDEX and file_digest(path) != manifest.index.digest:
        raise StaleIndexError(
            "the index is not the one of the manifest: its digest differs", path=path, hint=hint
        )
    index = Index.open(path)
    needed = IMAGE_COLUMNS if manifest.sample_type == "image" else {}
    if missing := ", ".join(sorted(needed.keys() - manifest.columns.keys())):
        raise StaleIndexError(
            f"the index of a dataset of images lacks the columns {missing}", path=path, hint=hint
        )
    if len(index) != manifest.index.rows or index.types != dict(manifest.columns):
        raise StaleIndexError(
            "the index has other rows or columns than the manifest says", path=path, hint=hint
        )
    if manifest.sample_type == "image" and size <= _SMALL_INDEX:
        index.check_sizes()
    return index
