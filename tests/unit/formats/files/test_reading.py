"""Tests of guarded reading."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker._native import crc32c
from stoker.formats.files.reading import file_digest, open_regular, read_at


def test_the_digest_of_a_file_is_its_crc32c(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"123456789")
    assert file_digest(path) == "crc32c:e3069283"  # the check value of RFC 3720's polynomial


def test_the_digest_of_a_file_of_several_blocks_is_that_of_all_bytes(tmp_path: Path) -> None:
    path = tmp_path / "f"
    content = bytes(9 << 20) + b"123456789"
    path.write_bytes(content)
    assert file_digest(path) == f"crc32c:{crc32c(content):08x}"


def test_a_read_ends_at_the_end_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"abcdef")
    with open_regular(path) as (descriptor, size):
        assert size == 6
        assert read_at(descriptor, 2, 3) == b"cde"
        assert read_at(descriptor, 4, 10) == b"ef"
        assert read_at(descriptor, 9, 1) == b""


def test_short_reads_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"abcdef")
    pread = os.pread
    monkeypatch.setattr(
        os, "pread", lambda descriptor, length, offset: pread(descriptor, min(length, 2), offset)
    )
    with open_regular(path) as (descriptor, _):
        assert read_at(descriptor, 0, 6) == b"abcdef"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_fifo_or_a_folder_is_refused_without_blocking(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "f"
    make(path)
    with pytest.raises(OSError, match=r"not a regular file|Is a directory"), open_regular(path):
        pass


def test_a_file_is_closed_after_the_block_and_after_an_error(
    tmp_path: Path, open_files: Callable[[], list[Path]]
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"")
    with open_regular(path):
        assert open_files() == [path]
    with pytest.raises(ZeroDivisionError), open_regular(path):
        raise ZeroDivisionError
    assert open_files() == []
