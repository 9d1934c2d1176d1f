"""``stoker.open``, for a dataset in a folder or at a URL, and for shards and images in place."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from stoker.arguments import named_arguments, some_of
from stoker.errors import ConfigError, SourceError
from stoker.urls import is_url, without_credentials

from .containers.shard_names import expand
from .dataset.dataset import Dataset
from .dataset.index import open_index
from .dataset.manifest import is_dataset
from .dataset.versions import load_version, local_folder, split_version
from .files import check_named, is_unicode, printable_name, read_errors


@named_arguments
def open(  # noqa: A001 - stoker.open, as gzip.open
    path: str | os.PathLike[str],
    *,
    version: int | None = None,
    classes: Sequence[str] | None = None,
    class_depth: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    cache_size: str | int | None = None,
) -> Dataset:
    """Open a dataset in a folder or at a URL, or shards of other programs and images in place.

    The call reads the manifest and the header of the index (an index up to 64 MiB whole, for its digest), and
    looks up the size of every data file; a dataset of a hundred million samples opens at once. A checksum is
    verified when its sample is read; :func:`stoker.verify` verifies all of them.

    With ``cache``, the whole index is fetched, and of the shards only the parts that are read. A loader of
    the dataset, of a selection from it, or of a mixture with it, fetches the next parts ahead.

    ``path`` may also name shards of another program, as ``stoker index`` takes them:
    ``"train-{000000..000099}.tar"``. Or it names images: a folder with one folder for each class, a folder of
    images, or a list of path and label (:func:`stoker.formats.in_place.images.index_images`). The first call
    reads the shards, or the headers of the images, and keeps their index in the user's cache folder; later
    calls find it there. ``stoker index`` can name the parts of shards, such as the label.

    Args:
        path: The dataset's folder, shards or images; ``shards/train@3`` is version 3 of a dataset. With
            ``cache``, a dataset or shards may be at a URL (s3, gs, http, ... as fsspec knows them) or on a
            network file system.
        version: Version of the dataset, from 1; None for the last one. Each change of a dataset, as by
            :func:`stoker.append`, makes a version.
        classes: Names of the classes of images or shards in place, label 0 first, such as the ``classes`` of
            the training set; None for the sorted names of their folders. They need not all have images. A
            dataset that is made already must have these classes.
        class_depth: Number of directory levels that name the class of an image in a folder, from 1; None for
            all, as in a conversion. With a number, folders such as train and val are classes, too.
        cache: Folder on a local disk for the parts that are fetched; processes of one machine share it.
        cache_size: Approximate bytes of shards in the cache, such as ``"200GB"``; the least recently read
            parts are evicted. None sets no limit. If jobs share a cache, their largest value applies.

    Raises:
        ConfigError: ``version`` is not a number from 1; ``cache_size`` is given without ``cache``; ``cache``
            is empty or a URL; or its file system cannot free parts of a file.
        DatasetError: The folder is not a dataset and has no images, there is no such version, or a data file
            is missing or differs from what was written.
        StaleIndexError: The index does not belong to the manifest.
        StorageError: The URL cannot be read, or its index arrives damaged.
        SourceError: Shards cannot be indexed; images have objects or masks; or there is no image, or none of
            a class.
        CorruptRecordError: A shard that is indexed is damaged.
    """
    check_named(dataset=path)
    path, version = split_version(path, version)
    names = None
    if classes is not None:
        from .sources.classes import check_classes

        names = check_classes(classes)
    with read_errors(path):
        if cache is not None:
            from .remote.cached_dataset import open_cached

            is_signed = is_url(path) and without_credentials(os.fspath(path)) != os.fspath(path)
            indexed = _indexed(path, class_depth, names)
            signed = expand(path) if is_signed and indexed is not path else ()
            return _with_classes(open_cached(indexed, cache, cache_size, version, signed), names)
        if cache_size is not None:
            raise ConfigError("cache_size needs cache, the folder whose size it limits")
        folder = Path(_indexed(local_folder(path), class_depth, names))
        manifest = load_version(folder, version)
        data_files = manifest.data_files(folder, check=True)
        return _with_classes(Dataset(folder, manifest, open_index(folder, manifest), data_files), names)


def _with_classes(dataset: Dataset, classes: tuple[str, ...] | None) -> Dataset:
    if classes is not None and dataset.classes != classes:
        raise ConfigError(
            "classes must be the classes of the dataset, which has numbered its labels already, found "
            f"{some_of(classes)}",
            path=dataset.path,
            hint=f"It has {some_of(dataset.classes) or 'none'}. Convert or index the "
            "source again with these classes.",
        )
    return dataset


def _indexed(
    path: str | os.PathLike[str], class_depth: int | None, classes: tuple[str, ...] | None
) -> str | os.PathLike[str]:
    """Return the folder of the index of shards or images; any other path as it is."""
    is_local = not is_url(path)
    if is_local and not is_unicode(os.fspath(path)):
        raise SourceError(
            "the path is not UTF-8, and datasets are read only at paths in UTF-8",
            path=printable_name(os.fspath(path)),
            hint="Give the folder another name, or run Python with PYTHONUTF8=1.",
        )
    if is_local and is_dataset(Path(path)) and class_depth is None:
        return path
    from .in_place.cached import index_in_cache, index_shards_in_cache, names_shards
    from .in_place.images import is_image_source

    if is_image_source(path):  # first: an archive may lie beside the folders of the classes
        return index_in_cache(Path(path), class_depth, classes)
    if class_depth is not None:
        raise ConfigError("class_depth is for a folder of images", path=path, hint="Leave class_depth out.")
    if names_shards(path):
        return index_shards_in_cache(path, classes)
    if is_local and Path(path).is_dir():
        from .sources.roots import check_splits

        check_splits(path, "open")
    return path
