"""Tar archives as a source, grouped into samples as WebDataset does.

Only headers and small members are read here: images lie where :class:`..listing.ListedPlaces` says. At a URL
the archive is read in windows, and what lies between two windows is not fetched.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stoker.errors import SourceError

from ...concurrency.bounded_map import bounded_map
from ...containers.messages.image_record import LeftOutError
from ...containers.webdataset.container import TAR_NAMES, archive_error, image_part
from ...containers.webdataset.headers import BadArchiveError
from ...containers.webdataset.parts import SampleParts
from ...containers.webdataset.samples import find_samples
from ...dataset.columns.strings import Strings
from ...files.reading import open_regular, read_at
from ...remote.store import Store, is_url
from ..folders.suffixes import holds_without_images
from ..listing import ListedPlaces, Listing, Skip
from ..lists.entry_columns import EntryColumns
from ..no_images import no_images_error
from .names import expand, is_pattern
from .part_names import name_parts
from .window import Window, window_at_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...containers.base import Part, Read
    from ...containers.messages.image_record import FeatureNames, Value
    from ...containers.webdataset.samples import TarSample
    from ..source import Source

__all__ = ["is_tar", "list_tar"]

_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.xz", ".tar.bz2")  # reading names the remedy
_START = 1 << 10
_LOCAL_WINDOW = 2048  # the header of an image often follows two members of a few bytes
_CONCURRENT = 16


class _Image(NamedTuple):
    """An image in an archive, and the values of its sample."""

    key: str
    offset: int
    length: int
    entry: dict[str, Any]


class _Archive(NamedTuple):
    """What an archive holds."""

    size: int
    modified: int
    images: list[_Image]
    skipped: list[Skip]


def is_tar(source: Source) -> bool:
    """Whether a source is an archive by its name, or a folder with archives and no image beside them."""
    path = os.fspath(source.path).rstrip("/")
    if path.endswith(_SUFFIXES) and (is_url(path) or is_pattern(path) or not Path(path).is_dir()):
        return True
    if is_url(path):
        if is_pattern(path) or PurePosixPath(path).suffix:
            return False
        there = any("/" not in name for name in source.folder.names(".tar"))
        return there and not len(source.folder.images()[0])
    return Path(path).is_dir() and holds_without_images(path, ".tar")


def list_tar(source: Source) -> Listing:
    """List the images in archives, in the order of the archives and of their members.

    Raises:
        SourceError: Nothing has the name, no sample has an image, or a value is not of its form.
        CorruptRecordError: An archive is damaged, compressed, or not sorted.
        StorageError: A URL cannot be read.
    """
    files = expand(source.path)
    gathered = _Gathered()
    for archive in _read_all(files, name_parts(source.parts, TAR_NAMES)):
        gathered.add(archive)
    if not gathered.places:
        raise no_images_error("the archives hold no image", source.path, gathered.skipped)
    try:
        return gathered.listing(files)
    except ValueError as error:
        raise SourceError(
            f"the classes cannot be used: {error}", path=source.path, hint=_LABEL_HINT
        ) from error


class _Gathered:
    """The samples of archives, which are added one after the other."""

    def __init__(self) -> None:
        self._columns = EntryColumns(cells=False)
        self._keys = Strings()
        self._sizes: list[int] = []
        self._modified: list[int] = []
        self._labelled: set[bool] = set()
        self.places: list[tuple[int, int, int]] = []  # archive, offset and bytes of each image
        self.skipped: list[Skip] = []

    def add(self, archive: _Archive) -> None:
        """Add the samples of the next archive."""
        number = len(self._sizes)
        self._sizes.append(archive.size)
        self._modified.append(archive.modified)
        self.skipped += archive.skipped
        for image in archive.images:
            self._keys.add(image.key.encode())
            self._labelled.add(image.entry["label"] is not None)
            self.places.append((number, image.offset, image.length))
        for _ in self._columns.gather(image.entry for image in archive.images):
            pass

    def listing(self, files: list[str]) -> Listing:
        """Return the listing of all samples, one at least.

        Raises:
            ValueError: Only some samples have a class, or only some classes are names.
        """
        if len(self._labelled) > 1:
            raise ValueError("some samples have a class and some have none")
        archive, offset, size = np.array(self.places, np.int64).T
        rows = np.arange(len(archive), dtype=np.int64)
        labels, classes = self._columns.labels(rows) if True in self._labelled else (None, ())
        return Listing(
            files[0].rpartition("/")[0],
            self._keys.to_arrow(),
            size.copy(),
            np.array(self._modified, np.int64)[archive],
            labels=labels,
            classes=classes,
            columns=self._columns.others(rows),
            skipped=tuple(sorted(self.skipped)),
            places=ListedPlaces(tuple(files), tuple(self._sizes), archive.astype(np.int32), offset.copy()),
        )


_LABEL_HINT = "name another member for the label, or none: --label"


def _read_all(files: list[str], names: FeatureNames) -> Iterator[_Archive]:
    if not is_url(files[0]):
        yield from (_read_local(file, names) for file in files)
        return
    with ThreadPoolExecutor(_CONCURRENT, thread_name_prefix="stoker-fetch") as pool:
        tasks = ((file, partial(_read_remote, file, names)) for file in files)
        for _, archive in bounded_map(pool, tasks, _CONCURRENT):
            yield archive


def _read_local(file: str, names: FeatureNames) -> _Archive:
    try:
        with open_regular(file) as (descriptor, size):
            read = Window(partial(read_at, descriptor), size, _LOCAL_WINDOW)
            return _read(file, read, size, os.fstat(descriptor).st_mtime_ns, names)
    except OSError as error:
        raise SourceError(f"the archive cannot be read: {error.strerror}", path=file) from error


def _read_remote(file: str, names: FeatureNames) -> _Archive:
    folder, _, name = file.rpartition("/")
    store = Store(folder)
    size = store.size(name)
    if size is None:
        raise SourceError("there is no such archive", path=file, hint="check the spelling of its name")
    return _read(file, window_at_url(file, size), size, store.modified(name), names)


def _read(file: str, read: Read, size: int, modified: int, names: FeatureNames) -> _Archive:
    archive = _Archive(size, modified, [], [])
    try:
        for sample in find_samples(read, size):
            found = _image_or_skip(file, sample, len(archive.images) + len(archive.skipped), read, names)
            if isinstance(found, Skip):
                archive.skipped.append(found)
            else:
                archive.images.append(found)
    except BadArchiveError as error:
        record = len(archive.images) + len(archive.skipped)
        raise archive_error(error, read(0, _START), file, record) from error
    return archive


def _image_or_skip(
    file: str, sample: TarSample, record: int, read: Read, names: FeatureNames
) -> _Image | Skip:
    try:
        return _image(sample, read, names)
    except LeftOutError as error:
        return Skip(sample.key, str(error))
    except SourceError as error:
        shard = file.rpartition("/")[2]
        raise SourceError(
            error.message, path=file, shard=shard, record=record, key=sample.key, hint=error.hint
        ) from error


def _image(sample: TarSample, read: Read, names: FeatureNames) -> _Image:
    def content(part: Part) -> bytes:
        return read(sample.offset + part.span.offset, part.span.length)

    parts = SampleParts(sample.parts, content)
    image = image_part(parts, names)
    key = parts.value(names.key) if names.key else None
    values: dict[str, Value | None] = {name: parts.value(part) for name, part in names.columns.items()}
    entry: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    entry["label"] = parts.label(names.label) if names.label else None
    entry["path"] = sample.key
    return _Image(
        sample.key if key is None else str(key),
        sample.offset + image.span.offset,
        image.span.length,
        entry,
    )
