"""Cached blocks on a disk that is full or fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from helpers.loaders.cached_blocks import BLOCK, SIZES, Reader, array, make

from stoker.errors import ConfigError
from stoker.formats.caching.block_files import BlockFiles


def test_a_block_that_cannot_be_written_stays_missing(
    tmp_path: Path, contents: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    files = make(tmp_path)
    monkeypatch.setattr(os, "pwrite", fail)
    with pytest.raises(OSError, match="No space"):
        files.fill(0, 3, Reader(contents))
    assert files.missing(files.of_file(0)).tolist() == [0, 1, 2]


def test_a_system_call_that_writes_only_a_part_of_a_block_is_repeated(
    tmp_path: Path, contents: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, pwrite = make(tmp_path), os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, offset: pwrite(file, data[:1000], offset))
    assert files.fill(0, 3, Reader(contents)) == SIZES[0]
    assert files.paths[0].read_bytes() == contents[0]


class SmallDisk:
    """A disk with room for some blocks of ``files``."""

    def __init__(self, files: BlockFiles, blocks: int) -> None:
        self._files, self._size, self._pwrite = files, blocks * BLOCK, os.pwrite

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        if self._files.present_bytes + len(data) > self._size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._pwrite(descriptor, data, offset)


def test_a_full_disk_evicts_other_blocks(
    tmp_path: Path, contents: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = make(tmp_path)
    monkeypatch.setattr(os, "pwrite", SmallDisk(files, 3).pwrite)
    files.fill(0, 3, Reader(contents))
    files.pin(array(0))
    last_use = array(0, 9, 1, 0, 0, 0)
    files.fill(3, 4, Reader(contents), make_room=lambda size: files.evict(size, last_use))
    assert files.missing(np.arange(6)).tolist() == [2, 4, 5]
    assert files.paths[2].read_bytes() == contents[2]


def test_a_disk_that_is_full_of_blocks_in_use_is_an_error(
    tmp_path: Path, contents: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = make(tmp_path)
    monkeypatch.setattr(os, "pwrite", SmallDisk(files, 3).pwrite)
    files.fill(0, 3, Reader(contents))
    files.pin(array(0, 1, 2))
    with pytest.raises(OSError, match="No space left"):
        files.fill(3, 4, Reader(contents), make_room=lambda size: files.evict(size, np.zeros(6, np.int64)))


def test_a_full_disk_whose_file_system_cannot_free_parts_is_an_error_of_the_disk(
    tmp_path: Path, contents: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = make(tmp_path)
    monkeypatch.setattr(os, "pwrite", SmallDisk(files, 0).pwrite)
    with pytest.raises(OSError, match="No space left"):
        files.fill(3, 4, Reader(contents), make_room=Mock(side_effect=ConfigError("cannot free")))
