"""Files that are cached in part: blocks, pins, eviction."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from helpers.loaders import BLOCK, SIZES, Reader, array, make

from stoker.errors import ConfigError, StorageError
from stoker.formats.remote import block_files
from stoker.formats.remote.block_files import BlockFiles, punch_hole
from stoker.pipeline.caching.read_ahead import BlockRequests


def test_one_numbering_covers_the_blocks_and_runs_of_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = make(tmp_path / "cache")
    assert files.first.tolist() == [0, 3, 3, 4, 6]
    assert [path.stat().st_size for path in files.paths] == SIZES
    assert files.of_file(3).tolist() == [4, 5]
    covering = files.covering(array(0, 0, 3), array(4000, 9999, 4096), array(200, 1, 1))
    assert covering.tolist() == [0, 1, 2, 5]
    assert files.covering(array(0, 2), array(0, 0), array(BLOCK, BLOCK)).tolist() == [0, 3]
    assert files.covering(array(), array(), array()).tolist() == []
    everything = np.arange(6)
    assert files.runs(everything) == [(0, 3), (3, 4), (4, 6)]
    assert files.runs(array(0, 2, 5)) == [(0, 1), (2, 3), (5, 6)]
    assert files.runs(array()) == []
    monkeypatch.setattr(block_files, "_REQUEST_BYTES", 2 * BLOCK)
    assert files.runs(everything) == [(0, 2), (2, 3), (3, 4), (4, 6)]
    monkeypatch.setattr(block_files, "_REQUEST_BYTES", 1)
    assert files.runs(everything) == [(i, i + 1) for i in range(6)]


def test_filling_fetches_missing_blocks_unless_asked_again(tmp_path: Path, contents: list[bytes]) -> None:
    files, reader = make(tmp_path), Reader(contents)
    assert files.fill(1, 2, reader) == BLOCK
    assert files.missing(np.arange(6)).tolist() == [0, 2, 3, 4, 5]
    assert files.fill(0, 3, reader) == 10_000 - BLOCK
    assert reader.asked == [(0, 4096, 8192), (0, 0, 4096), (0, 8192, 10_000)]
    assert files.paths[0].read_bytes() == contents[0]
    assert files.fill(0, 3, reader) == 0
    assert files.fill(0, 3, reader, again=True) == 10_000
    files.forget(0)
    assert files.missing(files.of_file(0)).tolist() == [0, 1, 2]


def test_blocks_stay_present_when_the_files_are_opened_again_unless_a_size_differs(
    tmp_path: Path, contents: list[bytes]
) -> None:
    first = make(tmp_path)
    first.fill(4, 6, Reader(contents))
    first.close()
    (tmp_path / "f0").write_bytes(b"other" * 100)
    again = make(tmp_path)
    assert again.missing(np.arange(6)).tolist() == [0, 1, 2, 3]
    assert again.paths[0].read_bytes() == bytes(SIZES[0])


@pytest.mark.usefixtures("every_event")
def test_the_least_recently_used_block_is_evicted(
    tmp_path: Path, contents: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "stoker.cache")
    files, reader = make(tmp_path), Reader(contents)
    for low, high in files.runs(np.arange(6)):
        files.fill(low, high, reader)
    assert files.present_bytes == 6 * BLOCK
    last_use = array(5, 1, 4, 0, 3, 2)
    files.pin(array(1))
    assert files.evict(2 * BLOCK, last_use) == 2 * BLOCK
    assert caplog.messages == [f"{files.folder}: evicted {2 * BLOCK:,} of {2 * BLOCK:,} bytes"]
    assert files.missing(np.arange(6)).tolist() == [3, 5]
    assert files.paths[2].read_bytes() == bytes(4096)
    assert files.paths[3].stat().st_size == 4097
    assert files.evict(100 * BLOCK, last_use) == 3 * BLOCK
    assert files.missing(np.arange(6)).tolist() == [0, 2, 3, 4, 5]
    files.unpin(array(1))
    assert files.evict(1, last_use) == BLOCK


def test_an_interrupt_while_a_block_is_evicted_leaves_no_lock(
    tmp_path: Path, contents: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, other_reader = make(tmp_path), make(tmp_path)
    files.fill(0, 1, Reader(contents))
    with monkeypatch.context() as patch:
        patch.setattr("ctypes.CDLL", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            files.evict(BLOCK, np.zeros(6, np.int64))
    other_reader.fill(0, 1, Reader(contents))
    assert other_reader.evict(BLOCK, np.zeros(6, np.int64)) == BLOCK


def test_pins_of_another_process_are_respected(tmp_path: Path, contents: list[bytes]) -> None:
    files = make(tmp_path)
    files.fill(0, 3, Reader(contents))
    code = f"""
import sys, numpy as np
from functools import partial
from pathlib import Path
from stoker.formats.remote.block_files import BlockFiles
files = BlockFiles(Path(sys.argv[1]), ["f0", "f1", "f2", "f3"], {SIZES}, {BLOCK})
files.pin(np.array([0, 2]))
print(files.evict(100, np.zeros(6, np.int64)), flush=True)  # block 1 alone is free
sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == BLOCK
        assert files.evict(100 * BLOCK, np.zeros(6, np.int64)) == 0
        process.kill()
    assert files.evict(100 * BLOCK, np.zeros(6, np.int64)) == 2 * BLOCK


