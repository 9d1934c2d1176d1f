"""Shards of other programs as sources: tar archives, MXNet's RecordIO files, and shards of Mosaic Streaming.

Listing reads headers and values of samples; of a tar archive no image is read. Conversion reads images by
offset and length; a compressed shard of Mosaic Streaming is decompressed as a whole again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from stoker.errors import ConfigError, SourceError, StokerError
from stoker.urls import is_url

from ..containers.external import (
    ExternalShard,
    error_about,
    find_shards,
    parse_records,
)
from ..containers.image_record import FeatureNames, LeftOutError
from ..dataset.columns import Strings
from ..dataset.index import KNOWN_COLUMNS
from ..threads import available_cores, thread_map
from .columns import EntryColumns
from .listing import FileRanges, ListedBlocks, Listing, Skip, no_images_error
from .source import Source

_CONNECTIONS = 16  # shards at URLs that are read at once
_ROLES = ("image", "label", "key")
_TAKEN_NAMES = {*KNOWN_COLUMNS, "label", "row", "image", "mask", "count", "dataset", "segmentation"}


def list_tar(source: Source) -> Listing:
    """List the images in archives, in the order of the archives and of their members."""
    return _list(source, "webdataset")


def list_recordio(source: Source) -> Listing:
    """List the images in RecordIO files, in the order of the files and of their records."""
    return _list(source, "recordio")


def list_mds(source: Source) -> Listing:
    """List the images in MDS shards, compressed or not, in the order of the shards and of their samples."""
    return _list(source, "mds")


def _list(source: Source, name: str) -> Listing:
    container, shards = find_shards([source.path], name)
    usual = container.feature_names or FeatureNames()
    names = name_parts(source.parts, usual)
    # Without names of columns, a container reads all of them, by their own names.
    renamed = None if usual.columns else source.parts
    if renamed is not None:
        names = replace(names, columns={})
    gathered = _Gathered(shards)
    threads = _CONNECTIONS if is_url(shards[0].file) else available_cores()

    def read(shard: ExternalShard) -> list[_Image | Skip]:
        return list(_images(shard, names, renamed))

    for _, images in thread_map(read, shards, "list", threads, threads):
        gathered.add(images)
    return gathered.listing(source, names.encoded)


class _Image(NamedTuple):
    """An image in a shard."""

    key: str  # Its name
    place: tuple[
        int, int, int, int
    ]  # Number of its record, its first byte in the file, its bytes, its pieces
    entry: dict[str, Any]  # The label and the columns of its sample


def _images(
    shard: ExternalShard, names: FeatureNames, renamed: Mapping[str, str | None] | None
) -> Iterator[_Image | Skip]:
    """Yield the images of a shard. ``renamed`` names their columns in the dataset, None by their names."""
    name = shard.file.rpartition("/")[2]
    try:
        for parsed in parse_records(shard.records(), shard.container, names, name, shard.file, headers=False):
            record, sample = parsed.record, parsed.sample
            key = record.key.decode(errors="backslashreplace") or f"{name}:{record.number}"
            if sample is None:
                yield Skip(key, parsed.reason)
                continue
            if sample.header is not None:
                refusal = SourceError(
                    "the image is raw pixels, and conversions read encoded images",
                    hint="stoker.open and stoker index read such shards in place.",
                )
                raise error_about(refusal, record, name, shard.file)
            key = sample.key or key
            label = list(sample.label) if isinstance(sample.label, tuple) else sample.label
            entry: dict[str, Any] = {"label": label, "path": key}
            for part, value in sample.columns.items():
                column = part if renamed is None else renamed.get(part, free_name(part))
                if value is not None and column is not None:
                    entry[column] = value
            offset, length = sample.payload
            yield _Image(key, (record.number, record.offset + offset, length, record.pieces), entry)
    except StokerError:
        raise
    except OSError as error:
        raise SourceError(f"the shard cannot be read: {error.strerror}", path=shard.file) from error


def name_parts(fields: Mapping[str, str | None], usual: FeatureNames) -> FeatureNames:
    """Return the parts to read: the usual ones, and those that the user names in ``fields``."""
    # A part is the image, the label, the key or a column of that name; None leaves it out.
    names, columns = usual, dict(usual.columns)
    part_of_role: dict[str, str] = {}
    for part, name in fields.items():
        if name is None:
            columns = {column: column_part for column, column_part in columns.items() if column_part != part}
            names = replace(names, label=None) if part == names.label else names
        elif name in _ROLES:
            part_of_role[name] = part
        elif name in (*KNOWN_COLUMNS, "path", ""):
            raise ConfigError(f"a column cannot have the name {name!r}", hint="Give it another name.")
        else:
            columns[name] = part
    return replace(
        names,
        encoded=part_of_role.get("image", names.encoded),
        label=part_of_role.get("label", names.label),
        key=part_of_role.get("key"),
        columns=columns,
    )


def free_name(name: str) -> str:
    """Return the name of a column in the dataset: a name that datasets use themselves gets a ``_``."""
    return f"{name}_" if name in _TAKEN_NAMES or name.startswith(("object_", "mask_")) else name


class _Gathered:
    """The images of shards, which are added one shard after the other."""

    def __init__(self, shards: list[ExternalShard]) -> None:
        self._shards = shards
        self._columns = EntryColumns(cells=False)
        self._keys = Strings()
        self._labelled: set[bool] = set()
        self._ranges: list[tuple[int, int, int, int, int]] = []  # shard, record, offset, bytes, pieces
        self._number = 0  # of the next shard
        self._skipped: list[Skip] = []

    def add(self, images: list[_Image | Skip]) -> None:
        """Add the images of the next shard."""
        entries: list[dict[str, Any]] = []
        for image in images:
            if isinstance(image, Skip):
                self._skipped.append(image)
                continue
            self._keys.add(image.key.encode(errors="backslashreplace"))
            self._labelled.add(image.entry["label"] is not None)
            self._ranges.append((self._number, *image.place))
            entries.append(image.entry)
        for _ in self._columns.gather(entries):
            pass
        self._number += 1

    def listing(self, source: Source, column: str) -> Listing:
        """Return the listing of all images; ``column`` holds the images of compressed shards."""
        if not self._ranges:
            raise no_images_error("the shards hold no image", source.path, self._skipped)
        shard, record, offset, length, pieces = np.array(self._ranges, np.int64).T
        rows = np.arange(len(shard), dtype=np.int64)
        try:
            if len(self._labelled) > 1:
                raise ValueError("some samples have a class and some have none")
            labels, classes = self._columns.labels(rows) if True in self._labelled else (None, ())
        except ValueError as error:
            raise SourceError(
                f"the classes cannot be used: {error}",
                path=source.path,
                hint="Name another part for the label in fields, or none.",
            ) from error
        file, files = shard.astype(np.int32), tuple(one.file for one in self._shards)
        sizes = tuple(one.size for one in self._shards)
        blocks = ranges = None
        if any(one.is_compressed for one in self._shards):
            zeros, at = np.zeros(len(rows), np.int32), record.astype(np.int32)
            blocks = ListedBlocks(files, sizes, column, file, zeros, at, kind="mds")
        else:
            cut = pieces.astype(np.int32) if pieces.max() > 1 else None
            ranges = FileRanges(files, sizes, file, offset.copy(), cut)
        return Listing(
            files[0].rpartition("/")[0],
            self._keys.to_arrow(),
            length.copy(),
            np.array([one.modified for one in self._shards], np.int64)[file],
            labels=labels,
            classes=classes,
            columns=self._columns.others(rows),
            skipped=tuple(sorted(self._skipped)),
            ranges=ranges,
            blocks=blocks,
        )


def mds_images(file: str, column: str) -> Iterator[pa.Array]:
    """Yield the images of a shard one after the other, (1,) binary each; null for a sample without an image.

    ``column`` holds the images; empty for the only image column.
    """
    names = FeatureNames(encoded=column, label=None, text=None, key=None)
    container, (shard,) = find_shards([file], "mds")
    last = None
    with shard.local_file(plain=True) as path:
        for record in container.scan(path):
            if last is not None:
                yield last
            try:
                image = record.bytes_of(container.parse_image(record, names).payload)
            except (LeftOutError, StokerError):  # the listing has said why
                image = None
            last = pa.array([image], pa.large_binary())
    if last is not None:  # the copy of the shard is removed before its last image is used
        yield last
