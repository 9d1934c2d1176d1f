"""A container for tests: a file of records with their lengths, and a sidecar file with their byte ranges.

A record of an image is its label, a line break and the encoded image.
"""

import struct
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from stoker._native import crc32c
from stoker.errors import CorruptRecordError
from stoker.formats.containers import container as registry
from stoker.formats.containers.container import Container, ReadStart, Record, Sidecar, Writing, WrittenShard
from stoker.formats.containers.image_record import ExternalSample, FeatureNames, ImageRecord
from stoker.formats.containers.protobuf import Span
from stoker.formats.files import file_digests

MAGIC = b"TOY1"
HEADER = struct.Struct("<II")  # bytes of the key and of the value


class ToyWriter:
    """Writes one shard."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path.open("xb")
        self.file.write(MAGIC)
        self.payloads: list[tuple[int, int, int]] = []

    def __enter__(self) -> "ToyWriter":
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
    offset, number = len(MAGIC), 0
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
    return read_start("", len(MAGIC)) == MAGIC


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
    writing=Writing(suffix=".toy", writer=ToyWriter, wrap_image=wrap_image),
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
