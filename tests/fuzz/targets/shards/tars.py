"""Tar archives with damaged headers and members; most damaged headers have right checksums."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
from helpers.datasets import jpeg
from helpers.shards import member, with_checksum, write_members
from mutations import mutate, pick
from targets.shards.records import has_image

from stoker.errors import StokerError
from stoker.formats.containers.webdataset import WEBDATASET
from stoker.formats.conversion.convert import convert

_BLOCK = 512


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with archives; accepted if an image of one is found."""
    file, target = scratch / "x.tar", scratch / "target"
    corpus = [_archive(file, form) for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)]
    expected = {scratch, file, target}

    def attack(rng: np.random.Generator) -> bool:
        file.write_bytes(_damage(pick(corpus, rng), rng))
        with suppress(StokerError):
            convert(file, target, overwrite=True, num_threads=1)
        assert {path for path in scratch.rglob("*") if target not in path.parents} <= expected
        assert not list(scratch.parent.glob("*escaped*"))
        return sum(has_image(WEBDATASET, record, file.stat().st_size) for record in WEBDATASET.scan(file)) > 0

    return attack


def _archive(file: Path, form: int) -> bytes:
    long = "folder/" * 40
    members = [("a.jpg", jpeg(0)), ("a.cls", b"1"), ("../escaped.jpg", jpeg(1)), ("../escaped.cls", b"2")]
    linked = member(f"{long}c.jpg", tarfile.SYMTYPE, "/etc/passwd")
    others = [(f"{long}b.jpg", jpeg(2)), (f"{long}b.json", b'{"label": [1]}'), (linked, b"")]
    return write_members(file, [*members, *others], form).read_bytes()


def _damage(data: bytes, rng: np.random.Generator) -> bytes:
    """Edit a header, or the whole archive, and mostly give the header its checksum."""
    if rng.random() < 0.3:
        return mutate(data, rng)
    at = _BLOCK * int(rng.integers(0, len(data) // _BLOCK))
    block = bytearray(mutate(data[at : at + _BLOCK], rng, edits=3)[:_BLOCK].ljust(_BLOCK, b"\0"))
    if rng.random() < 0.8:
        block = bytearray(with_checksum(block))
    return data[:at] + bytes(block) + data[at + _BLOCK :]
