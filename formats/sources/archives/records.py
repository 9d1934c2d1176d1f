"""MXNet's RecordIO files and shards of Mosaic Streaming as sources.

Listing reads every record, because its labels and its columns lie in it. Conversion reads images by offset
and length again; of compressed shards it decompresses a whole one.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stoker.errors import CorruptRecordError, DecodeError, SourceError

from ...codecs.codec import Codec
from ...concurrency.bounded_map import bounded_map
from ...concurrency.cores import available_cores
from ...containers.mds.container import MDS
from ...containers.mds.index_file import INDEX_FILE
from ...containers.messages.image_record import FeatureNames, LeftOutError
from ...containers.recordio import RECORDIO
from ...dataset.columns.strings import Strings
from ...remote.store import is_url
from ..folders.suffixes import holds_alone
from ..listing import ListedBlocks, ListedPlaces, Listing, Skip
from ..lists.entry_columns import EntryColumns
from ..no_images import no_images_error
from ..source_status import source_status
from .compressed_mds import is_compressed_shard, uncompressed
from .names import expand, is_pattern
from .part_names import free_name, name_parts

if TYPE_CHECKING:
    from ...containers.base import Container, Record
    from ...containers.messages.image_record import ExternalSample, Value
    from ..source import Source

__all__ = ["is_mds", "is_recordio", "list_mds", "list_recordio"]

_HINT = "stoker index reads them in place"
_NO_NAMES = FeatureNames()


class _Image(NamedTuple):
    """An image in a record: its position, its first byte in the file, its bytes, and its record's pieces."""

    record: int
    offset: int
    length: int
    pieces: int
    entry: dict[str, Any]


class _Shard(NamedTuple):
    """What a shard holds."""

    size: int
    modified: int
    images: list[_Image]
    skipped: list[Skip]


def is_recordio(source: Source) -> bool:
    """Return whether a source is a RecordIO file by its name, or a folder with nothing but such files."""
    return _is_named(source, ".rec") or (_is_folder(source) and _holds(source, ".rec", (".idx", ".lst")))


