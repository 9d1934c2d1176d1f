"""Tar archives as a source, grouped into samples as WebDataset does.

Listing reads only headers and small members; :class:`..listing.FileRanges` has the byte ranges of the
images. At a URL the archive is read in windows, and the bytes between two windows are not fetched.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from stoker.errors import SourceError, with_details

from ...concurrency.bounded_map import thread_map
from ...containers.base import Read, RecordPart
from ...containers.messages.image_record import FeatureNames, LeftOutError, Value
from ...containers.webdataset.container import TAR_NAMES, archive_error, image_part
from ...containers.webdataset.headers import BadArchiveError
from ...containers.webdataset.parts import SampleParts
from ...containers.webdataset.samples import TarSample, find_samples
from ...files.reading import open_regular, read_at
from ...remote.store import is_url
from ..folders.suffixes import holds_without_images
from ..listing import Listing, Skip
from ..no_images import no_images_error
from ..source import Source
from ..source_status import source_status
from .names import expand, is_pattern
from .part_names import name_parts
from .shard_images import Gathered, ShardImage, ShardImages
from .window import Window, window_at_url

_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.xz", ".tar.bz2")  # reading names the remedy
_START = 1 << 10
_LOCAL_WINDOW = 2048  # the header of an image often follows two members of a few bytes
_CONCURRENT = 16
_LABEL_HINT = "name another member for the label, or none: --label"


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
    """List the images in archives, in the order of the archives and of their members."""
    files = expand(source.path)
    gathered = Gathered()
    for archive in _read_all(files, name_parts(source.parts, TAR_NAMES)):
        gathered.add(archive)
    if not gathered:
        raise no_images_error("the archives hold no image", source.path, gathered.skipped)
    try:
        return gathered.listing(files)
    except ValueError as error:
        raise SourceError(
            f"the classes cannot be used: {error}", path=source.path, hint=_LABEL_HINT
        ) from error


def _read_all(files: list[str], names: FeatureNames) -> Iterator[ShardImages]:
    if not is_url(files[0]):
        yield from (_read_local(file, names) for file in files)
        return
    read = partial(_read_remote, names=names)
    for _, archive in thread_map(read, files, "fetch", _CONCURRENT, _CONCURRENT):
        yield archive


def _read_local(file: str, names: FeatureNames) -> ShardImages:
    try:
        with open_regular(file) as (descriptor, size):
            read = Window(partial(read_at, descriptor), size, _LOCAL_WINDOW)
            return _read(file, read, size, os.fstat(descriptor).st_mtime_ns, names)
    except OSError as error:
        raise SourceError(f"the archive cannot be read: {error.strerror}", path=file) from error


def _read_remote(file: str, names: FeatureNames) -> ShardImages:
    size, modified = source_status(file, "archive")
    return _read(file, window_at_url(file, size), size, modified, names)


def _read(file: str, read: Read, size: int, modified: int, names: FeatureNames) -> ShardImages:
    archive = ShardImages(size, modified, [], [])
    try:
        for sample in find_samples(read, size):
            image = _image_or_skip(file, sample, len(archive.images) + len(archive.skipped), read, names)
            if isinstance(image, Skip):
                archive.skipped.append(image)
            else:
                archive.images.append(image)
    except BadArchiveError as error:
        record = len(archive.images) + len(archive.skipped)
        raise archive_error(error, read(0, _START), file, record) from error
    return archive


def _image_or_skip(
    file: str, sample: TarSample, record: int, read: Read, names: FeatureNames
) -> ShardImage | Skip:
    try:
        return _image(sample, read, names)
    except LeftOutError as error:
        return Skip(sample.key, str(error))
    except SourceError as error:
        shard = file.rpartition("/")[2]
        raise with_details(error, path=file, shard=shard, record=record, key=sample.key) from error


def _image(sample: TarSample, read: Read, names: FeatureNames) -> ShardImage:
    def content(part: RecordPart) -> bytes:
        return read(sample.offset + part.span.offset, part.span.length)

    parts = SampleParts(sample.parts, content)
    image = image_part(parts, names)
    key = parts.value(names.key) if names.key else None
    values: dict[str, Value | None] = {name: parts.value(part) for name, part in names.columns.items()}
    entry: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    entry["label"] = parts.label(names.label) if names.label else None
    entry["path"] = sample.key
    offset, length = sample.offset + image.span.offset, image.span.length
    return ShardImage(sample.key if key is None else str(key), offset, length, entry)
