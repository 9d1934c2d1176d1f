"""Datasets of lines that all differ, and loaders of text that draw from them."""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import sys
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lmdb as py_lmdb
import numpy as np
import pytest
from helpers.datasets import WORDS
from helpers.loaders import text_arguments
from helpers.options import text_options

import stoker
from stoker._native import crc32c
from stoker.errors import CorruptRecordError
from stoker.formats.containers import container as registry
from stoker.formats.containers import tfrecord
from stoker.formats.containers.container import Container, ReadStart, Record, Sidecar, Writing, WrittenShard
from stoker.formats.containers.image_record import ExternalSample, FeatureNames, ImageRecord
from stoker.formats.containers.lmdb import wrap_image as wrap_datum
from stoker.formats.containers.protobuf import Feature, Span, encode_example
from stoker.formats.files import file_digests


def write(folder: Path, name: str, number: int, **options: Any) -> Path:
    """``number`` lines of 1 to 30 letters, all different."""
    lines = [
        "".join(chr(33 + (i * i + j + number) % 90) for j in range(1 + i * 7 % 30)) for i in range(number)
    ]
    (folder / f"{name}.txt").write_text("\n".join(lines))
    arguments = {"tokenizer": "bytes", "shards": 2, **options}
    stoker.convert_text(
        folder / f"{name}.txt", folder / name, **text_options({"tokenizer": WORDS, **arguments})
    )
    return folder / name


def load(dataset: Any, **options: Any) -> stoker.TextLoader:
    arguments: dict[str, Any] = {"seed": 7, "rank": 0, "world_size": 1, "columns": ("row",)}
    arguments |= {"buckets": 3} if options.get("pack") is None else {}
    arguments |= {"batch_size": 4} if "max_tokens" not in options else {}
    return stoker.TextLoader(dataset, **text_arguments(**{**arguments, **options}))


def rows(loader: stoker.TextLoader) -> list[int]:
    return [int(row) for batch in loader for row in batch.row]


def write_tfrecord(path: Path, examples: list[Mapping[str, Feature]]) -> Path:
    with tfrecord.TFRecordWriter(path) as writer:
        for features in examples:
            writer.write(b"", encode_example(features)[0], b"", b"")
        writer.finish()
    path.with_suffix(".idx").unlink()
    return path


def write_lmdb(path: Path, values: Mapping[bytes, bytes]) -> Path:
    with py_lmdb.open(os.fspath(path), map_size=1 << 26) as env, env.begin(write=True) as txn:
        for key, value in values.items():
            txn.put(key, value)
    return path


def example(image: bytes, label: int, **more: Feature) -> dict[str, Feature]:
    return {"image/encoded": image, "image/class/label": [label], **more}


def datum(image: bytes, label: int) -> bytes:
    return image.join(wrap_datum(ImageRecord("", len(image), "JPEG", 1, 1, labels=(label,))))


SIZES = {"int": 8, "float32": 4, "uint8": 1, "int16": 2}
ENCODE = {
    "int": lambda value: struct.pack("<q", value),
    "float32": lambda value: struct.pack("<f", value),
    "uint8": lambda value: struct.pack("<B", value),
    "int16": lambda value: struct.pack("<h", value),
    "str": lambda value: value.encode(),
    "str_int": lambda value: str(value).encode(),
    "json": lambda value: json.dumps(value).encode(),
}


def shard(
    columns: Mapping[str, str], samples: Sequence[Mapping[str, Any]], hashes: Sequence[str] = ()
) -> bytes:
    """The bytes of a shard; images and other encodings are given as bytes."""
    description = {
        **_description(columns),
        "compression": None,
        "hashes": list(hashes),
        "size_limit": 1 << 26,
    }
    config = json.dumps(description, sort_keys=True).encode()
    encoded = []
    for sample in samples:
        values = [ENCODE.get(columns[name], bytes)(sample[name]) for name in sorted(columns)]
        varying = [
            len(value)
            for value, name in zip(values, sorted(columns), strict=True)
            if columns[name] not in SIZES
        ]
        encoded.append(struct.pack(f"<{len(varying)}I", *varying) + b"".join(values))
    first = 4 * (len(samples) + 2) + len(config)
    offsets = [first + sum(map(len, encoded[:number])) for number in range(len(samples) + 1)]
    return struct.pack(f"<{len(samples) + 2}I", len(samples), *offsets) + config + b"".join(encoded)


def _description(columns: Mapping[str, str]) -> dict[str, Any]:
    names = sorted(columns)
    return {
        "column_names": names,
        "column_encodings": [columns[name] for name in names],
        "column_sizes": [SIZES.get(columns[name]) for name in names],
        "format": "mds",
        "version": 2,
    }


