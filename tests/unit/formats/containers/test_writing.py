"""Tests of what every container that can be written promises about its shards."""

import errno
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stoker._native import crc32c
from stoker.formats.containers.container import Record, WrittenShard, find_container, find_writing, writable
from stoker.formats.files import file_digests

pytestmark = pytest.mark.parametrize("container", writable())

SIZES = [0, 1, 100, 1900, 2000, 2036, 2100, 4000, 4079, 4080, 4081, 8176, 8177, 50_000]
"""Bytes of payloads, near those at which LMDB changes from leaf to overflow pages, and from one to two."""


def shard_path(folder: Path, container: str) -> Path:
    return folder / f"s{find_writing(container).suffix}"


def write(folder: Path, container: str, payloads: Sequence[Any]) -> WrittenShard:
    with find_writing(container).writer(shard_path(folder, container)) as writer:
        for number, payload in enumerate(payloads):
            writer.write(b"name-%d" % number, b"<", payload, b">>")
        return writer.finish()


def read(shard: WrittenShard, container: str) -> list[Record]:
    return list(find_container(container).scan(shard.files[0]))


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """The operating system refuses to make a file larger than ``size`` bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_records_are_read_in_their_order_and_the_written_shard_describes_them(
    tmp_path: Path, container: str
) -> None:
    rng = np.random.default_rng(0)
    payloads = [rng.bytes(SIZES[i % len(SIZES)]) for i in range(700)]
    shard = write(tmp_path, container, payloads)
    records = read(shard, container)
    assert [bytes(record.view) for record in records] == [b"<" + payload + b">>" for payload in payloads]
    assert [record.number for record in records] == list(range(700))
    assert [record.offset + len(b"<") for record in records] == shard.offset.tolist()
    path = shard_path(tmp_path, container)
    assert shard.files[0] == find_container(container).data_file(path)
    assert str(shard.files[0]) == find_container(container).data_url(str(path))
    assert shard.digests == file_digests(shard.files[0])
    assert shard.offset.dtype == shard.length.dtype == np.int64
    assert (shard.length.tolist(), shard.crc.tolist()) == (
        list(map(len, payloads)),
        list(map(crc32c, payloads)),
    )


def test_the_sidecars_have_an_entry_for_each_record(tmp_path: Path, container: str) -> None:
    shard = write(tmp_path, container, [b"abc", b"defgh"])
    path, sidecars = shard_path(tmp_path, container), find_container(container).sidecars
    assert [file.name for file in shard.files[1:]] == [sidecar.name(path.name) for sidecar in sidecars]
    for sidecar, file in zip(sidecars, shard.files[1:], strict=True):
        entries = [sidecar.entry(record.offset, record.length) for record in read(shard, container)]
        assert file.read_bytes() == b"".join(entries)


def test_any_contiguous_buffer_is_a_payload(tmp_path: Path, container: str) -> None:
    pixels = np.arange(12, dtype=np.uint16).reshape(3, 4)
    shard = write(tmp_path, container, [pixels])
    assert shard.length.tolist() == [24]
    assert bytes(read(shard, container)[0].view) == b"<" + pixels.tobytes() + b">>"


def test_an_existing_shard_is_not_overwritten(tmp_path: Path, container: str) -> None:
    write(tmp_path, container, [b"abc"])
    with pytest.raises(FileExistsError):
        find_writing(container).writer(shard_path(tmp_path, container))


def test_a_full_disk_is_an_oserror_and_leaves_no_file_open(
    tmp_path: Path, container: str, open_files: Callable[[], list[Path]]
) -> None:
    with pytest.raises(OSError, match=r"too large|s\.lmdb") as caught, largest_file(3 << 20):
        write(tmp_path, container, [bytes(1 << 20)] * 50)
    # LMDB reports a write that the disk took in part as EIO.
    assert caught.value.errno in (errno.EFBIG, *([errno.EIO] if container == "lmdb" else []))
    assert open_files() == []
