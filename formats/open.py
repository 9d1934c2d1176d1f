"""``stoker.open``: opening a dataset in a folder, or at a URL with a local cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.errors import ConfigError

from .caching.cached_dataset import open_cached
from .dataset.consistency import check_data_files, local_folder, open_index
from .dataset.dataset import Dataset
from .dataset.manifest import Manifest

if TYPE_CHECKING:
    import os

__all__ = ["open"]


def open(  # noqa: A001 - stoker.open, as gzip.open
    path: str | os.PathLike[str],
    *,
    cache: str | os.PathLike[str] | None = None,
    cache_size: str | int | None = None,
) -> Dataset:
    """Open the dataset in a folder, or at a URL.

    The call reads the manifest and the header of the index (the whole index up to 64 MiB, for its digest),
    and looks up the size of every data file; a dataset of a hundred million samples opens at once. Checksums
    are verified when samples are read, and all of them by :func:`stoker.verify`.

    With ``cache``, the whole index is fetched, and those parts of the shards that are read. A loader of the
    dataset, of a selection from it, or of a mixture with it, fetches the next parts ahead.

    Args:
        path: The dataset's folder. With ``cache``, it may be at a URL (s3, gs, http, ... as fsspec knows
            them) or on a network file system.
        cache: Folder on a local disk for the parts that are fetched; processes of one machine share it.
        cache_size: Approximate bytes of shards in the cache, such as ``"200GB"``; parts that were read
            longest ago are evicted. None for any number. The largest of all jobs that share a cache holds.

    Raises:
        ConfigError: ``cache_size`` without ``cache``, a cache that is empty or at a URL, or one whose file
            system cannot free parts of a file.
        DatasetError: The folder is no dataset, or a data file is missing or not as it was written.
        StaleIndexError: The index does not belong to the manifest.
        StorageError: The URL cannot be read, or its index arrives damaged.
    """
    if cache is not None:
        return open_cached(path, cache, cache_size)
    if cache_size is not None:
        raise ConfigError("cache_size needs cache, the folder whose size it limits")
    folder = local_folder(path)
    manifest = Manifest.load(folder)
    data_files = manifest.data_files(folder)
    check_data_files(manifest, data_files)
    index = open_index(folder, manifest)
    return Dataset(folder, manifest, index, data_files, None)