def write_mds(
    folder: Path,
    columns: Mapping[str, str],
    shards: Sequence[Sequence[Mapping[str, Any]]],
    hashes: Sequence[str] = (),
) -> Path:
    """Write a dataset: shards and ``index.json``."""
    folder.mkdir(parents=True)
    described = []
    for number, samples in enumerate(shards):
        data = shard(columns, samples, hashes)
        (folder / f"shard.{number:05}.mds").write_bytes(data)
        raw = {"basename": f"shard.{number:05}.mds", "bytes": len(data)}
        digests = {name: hashlib.new(name, data).hexdigest() for name in hashes}
        described.append(
            {**_description(columns), "samples": len(samples), "raw_data": {**raw, "hashes": digests}}
        )
    (folder / "index.json").write_text(json.dumps({"shards": described, "version": 2}))
    return folder


MAGIC = b"\x0a\x23\xd7\xce"


def record(value: bytes) -> bytes:
    """A record: whole, or cut at every aligned magic number as ``RecordIOWriter::WriteRecord`` does."""
    cuts = [at for at in range(0, len(value) - 3, 4) if value[at : at + 4] == MAGIC]
    starts, ends = [0, *(cut + 4 for cut in cuts)], [*cuts, len(value)]
    written = b""
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        flag = 0 if not cuts else 1 if number == 0 else 3 if number == len(cuts) else 2
        written += MAGIC + struct.pack("<I", flag << 29 | end - start) + value[start:end]
    return written + bytes(-len(written) % 4)


def image(payload: bytes, label: float | Sequence[float], id: int) -> bytes:  # noqa: A002 - the field's name
    """The value of an image, as ``mxnet.recordio.pack`` makes it."""
    if isinstance(label, float | int):
        return struct.pack("IfQQ", 0, label, id, 0) + payload
    numbers = struct.pack(f"{len(label)}f", *label)
    return struct.pack("IfQQ", len(label), 0, id, 0) + numbers + payload


def write_recordio(path: Path, values: Sequence[bytes], *, with_index: bool = False) -> Path:
    """Write a file, and with ``with_index`` the ``.idx`` file of ``MXIndexedRecordIO`` beside it."""
    records = [record(value) for value in values]
    path.write_bytes(b"".join(records))
    if with_index:
        offsets = [sum(map(len, records[:number])) for number in range(len(records))]
        path.with_suffix(".idx").write_text("".join(f"{key}\t{at}\n" for key, at in enumerate(offsets)))
    return path


def write_samples(path: Path, samples: Iterable[Mapping[str, Any]]) -> Path:
    """An archive of samples, ``{"__key__": ..., "jpg": bytes, "cls": 1, "json": {}}``."""
    members: list[tuple[str | tarfile.TarInfo, bytes]] = []
    for sample in samples:
        for suffix in sorted(sample.keys() - {"__key__"}):
            value = sample[suffix]
            data = json.dumps(value) if suffix == "json" else str(value)
            members.append(
                (f"{sample['__key__']}.{suffix}", value if isinstance(value, bytes) else data.encode())
            )
    return write_members(path, members)


def write_members(
    path: Path, members: Sequence[tuple[str | tarfile.TarInfo, bytes]], form: int = tarfile.PAX_FORMAT
) -> Path:
    """An archive by Python's tarfile: a name, or a whole header, and the bytes of each member."""
    with tarfile.open(path, "w", format=form) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name) if isinstance(name, str) else name
            info.size = len(data) if info.isreg() else 0
            archive.addfile(info, io.BytesIO(data))
    return path


