"""Tar archives for tests, as WebDataset's writer makes them, and with other members."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


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
