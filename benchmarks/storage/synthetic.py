"""Synthetic datasets of any number of samples: an index, and data files that are holes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker._native import crc32c
from stoker.formats.dataset.index import Index, write_index
from stoker.formats.dataset.manifest import INDEX_NAME, MANIFEST_NAME, IndexFile, Manifest, Shard
from stoker.formats.files import file_digest

_KEY = "samples/000000000000.jpg"
_CLASSES = 1000


def make_dataset(folder: Path, rows: int, sample_bytes: int, shard_bytes: int) -> Path:
    """Write the manifest and the index of a dataset whose payloads are ``sample_bytes`` zeros."""
    folder.mkdir(parents=True)
    per_shard = shard_bytes // sample_bytes
    row = np.arange(rows, dtype=np.int64)
    columns = {
        "shard": (row // per_shard).astype(np.int32),
        "record": row % per_shard,
        "offset": row % per_shard * sample_bytes,
        "length": np.full(rows, sample_bytes, np.int64),
        "crc": np.full(rows, crc32c(bytes(sample_bytes)), np.uint32),
        "key": _keys(row),
        "codec": np.zeros(rows, np.uint8),
        "height": np.full(rows, 1, np.int32),
        "width": np.full(rows, sample_bytes // 3, np.int32),
        "orientation": np.ones(rows, np.uint8),
        "label": row % _CLASSES,
    }
    path = folder / INDEX_NAME
    write_index(path, columns)
    shards = []
    count = -(-rows // per_shard)
    for number in range(count):
        records = min(per_shard, rows - number * per_shard)
        name = f"shard-{number:05d}-of-{count:05d}.tfrecord"
        with (folder / name).open("xb") as file:
            file.truncate(records * sample_bytes)
        # No benchmark compares this digest.
        shards.append(Shard(name, records * sample_bytes, records, "crc32c:00000000"))
    manifest = Manifest(
        container="tfrecord",
        sample_type="image",
        columns=Index.open(path).types,
        shards=tuple(shards),
        index=IndexFile(rows, path.stat().st_size, file_digest(path)),
        classes=tuple(f"class {number}" for number in range(_CLASSES)),
    )
    (folder / MANIFEST_NAME).write_text(manifest.to_json())
    return folder


def _keys(row: npt.NDArray[np.int64]) -> pa.Array:
    """Return names of one length, made without a Python string for each."""
    text = np.tile(np.frombuffer(_KEY.encode(), np.uint8), (len(row), 1))
    first = _KEY.index("0")
    for digit in range(12):
        text[:, first + 11 - digit] = row // 10**digit % 10 + ord("0")
    starts = np.arange(len(row) + 1, dtype=np.int64) * len(_KEY)
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.large_string(), len(row), buffers)