def member(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """The header of a member that is no regular file."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def with_checksum(data: bytearray, header: int = 0) -> bytes:
    """The archive with the right checksum in the header at an offset."""
    data[header + 148 : header + 156] = b" " * 8
    data[header + 148 : header + 156] = b"%06o\0 " % sum(data[header : header + 512])
    return bytes(data)


N = 97

Sequences = dict[int, tuple[list[int], list[int]]]
"""Token ids of both fields by row."""


def write_shards(folder: Path) -> Path:
    """97 samples of two fields of bytes; sample i has 1 + i % 30 and 1 + i % 7 tokens, all different."""
    for name, period in (("q", 30), ("a", 7)):
        lines = ["".join(chr(33 + (i * i + j) % 90) for j in range(1 + i % period)) for i in range(N)]
        (folder / f"t.{name}").write_text("\n".join(lines))
    files = [folder / "t.q", folder / "t.a"]
    stoker.convert_text(
        files, folder / "d", parallel=True, tokenizer="bytes", seed=1, storage=stoker.Storage(shards=3)
    )
    return folder / "d"


def read_sequences(shards: Path) -> Sequences:
    """Token ids of both fields by row, read sample by sample."""
    dataset = stoker.open(shards)
    lengths = dataset.column("q_length")
    found = {}
    for row in range(len(dataset)):
        shard, offset, size = (int(dataset.column(name)[row]) for name in ("shard", "offset", "length"))
        data = dataset.data_files[shard].read_bytes()[offset : offset + size]
        ids = np.frombuffer(data, "<u2").tolist()
        found[row] = (ids[: lengths[row]], ids[lengths[row] :])
    return found


def make(shards: Path, **options: Any) -> stoker.TextLoader:
    arguments: dict[str, Any] = {"shuffle": True, "seed": 7, "rank": 0, "world_size": 1, "fields": ("q",)}
    arguments |= {"batch_size": 8} if "max_tokens" not in options else {}
    return stoker.TextLoader(shards, **text_arguments(**{**arguments, **options}))


def same(first: Any, second: Any) -> bool:
    return len(first) == len(second) and all(
        np.array_equal(x, y) for a, b in zip(first, second, strict=True) for x, y in zip(a, b, strict=True)
    )


TOY_MAGIC = b"TOY1"
HEADER = struct.Struct("<II")  # bytes of the key and of the value


class ToyWriter:
    """Writes one shard."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path.open("xb")
        self.file.write(TOY_MAGIC)
        self.payloads: list[tuple[int, int, int]] = []

    def __enter__(self) -> ToyWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.file.close()

    def write(self, key: bytes, prefix: bytes, payload: Any, suffix: bytes) -> None:
        self.file.write(HEADER.pack(len(key), len(prefix) + len(payload) + len(suffix)) + key + prefix)
        self.payloads.append((self.file.tell(), len(payload), crc32c(payload)))
        self.file.write(bytes(payload) + suffix)

    def finish(self) -> WrittenShard:
        self.file.close()
        table = np.array(self.payloads, np.int64).reshape(-1, 3)
        sidecar = self.path.with_name(BYTE_RANGES.name(self.path.name))
        sidecar.write_bytes(
            b"".join(BYTE_RANGES.entry(record.offset, record.length) for record in scan(self.path))
        )
        return WrittenShard(
            files=(self.path, sidecar),
            data_bytes=self.path.stat().st_size,
            records=len(table),
            digests=file_digests(self.path),
            offset=table[:, 0],
            length=table[:, 1],
            crc=table[:, 2].astype(np.uint32),
        )


def scan(file: Path) -> Iterator[Record]:
    data = file.read_bytes()
    offset, number = len(TOY_MAGIC), 0
    while offset < len(data):
        key, value = HEADER.unpack_from(data, offset)
        offset += HEADER.size + key
        if offset + value > len(data):
            raise CorruptRecordError("the record is cut off", path=file, shard=file.name, record=number)
        view = memoryview(data)[offset : offset + value]
        yield Record(number, data[offset - key : offset], offset, value, view)
        offset += value
        number += 1


def recognizes(read_start: ReadStart) -> bool:
    return read_start("", len(TOY_MAGIC)) == TOY_MAGIC


def wrap_image(image: ImageRecord) -> tuple[bytes, bytes]:
    return b"%d\n" % (image.labels or (0,))[0], b""


def parse_image(record: Record, names: FeatureNames) -> ExternalSample:
    label, _, image = bytes(record.view).partition(b"\n")
    payload = Span(len(label) + 1, len(image))
    return ExternalSample(payload, record.key.decode(), int(label))


BYTE_RANGES = Sidecar(".ranges", "a toy", lambda offset, length: b"%d+%d\n" % (offset, length))
TOY = Container(
    name="toy",
    recognizes=recognizes,
    scan=scan,
    parse_image=parse_image,
    writing=Writing(
        suffix=".toy", writer=ToyWriter, wrap_image=wrap_image, wrap_array=lambda array: (b"", b"")
    ),
    sidecars=(BYTE_RANGES,),
)
READ_ONLY = replace(TOY, name="read-only", writing=None)


def add_container(monkeypatch: pytest.MonkeyPatch, container: Container) -> None:
    """Add a container to the table for a test, as if its module were in the package."""
    name = container.name
    module = SimpleNamespace(**{name.upper(): container})
    monkeypatch.setitem(sys.modules, f"{registry.__package__}.{name}", module)
    row = registry.ContainerRow("toys", can_write=container.writing is not None)
    monkeypatch.setitem(registry.CONTAINERS, name, row)