def is_mds(source: Source) -> bool:
    """Return whether a source is an MDS shard by its name, or a folder with shards and ``index.json``."""
    if _is_named(source, ".mds"):
        return True
    if is_url(source.path):
        return _is_folder(source) and any(".mds" in name for name in source.folder.names(""))
    try:
        described = json.loads((Path(source.path) / INDEX_FILE).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(described, dict) and "shards" in described


def _is_named(source: Source, suffix: str) -> bool:
    path = os.fspath(source.path).rstrip("/")
    name = path.rpartition("/")[2]
    if not is_url(path) and not is_pattern(path) and Path(path).is_dir():
        return False
    return name.endswith(suffix) or (f"{suffix}." in name and is_compressed_shard(name))


def _is_folder(source: Source) -> bool:
    path = os.fspath(source.path).rstrip("/")
    if is_url(path):
        return not is_pattern(path) and not Path(path).suffix
    return Path(path).is_dir()


def _holds(source: Source, suffix: str, others: tuple[str, ...]) -> bool:
    if not is_url(source.path):
        return holds_alone(source.path, suffix, others)
    names = source.folder.names("")
    return any(name.endswith(suffix) for name in names) and all(
        name.endswith((suffix, *others)) for name in names
    )


def list_recordio(source: Source) -> Listing:
    """List the images in RecordIO files, in the order of the files and of their records.

    Raises:
        SourceError: Nothing has the name, no record has an image, or labels are not of one form.
        CorruptRecordError: A file is damaged.
        StorageError: A URL cannot be read.
    """
    return _list(source, RECORDIO)


def list_mds(source: Source) -> Listing:
    """List the images in MDS shards, compressed or not, in the order of the shards and of their samples.

    Raises: As :func:`list_recordio`.
    """
    return _list(source, MDS)


def _list(source: Source, container: Container) -> Listing:
    files = _files(source)
    fields = source.parts
    some = {part: name for part, name in fields.items() if name in ("image", "label", "key", None)}
    usual = container.feature_names
    names = None if usual is None else name_parts(some, usual)
    renamed = {part: name for part, name in fields.items() if name not in ("image", "label", "key")}
    gathered = _Gathered(renamed)
    with ThreadPoolExecutor(available_cores(), thread_name_prefix="stoker-list") as pool:
        tasks = ((file, partial(_read, file, container, names)) for file in files)
        for _, shard in bounded_map(pool, tasks, available_cores()):
            gathered.add(shard)
    if not gathered.images:
        raise no_images_error("the shards hold no image", source.path, gathered.skipped)
    try:
        return gathered.listing(files, names.encoded if names else "")
    except ValueError as error:
        raise SourceError(f"the classes cannot be used: {error}", path=source.path) from error


def _files(source: Source) -> list[str]:
    """Return the paths or URLs of the shards; of a folder at a URL also those of compressed shards."""
    if is_url(source.path) and _is_folder(source):
        names = [name for name in source.folder.names("") if "/" not in name]
        plain = [name for name in names if name.endswith((".mds", ".rec"))]
        compressed = [name for name in names if ".mds." in name and is_compressed_shard(name)]
        return [f"{os.fspath(source.path).rstrip('/')}/{name}" for name in sorted(plain or compressed)]
    return expand(source.path)


def _read(file: str, container: Container, names: FeatureNames | None) -> _Shard:
    size, modified = source_status(file, "shard")
    shard = _Shard(size, modified, [], [])
    try:
        with uncompressed(file) as path:
            for record in container.scan(path):
                _add(shard, file, record, container, names)
    except OSError as error:
        raise SourceError(f"the shard cannot be read: {error.strerror}", path=file) from error
    return shard


def _add(shard: _Shard, file: str, record: Record, container: Container, names: FeatureNames | None) -> None:
    """Add the image of a record, or why it is left out."""
    name = file.rpartition("/")[2]
    key = record.key.decode(errors="backslashreplace") or f"{name}:{record.position}"
    try:
        sample = container.parse_image(record, names or _NO_NAMES)
        if sample.header.codec == Codec.RAW:
            raise SourceError("the image is raw pixels, and conversions read encoded images", hint=_HINT)
    except DecodeError as error:
        shard.skipped.append(Skip(key, "broken image", error.message))
    except LeftOutError as error:
        shard.skipped.append(Skip(key, str(error)))
    except (CorruptRecordError, SourceError) as error:
        raise type(error)(
            error.message, path=file, shard=name, record=record.position, key=key, hint=error.hint
        ) from error
    else:
        shard.images.append(_image(record, sample, sample.key or key))


def _image(record: Record, sample: ExternalSample, key: str) -> _Image:
    label = list(sample.label) if isinstance(sample.label, tuple) else sample.label
    entry: dict[str, Any] = {**sample.columns, "label": label, "path": key}
    offset = record.offset + sample.payload.offset
    return _Image(record.position, offset, sample.payload.length, record.pieces, entry)


class _Gathered:
    """The samples of shards, which are added one after the other.

    Args:
        renamed: Names of columns in the dataset; None for one that is left out.
    """

    def __init__(self, renamed: dict[str, str | None]) -> None:
        self._renamed = renamed
        self._columns = EntryColumns(cells=False)
        self._keys = Strings()
        self._shards: list[tuple[int, int]] = []  # bytes and time of each
        self._labelled: set[bool] = set()
        self.images: list[tuple[int, int, int, int, int]] = []  # shard, record, offset, bytes, pieces
        self.skipped: list[Skip] = []

    def add(self, shard: _Shard) -> None:
        """Add the samples of the next shard."""
        number = len(self._shards)
        self._shards.append((shard.size, shard.modified))
        self.skipped += shard.skipped
        for image in shard.images:
            self._keys.add(image.entry["path"].encode(errors="backslashreplace"))
            self._labelled.add(image.entry["label"] is not None)
            self.images.append((number, image.record, image.offset, image.length, image.pieces))
        for _ in self._columns.gather(self._entry(image.entry) for image in shard.images):
            pass

    def _entry(self, entry: dict[str, Value | None]) -> dict[str, Value | None]:
        fixed = {name: entry[name] for name in ("label", "path")}
        names = {name: self._renamed.get(name, free_name(name)) for name in entry.keys() - fixed.keys()}
        return fixed | {new: entry[name] for name, new in names.items() if new is not None}

    def listing(self, files: list[str], column: str) -> Listing:
        """Return the listing of all samples, one at least.

        Raises:
            ValueError: Only some samples have a label, or labels are not of one form.
        """
        if len(self._labelled) > 1:
            raise ValueError("some samples have a label and some have none")
        shard, record, offset, length, pieces = np.array(self.images, np.int64).T
        rows = np.arange(len(shard), dtype=np.int64)
        labels, classes = self._columns.labels(rows) if True in self._labelled else (None, ())
        file, sizes = shard.astype(np.int32), tuple(size for size, _ in self._shards)
        places: dict[str, Any]
        if any(map(is_compressed_shard, files)):
            zeros = np.zeros(len(rows), np.int32)
            at = record.astype(np.int32)
            places = {"blocks": ListedBlocks(tuple(files), sizes, column, file, zeros, at, kind="mds")}
        else:
            cut = pieces.astype(np.int32) if pieces.max() > 1 else None
            places = {"places": ListedPlaces(tuple(files), sizes, file, offset.copy(), cut)}
        return Listing(
            files[0].rpartition("/")[0],
            self._keys.to_arrow(),
            length.copy(),
            np.array([time for _, time in self._shards], np.int64)[file],
            labels=labels,
            classes=classes,
            columns=self._columns.others(rows),
            skipped=tuple(sorted(self.skipped)),
            **places,
        )
