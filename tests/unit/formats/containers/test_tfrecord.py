"""Tests of TFRecord: masked checksums, DALI's index, and the errors about other files."""

import gzip
import shlex
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from stoker._native import crc32c
from stoker.errors import CorruptRecordError
from stoker.formats.containers import tfrecord


def write(path: Path, values: list[bytes]) -> tfrecord.WrittenShard:
    with tfrecord.TFRecordWriter(path) as writer:
        for value in values:
            writer.write(b"", b"<", value, b">>")
        return writer.finish()


def test_a_checksum_is_masked_as_tensorflow_masks_it() -> None:
    # Computed with tf.io.TFRecordWriter: the length 3, little-endian, and the value b"abc".
    assert tfrecord.masked_crc(crc32c(struct.pack("<Q", 3))) == 0x0E4999B0
    assert tfrecord.masked_crc(crc32c(b"abc")) == 0x21F1576E


def test_the_dali_index_has_first_byte_and_bytes_of_each_record(tmp_path: Path) -> None:
    write(tmp_path / "s.tfrecord", [b"abc", b"defgh"])
    # A record is 16 bytes longer than its value, which has three bytes more than the payload here.
    assert (tmp_path / "s.idx").read_text() == "0 22\n22 24\n"


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
    command = str(caught.value.hint).removeprefix("Decompress it first: ").replace("python", sys.executable)
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    made = tmp_path / shlex.split(command)[-1]
    assert made.read_bytes() == whole


def test_a_file_of_another_format_is_refused_as_no_tfrecord(tmp_path: Path) -> None:
    path = tmp_path / "s.tfrecord"
    path.write_bytes(b'{"images": [], "annotations": [], "categories": []}')
    with pytest.raises(CorruptRecordError, match="not a TFRecord"):
        next(tfrecord.scan(path))


def test_an_error_names_shard_and_record(tmp_path: Path) -> None:
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
