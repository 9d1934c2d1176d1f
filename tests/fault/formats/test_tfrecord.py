"""Damaged TFRecord shards: flipped bits, forged lengths, truncation."""

import os
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import stoker
from stoker._native import crc32c
from stoker.errors import CorruptRecordError, DatasetError
from stoker.formats.containers import tfrecord

Make = Callable[..., Path]

PAYLOADS = [b"first payload", b"", b"the third payload"]


@pytest.fixture
def shard(make_dataset: Make) -> Path:
    """The only shard of a dataset with three records."""
    return make_dataset(payloads=PAYLOADS, shards=1) / "shard-00000-of-00001.tfrecord"


@contextmanager
def flipped(path: Path, bit: int) -> Iterator[None]:
    """Inverts one bit of a file meanwhile."""
    with path.open("r+b", buffering=0) as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))
        yield
        file.seek(bit // 8)
        file.write(bytes([byte]))


def test_every_flipped_bit_is_found(shard: Path) -> None:
    dataset = stoker.open(shard.parent)
    for bit in range(shard.stat().st_size * 8):
        with flipped(shard, bit):
            with pytest.raises(CorruptRecordError) as caught:
                list(tfrecord.scan(shard))
            assert caught.value.shard == shard.name
            assert caught.value.record is not None
            for i, payload in enumerate(PAYLOADS):
                read_or_refused(dataset, i, payload)


def read_or_refused(dataset: stoker.Dataset, i: int, payload: bytes) -> None:
    """Checks that reading a sample returns its payload or raises an error."""
    with suppress(CorruptRecordError):
        assert dataset.read(i) == payload


def test_every_flipped_bit_of_a_payload_is_refused_when_read(shard: Path) -> None:
    dataset = stoker.open(shard.parent)
    samples = dataset.samples(range(3))
    for i, payload in enumerate(PAYLOADS):
        for bit in range(len(payload) * 8):
            with flipped(shard, int(samples.offset[i]) * 8 + bit):
                with pytest.raises(CorruptRecordError, match="checksum") as caught:
                    dataset.read(i)
                assert (caught.value.shard, caught.value.record, caught.value.key) == (shard.name, i, f"k{i}")


def test_verify_reports_flipped_bits(shard: Path) -> None:
    for bit in range(0, shard.stat().st_size * 8, 97):
        with flipped(shard, bit):
            report = stoker.verify(shard.parent, num_threads=1)
        assert report.found >= 2, "the digest, and the record"
        assert all(problem.shard == shard.name for problem in report.problems)


def forged_lengths(size: int) -> list[int]:
    """Lengths that are not the first record's, from slightly wrong to absurd."""
    near = [size + change for change in (-17, -16, -15, -1, 0, 1, 16, 4096)]
    powers = [1 << power for power in range(20, 64, 2)] + [(1 << power) - 1 for power in range(24, 65, 4)]
    return [
        0,
        1,
        *near,
        *powers,
        (1 << 64) - 2,
        (1 << 63) + 1,
        (1 << 64) - 4096,
        (1 << 31) - 16,
        (1 << 32) - 16,
    ]


@pytest.mark.parametrize("checksum", ["right", "wrong"])
def test_a_forged_length_allocates_nothing(shard: Path, checksum: str) -> None:
    good = shard.read_bytes()
    lengths = forged_lengths(len(good))
    assert len(set(lengths)) == len(lengths) >= 45
    tracemalloc.start()
    try:
        for length in lengths:
            data = struct.pack("<Q", length)
            crc = tfrecord.masked_crc(crc32c(data)) if checksum == "right" else 0
            shard.write_bytes(data + struct.pack("<I", crc) + good[12:])
            with pytest.raises(CorruptRecordError):
                list(tfrecord.scan(shard))
            assert not stoker.verify(shard.parent, num_threads=1).ok
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_a_huge_record_in_a_sparse_file_allocates_nothing(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    length = struct.pack("<Q", 1 << 40)
    path.write_bytes(length + struct.pack("<I", tfrecord.masked_crc(crc32c(length))))
    os.truncate(path, 1 << 41)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecordError, match="claims 1099511627776 bytes"):
            list(tfrecord.scan(path))
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_every_cut_is_found(shard: Path) -> None:
    good = shard.read_bytes()
    whole = [0, *(record.offset + record.length + 4 for record in tfrecord.scan(shard))]
    dataset = stoker.open(shard.parent)
    for length in range(len(good)):
        shard.write_bytes(good[:length])
        with pytest.raises(DatasetError, match="truncated"):
            stoker.open(shard.parent)
        if length % 16 == 0:
            assert not stoker.verify(shard.parent, num_threads=1).ok
        for i, payload in enumerate(PAYLOADS):
            read_or_refused(dataset, i, payload)
        if length in whole:
            assert len(list(tfrecord.scan(shard))) == whole.index(length)
        else:
            with pytest.raises(CorruptRecordError):
                list(tfrecord.scan(shard))
