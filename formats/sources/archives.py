"""Shards of other programs as sources: tar archives, MXNet's RecordIO files, and shards of Mosaic Streaming.

Listing reads headers and values of samples; of a tar archive no image is read. Conversion reads images by
offset and length; a compressed shard of Mosaic Streaming is decompressed as a whole again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from stoker.errors import ConfigError, SourceError, StokerError, with_details
from stoker.urls import is_url, split_url

from ..containers.external import ExternalShard, error_about, find_shards, parse_records
from ..containers.image_record import FeatureNames, LeftOutError
from ..dataset.columns import Strings
from ..dataset.index import KNOWN_COLUMNS, free_name
from ..files import read_errors
from ..threads import available_cores, thread_map
from .columns import EntryColumns
from .listing import FileRanges, ListedBlocks, Listing, Skip, check_damage, no_images_error
from .source import Source

_CONNECTIONS = 16  # shards at URLs that are read at once
_ANOTHER_LABEL = "Name another part for the label in fields, or none."
_ROLES = ("image", "label", "key")


class _Image(NamedTuple):
    """An image in a shard."""

    key: str  # Its name
    # Number of its record, its first byte in the file, its bytes, its pieces
    place: tuple[int, int, int, int]
    entry: dict[str, Any]  # The label and the columns of its sample


def _list(name: str, source: Source) -> Listing:  # noqa: C901, PLR0915 - one pass over all shards
    """List the images in shards of a container, in the order of the shards and of their records."""
    container, shards = find_shards([source.path], name, door="convert")
    usual = container.feature_names or FeatureNames()
    names = name_parts(source.parts, usual)
    by_shard = source.options.label_type == "shard"
    names = replace(names, label_type=source.options.label_type or names.label_type)
    # Without names of columns, a container reads all of them, by their own names.
    renamed = None if usual.columns else source.parts
    if renamed is not None:
        names = replace(names, columns={})
    threads = _CONNECTIONS if is_url(shards[0].file) else available_cores()

    def read(shard: ExternalShard) -> list[_Image | Skip | StokerError]:
        return list(_images(shard, names, renamed))

    columns = EntryColumns(cells=False, path=source.path, captions=source.caption_name)
    keys, skipped, damaged = Strings(), list[Skip](), list[StokerError]()
    labelled: list[bool] = []
    ranges: list[tuple[int, int, int, int, int]] = []  # shard, record, offset, bytes, pieces
    for number, (shard, images) in enumerate(thread_map(read, shards, "list", threads, threads)):
        for image in images:
            if isinstance(image, Skip):
                skipped.append(image)
            elif isinstance(image, StokerError):
                damaged.append(image)
            else:
                keys.add(image.key.encode(errors="backslashreplace"))
                ranges.append((number, *image.place))
                entry = {**image.entry, "label": _class_of_shard(shard)} if by_shard else image.entry
                columns.add(entry)
                labelled.append(entry["label"] is not None)
    if not ranges:
        check_damage(damaged, 0, None, "")
        raise no_images_error("the shards hold no image", source.path, skipped)
    files = tuple(one.file for one in shards)
    shard, record, offset, length, pieces = np.array(ranges, np.int64).T
    rows = np.flatnonzero(labelled) if any(labelled) else np.arange(len(shard), dtype=np.int64)
    names_of_all = keys.to_arrow()
    for row in np.setdiff1d(np.arange(len(shard)), rows).tolist():
        where = {"path": files[shard[row]], "record": int(record[row]), "key": names_of_all[row].as_py()}
        damaged.append(
            SourceError("the sample has no class, and others have one", hint=_ANOTHER_LABEL, **where)
        )
    shard, record, offset, length, pieces = np.array(ranges, np.int64)[rows].T
    try:
        of_type = "several" if source.options.label_type in ("several", "multi-hot") else None
        labels, classes = columns.labels(rows, of_type) if any(labelled) else (None, ())
    except SourceError as error:
        raise with_details(error, path=source.path) from error
    except ValueError as error:
        raise SourceError(
            f"the classes cannot be used: {error}",
            path=source.path,
            hint=_ANOTHER_LABEL,
        ) from error
    file = shard.astype(np.int32)
    sizes = tuple(one.size for one in shards)
    blocks = byte_ranges = None
    if any(one.is_compressed for one in shards):
        zeros, at = np.zeros(len(rows), np.int32), record.astype(np.int32)
        blocks = ListedBlocks(files, sizes, names.encoded, file, zeros, at, kind="mds")
    else:
        cut = pieces.astype(np.int32) if pieces.max() > 1 else None
        byte_ranges = FileRanges(files, sizes, file, offset.copy(), cut)
    return Listing(
        split_url(files[0])[0],
        names_of_all.take(pa.array(rows)),
        length.copy(),
        np.array([one.modified for one in shards], np.int64)[file],
        labels=labels,
        classes=classes,
        columns=columns.others(rows),
        skipped=tuple(sorted(skipped)),
        damaged=tuple(damaged),
        ranges=byte_ranges,
        blocks=blocks,
    )


list_tar, list_recordio, list_mds = (partial(_list, name) for name in ("webdataset", "recordio", "mds"))


def _class_of_shard(shard: ExternalShard) -> str:
    """The name of an archive up to its suffixes, such as n01440764."""
    return shard.file.rpartition("/")[2].partition(".")[0]


def _images(
    shard: ExternalShard, names: FeatureNames, renamed: Mapping[str, str | None] | None
) -> Iterator[_Image | Skip | StokerError]:
    """Yield the images of a shard. ``renamed`` names their columns in the dataset, None by their names."""
    name = split_url(shard.file)[1]
    with read_errors(shard.file):
        for parsed in parse_records(shard.records(), shard.container, names, name, shard.file, headers=False):
            record, sample = parsed.record, parsed.sample
            if parsed.error is not None or record is None:
                yield cast("StokerError", parsed.error)
                continue
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
                column = part if renamed is None else renamed.get(part, free_name(part, sample.columns))
                if value is not None and column is not None:
                    entry[column] = value
            offset, length = sample.payload
            yield _Image(key, (record.number, record.offset + offset, length, record.pieces), entry)


def name_parts(fields: Mapping[str, str | None], usual: FeatureNames) -> FeatureNames:
    """Return the parts to read: the usual ones, and those that the user names in ``fields``."""
    # A part is the image, the label, the key or a column of that name; None leaves it out.
    names, columns = usual, dict(usual.columns)
    part_of_role: dict[str, str] = {}
    for part, name in fields.items():
        if name is None or (name == "label" and not part):
            columns = {column: column_part for column, column_part in columns.items() if column_part != part}
            names = replace(names, label=None) if part in ("", names.label) else names
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
        key=part_of_role.get("key", names.key),
        columns=columns,
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