def test_blocks_that_another_reader_is_fetching_are_waited_for_and_not_fetched_again(
    tmp_path: Path, contents: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, reader = make(tmp_path), make(tmp_path), Reader(contents)
    thread = threading.Thread(target=second.fill, args=(0, 3, reader))
    waits, sleep = threading.Event(), time.sleep

    def sleep_noted(seconds: float) -> None:
        waits.set()
        sleep(seconds)

    def read(file: int, start: int, stop: int) -> bytes:
        thread.start()
        assert waits.wait(60)
        return contents[file][start:stop]

    monkeypatch.setattr(time, "sleep", sleep_noted)
    assert first.fill(0, 3, read) == SIZES[0]
    thread.join()
    assert reader.asked == []


def test_the_largest_limit_of_all_open_readers_holds(tmp_path: Path) -> None:
    readers = [make(tmp_path) for _ in range(3)]
    for reader, blocks in zip(readers, (2, 5, 4), strict=True):
        reader.claim(blocks * BLOCK)
    assert [reader.largest_limit for reader in readers] == [5 * BLOCK] * 3
    readers[1].close()
    assert [readers[i].largest_limit for i in (0, 2)] == [4 * BLOCK] * 2
    unlimited = make(tmp_path)
    unlimited.claim(None)
    assert [reader.largest_limit for reader in (readers[0], unlimited)] == [None, None]
    unlimited.close()
    readers[2].close()
    assert readers[0].largest_limit == 2 * BLOCK


def test_a_block_is_protected_until_each_pin_of_a_reader_is_undone(
    tmp_path: Path, contents: list[bytes]
) -> None:
    first, second = make(tmp_path), make(tmp_path)
    first.fill(0, 3, Reader(contents))
    for _ in range(2):
        first.pin(array(0, 1, 2))
    first.unpin(array(0, 1))
    for files in (first, second):
        assert files.evict(100 * BLOCK, np.zeros(6, np.int64)) == 0
    first.unpin(array(0, 1))
    assert second.evict(100 * BLOCK, np.zeros(6, np.int64)) == 2 * BLOCK
    assert first.missing(array(0, 1, 2)).tolist() == [0, 1]


def test_a_block_is_requested_once_while_its_request_is_in_flight(
    tmp_path: Path, contents: list[bytes]
) -> None:
    files = make(tmp_path)
    reader, may_answer = Reader(contents), threading.Event()

    def read(file: int, start: int, stop: int) -> bytes:
        may_answer.wait()
        return reader(file, start, stop)

    requests = BlockRequests(files, read, 2, threading.Event())
    first = requests.request(array(0, 1))
    second = requests.request(np.arange(6))
    assert second[0] is first[0] is second[1]
    assert len(set(second.values())) == 4
    may_answer.set()
    assert sorted(future.result() for future in set(second.values())) == [1808, 4096, 4097, 8192]
    assert requests.request(np.arange(6)) == {}
    assert len(reader.asked) == 4
    requests.close()


def test_a_request_that_failed_is_made_again(tmp_path: Path, contents: list[bytes]) -> None:
    files = make(tmp_path)
    reader, failures = Reader(contents), [StorageError("gone")]

    def read(file: int, start: int, stop: int) -> bytes:
        if failures:
            raise failures.pop()
        return reader(file, start, stop)

    requests = BlockRequests(files, read, 1, threading.Event())
    with pytest.raises(StorageError, match="gone"):
        requests.request(array(0))[0].result()
    assert requests.request(array(0))[0].result() == BLOCK
    assert reader.asked == [(0, 0, 4096)]
    requests.close()


def test_a_thread_without_work_holds_no_error(tmp_path: Path, contents: list[bytes]) -> None:
    class HeldError(StorageError):
        """An object that weak references can refer to."""

    def fail(file: int, start: int, stop: int) -> bytes:
        raise HeldError("gone")

    requests = BlockRequests(make(tmp_path), fail, 1, threading.Event())
    with pytest.raises(HeldError) as caught:
        requests.request(array(0))[0].result()
    held = weakref.ref(caught.value)
    del caught
    gc.collect()
    deadline = time.monotonic() + 60
    while held() is not None and time.monotonic() < deadline:
        time.sleep(0.001)
        gc.collect()
    assert held() is None
    requests.close()


def test_what_an_operating_system_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache needs the locks of Linux, and a cache with a size a call that frees a part of a file."""
    files, path = make(tmp_path), tmp_path / "file"
    path.write_bytes(b"data")
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())
    with pytest.raises(ConfigError, match="this operating system cannot free parts of a file"):
        punch_hole(path, 0, 4)
    assert path.read_bytes() == b"data"
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ConfigError, match="needs the locks of Linux"):
        files.claim(None)


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


@pytest.mark.parametrize("can_free", [True, False])
def test_a_disk_that_stays_full_is_an_error_and_the_block_stays_missing(
    tmp_path: Path, contents: list[bytes], monkeypatch: pytest.MonkeyPatch, can_free: bool
) -> None:
    files = make(tmp_path)
    monkeypatch.setattr(os, "pwrite", SmallDisk(files, 3).pwrite)
    files.fill(0, 3, Reader(contents))
    files.pin(array(0, 1, 2))
    refuse = Mock(side_effect=ConfigError("this file system cannot free parts of a file"))
    evict = partial(files.evict, last_use=np.zeros(6, np.int64))
    with pytest.raises(OSError, match="No space left"):
        files.fill(3, 4, Reader(contents), make_room=evict if can_free else refuse)
    assert files.missing(np.arange(6)).tolist() == [3, 4, 5]
