"""Data that several tests share: small images, and datasets made of them."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from stoker.formats.containers import container
from stoker.formats.example import encode_datum, encode_image_example
from stoker.formats.files import file_digest
from stoker.formats.index import Index, concat_indexes, write_index
from stoker.formats.manifest import INDEX_NAME, MANIFEST_NAME, IndexFile, Manifest, Shard

CLASSES = ("cat", "dog", "eel")


def jpeg(seed: int, height: int = 12, width: int = 16) -> bytes:
    """A JPEG of noise."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=80)
    return stream.getvalue()


def around(kind: str, row: int, size: int) -> tuple[bytes, bytes]:
    """Prefix and suffix of a record, as a conversion would write them."""
    label = row % len(CLASSES)
    if kind == "lmdb":
        return encode_datum(payload_bytes=size, height=12, width=16, label=label)
    return encode_image_example(
        payload_bytes=size,
        format="JPEG",
        height=12,
        width=16,
        key=f"k{row}",
        label=label,
        class_name=CLASSES[label],
    )


def build_shard(
    folder: Path, kind: str, number: int, of: int, rows: list[int], payloads: Sequence[bytes]
) -> Shard:
    """Write one shard, and its part of the index as ``part-<number>``."""
    module = container(kind)
    name = f"shard-{number:05d}-of-{of:05d}{module.SUFFIX}"
    with module.Writer(folder / name) as writer:
        for row in rows:
            prefix, suffix = around(kind, row, len(payloads[row]))
            writer.write(b"k%d" % row, prefix, payloads[row], suffix)
        shard = writer.finish()
    constant = {"shard": number, "codec": 1, "height": 12, "width": 16, "orientation": 1}
    columns: dict[str, Any] = {name: np.full(len(rows), value) for name, value in constant.items()}
    columns |= {"offset": shard.offset, "length": shard.length, "crc": shard.crc}
    columns |= {"record": np.arange(len(rows)), "label": np.array(rows, np.int64) % len(CLASSES)}
    write_index(folder / f"part-{number}", {**columns, "key": [f"k{row}" for row in rows]})
    return Shard(name, shard.data_bytes, shard.records, shard.digest)


def publish(folder: Path, kind: str, shards: Sequence[Shard]) -> None:
    """Write the manifest that fits the index and these shards."""
    path = folder / INDEX_NAME
    index = Index.open(path)
    manifest = Manifest(
        container=kind,
        kind="image",
        columns=index.types,
        shards=tuple(shards),
        index=IndexFile(len(index), path.stat().st_size, file_digest(path)),
        classes=CLASSES,
    )
    (folder / MANIFEST_NAME).write_text(manifest.to_json())


def build(folder: Path, kind: str, payloads: Sequence[bytes], shards: int) -> Path:
    """Write a dataset of JPEGs, 12 x 16, whose label is row % 3 and whose key is ``k<row>``."""
    folder.mkdir(parents=True)
    blocks = np.array_split(np.arange(len(payloads)), shards)
    written = [build_shard(folder, kind, i, shards, rows.tolist(), payloads) for i, rows in enumerate(blocks)]
    parts = [folder / f"part-{i}" for i in range(shards)]
    concat_indexes(parts, folder / INDEX_NAME)
    for part in parts:
        part.unlink()
    publish(folder, kind, written)
    return folder


@pytest.fixture
def make_dataset(tmp_path: Path) -> Callable[..., Path]:
    """``make_dataset(kind, payloads, shards=2, name="dataset")``: its folder; six JPEGs by default."""

    def make(
        kind: str = "tfrecord",
        payloads: Sequence[bytes] | None = None,
        shards: int = 2,
        name: str = "dataset",
    ) -> Path:
        return build(tmp_path / name, kind, payloads or [jpeg(i) for i in range(6)], shards)

    return make


@pytest.fixture
def make_jpeg() -> Callable[..., bytes]:
    """``make_jpeg(seed, height=12, width=16)`` encodes noise."""
    return jpeg


@pytest.fixture
def republish() -> Callable[[Path, str, Sequence[Shard]], None]:
    """``republish(folder, kind, shards)`` writes the manifest that fits the index as it is now."""
    return publish
