"""Tests of TFRecord: framing, checksums, the description of a written shard, DALI's index."""

import errno
import gzip
import resource
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from stoker._native import crc32c
from stoker.errors import CorruptRecordError
from stoker.formats.containers import tfrecord
from stoker.formats.files.reading import file_digests


def write(path: Path, values: list[bytes]) -> tfrecord.WrittenShard:
    with tfrecord.TFRecordWriter(path) as writer:
        for value in values:
            writer.write(b"", b"<", value, b">>")
        return writer.finish()


def test_mask_of_a_known_checksum() -> None:
    # Computed with tf.io.TFRecordWriter: the length 3, little-endian, and the value b"abc".
    assert tfrecord.masked_crc(crc32c(struct.pack("<Q", 3))) == 0x0E4999B0
    assert tfrecord.masked_crc(crc32c(b"abc")) == 0x21F1576E


def test_values_round_trip(tmp_path: Path) -> None:
    values = [b"", b"a", bytes(100_000)]
    shard = write(tmp_path / "s.tfrecord", values)
    records = list(tfrecord.scan(tmp_path / "s.tfrecord"))
    assert [bytes(record.view) for record in records] == [b"<" + value + b">>" for value in values]
    assert [record.number for record in records] == [0, 1, 2]
    assert shard.records == 3


def test_the_written_shard_describes_the_file(tmp_path: Path) -> None:
    values = [b"", b"abc", b"\xff" * 5000]
    path = tmp_path / "s.tfrecord"
    shard = write(path, values)
    data = path.read_bytes()
    assert shard.files == (path, tmp_path / "s.idx")
    assert shard.data_bytes == len(data)
    assert shard.digests == file_digests(path)
    assert shard.offset.dtype == shard.length.dtype == np.int64
    for value, offset, length, crc in zip(values, shard.offset, shard.length, shard.crc, strict=True):
        assert data[offset : offset + length] == value
        assert crc == crc32c(value)


def test_the_dali_index_gives_whole_records(tmp_path: Path) -> None:
    write(tmp_path / "s.tfrecord", [b"abc", b"defgh"])
    # A record is 16 bytes longer than its value, which has three bytes more than the payload here.
    assert (tmp_path / "s.idx").read_text() == "0 22\n22 24\n"


def test_an_empty_shard(tmp_path: Path) -> None:
    shard = write(tmp_path / "s.tfrecord", [])
    assert (shard.records, shard.data_bytes, shard.digests.crc) == (0, 0, "crc32c:00000000")
    assert list(tfrecord.scan(tmp_path / "s.tfrecord")) == []


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    write(tmp_path / "s.tfrecord", [b"abc"])
    with pytest.raises(FileExistsError):
        tfrecord.TFRecordWriter(tmp_path / "s.tfrecord")


def test_any_contiguous_buffer_is_a_payload(tmp_path: Path) -> None:
    pixels = np.arange(12, dtype=np.uint16).reshape(3, 4)
    shard = write(tmp_path / "s.tfrecord", [pixels])
    assert shard.length.tolist() == [24]
    assert bytes(next(tfrecord.scan(tmp_path / "s.tfrecord")).view[1:25]) == pixels.tobytes()


@pytest.mark.parametrize(
    ("name", "compress", "says"),
    [
        ("s.tfrecord", gzip.compress, "gzip"),
        ("s.tfrecord.gz", gzip.compress, "gzip"),
        ("a shard", gzip.compress, "gzip"),
        ("s.tfrecord", zlib.compress, "zlib"),
        ("s.tfrecord", partial(zlib.compress, level=1), "zlib"),
    ],
)
def test_the_command_for_a_compressed_file_decompresses_it(
    tmp_path: Path, name: str, compress: Callable[[bytes], bytes], says: str
) -> None:
    """``gunzip s.tfrecord`` ends with "unknown suffix -- ignored"."""
    write(tmp_path / "whole", [b"abc" * 50])
    whole = (tmp_path / "whole").read_bytes()
    (tmp_path / name).write_bytes(compress(whole))
    with pytest.raises(CorruptRecordError, match=f"compressed with {says}") as caught:
        next(tfrecord.scan(tmp_path / name))
    command = str(caught.value.hint).removeprefix("decompress it first: ").replace("python", sys.executable)
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    (made,) = tmp_path.glob("*-plain.tfrecord")
    assert made.read_bytes() == whole


def test_the_error_for_another_format_suggests_that(tmp_path: Path) -> None:
    path = tmp_path / "s.tfrecord"
    path.write_bytes(b'{"images": [], "annotations": [], "categories": []}')
    with pytest.raises(CorruptRecordError, match="no TFRecord"):
        next(tfrecord.scan(path))


def test_errors_name_shard_and_record(tmp_path: Path) -> None:
    path = tmp_path / "s.tfrecord"
    write(path, [b"abc", b"def"])
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    scan = tfrecord.scan(path)
    next(scan)
    with pytest.raises(CorruptRecordError, match="value's checksum") as caught:
        next(scan)
    assert (caught.value.shard, caught.value.record) == ("s.tfrecord", 1)


def test_a_full_disk_is_an_oserror_and_leaves_no_descriptor(
    tmp_path: Path, open_files: Callable[[], list[Path]]
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, hard))
    try:
        with pytest.raises(OSError, match="too large") as caught:
            write(tmp_path / "s.tfrecord", [bytes(1 << 20)] * 5)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.errno == errno.EFBIG
    assert open_files() == []
