"""Fetching for a cache that ends at any moment: by Ctrl-C, by the garbage collector, in a fork."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.loaders import BLOCKS, block_files, read_ahead_over
from helpers.processes import interrupted_everywhere

import stoker
from stoker.errors import EngineError, StorageError, WriteError
from stoker.formats.remote.block_files import BlockFiles
from stoker.pipeline.caching import read_ahead as cache_prefetcher
from stoker.pipeline.caching.read_ahead import BlockRequests, CachedEpoch
from stoker.pipeline.execution.threads import OneShotEvent, WorkerThread

# An interrupt inside a finaliser is reported, and otherwise ignored, by Python.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def files(tmp_path: Path) -> BlockFiles:
    return block_files(tmp_path)


def zeros(file: int, start: int, stop: int) -> bytes:
    return bytes(stop - start)


def test_a_read_ahead_ends_after_its_end_was_interrupted(files: BlockFiles) -> None:
    """A lock left taken would make its thread wait for ever, and the interpreter for the thread."""

    def make() -> tuple[Callable[[], None], Callable[[], None]]:
        read_ahead = read_ahead_over(files, SimpleNamespace(request=lambda blocks: {}, coming_bytes=0))
        return read_ahead.end, read_ahead.run

    interrupted_everywhere(make)


def test_an_interrupted_end_of_a_pass_is_completed_by_the_next_close(
    files: BlockFiles, monkeypatch: pytest.MonkeyPatch, new_threads: Callable[[str], list[threading.Thread]]
) -> None:
    read_ahead = read_ahead_over(files, SimpleNamespace(request=lambda blocks: {}, coming_bytes=0))
    begun = CachedEpoch([read_ahead])
    begun.start()
    end = WorkerThread.end

    def interrupted(worker: WorkerThread, seconds: float | None = None) -> None:
        raise KeyboardInterrupt

    # A real signal would arrive at a random point.
    monkeypatch.setattr(WorkerThread, "end", interrupted)
    with pytest.raises(KeyboardInterrupt):
        begun.close()
    monkeypatch.setattr(WorkerThread, "end", end)
    monkeypatch.setattr(cache_prefetcher, "_PATIENCE", 60)  # for a busy machine
    begun.close()
    assert not new_threads("stoker-")
    begun.close()


def test_an_unwanted_request_is_not_begun(files: BlockFiles) -> None:
    """Its read-ahead has dropped it, or all requests are closed."""
    begun, allowed, stop = threading.Event(), threading.Event(), OneShotEvent()
    read: list[int] = []

    def read_when_allowed(file: int, start: int, end: int) -> bytes:
        begun.set()
        allowed.wait()
        read.append(start // 4096)
        return zeros(file, start, end)

    requests = BlockRequests(files, read_when_allowed, 1, stop)
    first, second, third = (requests.request(np.array([block]))[block] for block in (0, 1, 2))
    assert begun.wait(60)
    second.is_wanted = False
    allowed.set()
    assert (first.result(60), third.result(60)) == (4096, 4096)
    assert second.cancelled()
    begun.clear()
    allowed.clear()
    fourth, last = (requests.request(np.array([block]))[block] for block in (1, 3))
    assert begun.wait(60)
    requests.close()
    allowed.set()
    assert fourth.result(60) == 4096
    with pytest.raises(CancelledError):
        last.result(60)
    assert read == [0, 2, 1]


def test_a_request_that_fails_leaves_no_block_pinned(files: BlockFiles) -> None:
    def fails(blocks: object) -> None:
        raise StorageError("no connection")

    read_ahead = read_ahead_over(files, SimpleNamespace(request=fails, coming_bytes=0))
    read_ahead.run()
    with pytest.raises(StorageError, match="no connection"):
        read_ahead.wait()
    files.fill(0, 4, zeros)
    assert files.evict(1 << 30, np.zeros(4, np.int64)) == 4 * 4096


def test_threads_that_could_not_be_started_are_started_later(
    files: BlockFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = BlockRequests(files, zeros, 3, OneShotEvent())
    start, left = threading.Thread.start, 1

    def limited(thread: threading.Thread) -> None:
        nonlocal left
        if not left:
            raise RuntimeError("can't start new thread")
        left -= 1
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    for number in (0, 1):
        left = number
        with pytest.raises(EngineError, match="allows this process no more threads"):
            requests.request(BLOCKS)
    left = 2
    coming = requests.request(BLOCKS)
    assert sorted(coming) == BLOCKS.tolist()
    assert sum(future.result(60) for future in set(coming.values())) == 4 * 4096
    requests.close()


def test_a_cache_that_is_removed_while_it_is_used_is_an_error(thumbnails: Path, tmp_path: Path) -> None:
    opened = stoker.open(thumbnails, cache=tmp_path / "cache")
    opened.read(0)
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(WriteError, match="was removed while a loader used it") as error:
        opened.read(0)
    assert "Open the dataset and load it again" in str(error.value.hint)
