"""Small images, and datasets made of them without a conversion."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from helpers.data.options import convert_options
from helpers.data.pictures import encode, noise

import stoker
from stoker.formats.codecs.header import read_header
from stoker.formats.containers.container import find_writing
from stoker.formats.containers.image_record import ImageRecord
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.dataset.index import Index, concat_indexes, write_index
from stoker.formats.dataset.manifest import INDEX_NAME, MANIFEST_NAME, IndexFile, Manifest, Shard
from stoker.formats.files import file_digest

CLASSES = ("cat", "dog", "eel")


def jpeg(seed: int, height: int = 12, width: int = 16) -> bytes:
    """A JPEG of noise."""
    return encode(noise(seed, height, width), quality=80)


def wrap(container: str, row: int, size: int) -> tuple[bytes, bytes]:
    """Prefix and suffix of a record, as a conversion would write them."""
    labels = (row % len(CLASSES),)
    record = ImageRecord(f"k{row}", size, "JPEG", height=12, width=16, labels=labels, classes=CLASSES)
    return find_writing(container).wrap_image(record)


def build_shard(
    folder: Path, container: str, number: int, of: int, rows: list[int], payloads: Sequence[bytes]
) -> Shard:
    """Write one shard, and its part of the index as ``part-<number>``."""
    name = f"shard-{number:05d}-of-{of:05d}{find_writing(container).suffix}"
    with find_writing(container).writer(folder / name) as writer:
        for row in rows:
            prefix, suffix = wrap(container, row, len(payloads[row]))
            writer.write(b"k%d" % row, prefix, payloads[row], suffix)
        shard = writer.finish()
    constant = {"shard": number, "codec": 1, "height": 12, "width": 16, "orientation": 1}
    columns: dict[str, Any] = {name: np.full(len(rows), value) for name, value in constant.items()}
    columns |= {"offset": shard.offset, "length": shard.length, "crc": shard.crc}
    columns |= {"record": np.arange(len(rows)), "label": np.array(rows, np.int64) % len(CLASSES)}
    write_index(folder / f"part-{number}", {**columns, "key": [f"k{row}" for row in rows]})
    return Shard(name, shard.data_bytes, shard.records, shard.digests.crc)


def list_column(values: Sequence[Sequence[float]], kind: pa.DataType) -> pa.Array:
    """An index column with a list of numbers for each sample."""
    return pa.array(values, pa.large_list(kind))


def flip_bit(dataset: Dataset, row: int, byte: int = 0) -> None:
    """Change the lowest bit of a byte of a payload."""
    shard, offset = (int(dataset.values(name, [row])[0]) for name in ("shard", "offset"))
    with dataset.data_files[shard].open("r+b") as file:
        file.seek(offset + byte)
        value = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([value ^ 1]))


def publish(folder: Path, container: str, shards: Sequence[Shard]) -> None:
    """Write the manifest that fits the index and these shards."""
    path = folder / INDEX_NAME
    index = Index.open(path)
    manifest = Manifest(
        container=container,
        sample_type="image",
        columns=index.types,
        shards=tuple(shards),
        index=IndexFile(len(index), path.stat().st_size, file_digest(path)),
        classes=CLASSES,
    )
    (folder / MANIFEST_NAME).write_text(manifest.to_json())


def rewrite_index(folder: Path, **columns: Any) -> None:
    """Replaces columns of the index of a dataset, leaves out those that are None, and mends the manifest."""
    index = Index.open(folder / INDEX_NAME)
    columns = {**{name: index.arrow(name) for name in index.types}, **columns}
    # The old file is still mapped, and would change under the map.
    write_index(folder / "new", {name: values for name, values in columns.items() if values is not None})
    path = (folder / "new").rename(folder / INDEX_NAME)
    stated = IndexFile(len(index), path.stat().st_size, file_digest(path))
    manifest = replace(Manifest.load(folder), columns=Index.open(path).types, index=stated)
    (folder / MANIFEST_NAME).write_text(manifest.to_json())


def build(folder: Path, container: str, payloads: Sequence[bytes], shards: int) -> Path:
    """Write a dataset of JPEGs, 12 x 16, whose label is row % 3 and whose key is ``k<row>``."""
    folder.mkdir(parents=True)
    blocks = np.array_split(np.arange(len(payloads)), shards)
    written = [
        build_shard(folder, container, i, shards, rows.tolist(), payloads) for i, rows in enumerate(blocks)
    ]
    parts = [folder / f"part-{i}" for i in range(shards)]
    concat_indexes(parts, folder / INDEX_NAME)
    for part in parts:
        part.unlink()
    publish(folder, container, written)
    return folder


def pack(folder: Path, payloads: Sequence[bytes], columns: dict[str, Any]) -> Path:
    """Write any payloads as a dataset of one TFRecord shard; see the fixture of the same name."""
    name = "shard-00000-of-00001.tfrecord"
    with find_writing("tfrecord").writer(folder / name) as writer:
        for row, payload in enumerate(payloads):
            prefix, suffix = wrap("tfrecord", row, len(payload))
            writer.write(b"", prefix, payload, suffix)
        shard = writer.finish()
    n = len(payloads)
    index = {"shard": np.zeros(n), "record": np.arange(n), "orientation": np.ones(n), "label": np.arange(n)}
    index |= {"offset": shard.offset, "length": shard.length, "crc": shard.crc}
    if "codec" not in columns:
        headers = [read_header(payload) for payload in payloads]
        for field in ("codec", "height", "width", "orientation"):
            index[field] = np.array([getattr(header, field) for header in headers])
    write_index(folder / INDEX_NAME, {**index, "key": [f"k{row}" for row in range(n)], **columns})
    publish(folder, "tfrecord", [Shard(name, shard.data_bytes, n, shard.digests.crc)])
    return folder


def converted(source: Any, target: Path, **options: Any) -> Dataset:
    """The dataset that a conversion of the source makes."""
    stoker.convert(source, target, **convert_options(options))
    return stoker.open(target)


def verified(folder: Path) -> Dataset:
    """The dataset in a folder, all of whose images a verification has decoded."""
    report = stoker.verify(folder, decode=True)
    assert report.ok, report.problems
    return stoker.open(folder)


def read_all(dataset: Dataset) -> list[bytes]:
    """The payload of each sample."""
    return [dataset.read(i) for i in range(len(dataset))]
