"""Loaders whose end was interrupted, that were dropped in any thread, or in which something failed."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import annotations as annotated_scenes
from helpers.loaders import load_rows
from helpers.processes import wait_until

from stoker.errors import EngineError, SampleError
from stoker.formats.remote.block_files import BlockFiles
from stoker.pipeline.caching.read_ahead import BlockRequests
from stoker.pipeline.execution import passes as prefetch
from stoker.pipeline.execution.pipeline import Producer
from stoker.pipeline.execution.threads import OneShotEvent
from stoker.pipeline.images.annotations import AnnotationProcessor

N = 61
Gate = tuple[threading.Event, threading.Event]
Producers = Callable[[], list[threading.Thread]]


@pytest.fixture(autouse=True)
def producers(new_threads: Callable[[str], list[threading.Thread]]) -> Iterator[Producers]:
    """``producers()``: the running threads of the test's prefetchers; none may stay."""

    def producers() -> list[threading.Thread]:
        return new_threads("stoker-prefetch")

    gc.collect()
    yield producers
    gc.collect()
    wait_until(lambda: not producers())


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Two events: the worker has begun to finish a batch, and it may go on. No option slows a worker down."""
    begun, allowed = threading.Event(), threading.Event()
    finish = Producer.finish

    def finish_when_allowed(producer: Producer) -> Any:
        begun.set()
        allowed.wait()
        return finish(producer)

    monkeypatch.setattr(Producer, "finish", finish_when_allowed)
    yield begun, allowed
    allowed.set()


def interrupted(event: OneShotEvent, timeout: float | None = None) -> bool:
    raise KeyboardInterrupt


def test_a_pass_waits_for_the_worker_of_a_dropped_pass(
    thumbnails: Path, gate: Gate, producers: Producers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers at once would take each other's batches out of the engine."""
    begun, allowed = gate
    monkeypatch.setattr(prefetch, "_PATIENCE", 0.0)  # else the end of the pass waits for the gate
    with load_rows(thumbnails) as loader:
        running = iter(loader)
        assert begun.wait(60)  # earlier, the worker would end at once
        del running
        assert len(producers()) == 1
        most = 0
        start = threading.Thread.start

        def counted(thread: threading.Thread) -> None:
            nonlocal most
            most = max(most, len(producers()))
            start(thread)

        threading.Timer(0.05, allowed.set).start()
        monkeypatch.setattr(threading.Thread, "start", counted)
        rows = [int(row) for batch in loader for row in batch.row]
    assert most == 0, "the old one had not ended"
    assert rows == list(range(N))


def test_closing_again_waits_after_an_interrupted_close(
    thumbnails: Path, gate: Gate, producers: Producers, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, allowed = gate
    loader = load_rows(thumbnails)
    running = iter(loader)
    begun.wait()
    with monkeypatch.context() as patch:
        patch.setattr(OneShotEvent, "wait", interrupted)  # a real signal would arrive at a random point
        with pytest.raises(KeyboardInterrupt):
            loader.close()
    threading.Timer(0.05, allowed.set).start()
    loader.close()
    assert not producers()
    del running


def test_a_thread_that_the_worker_waits_for_can_drop_the_loader(
    thumbnails: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The garbage collector may run in a thread that holds a lock which the worker needs."""
    begun, allowed = gate
    monkeypatch.setattr(prefetch, "_PATIENCE", 0.05)  # the default is seconds
    held = [iter(load_rows(thumbnails))]
    begun.wait()

    def drop() -> None:
        held.clear()
        allowed.set()

    thread = threading.Thread(target=drop, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def test_an_error_does_not_keep_its_loader_alive(
    pack_images: Callable[..., Path], make_jpeg: Callable[..., bytes]
) -> None:
    folder = pack_images([make_jpeg(i) for i in range(6)], crc=np.zeros(6, np.uint32))
    gc.collect()
    gc.disable()
    try:
        loader = load_rows(folder)
        gone = weakref.ref(loader)
        with contextlib.suppress(SampleError):
            next(iter(loader))
        del loader
        wait_until(lambda: gone() is None)  # the loader's thread can hold it for a moment
    finally:
        gc.enable()


def test_a_loader_that_is_dropped_in_mid_pass_frees_its_engine(thumbnails: Path) -> None:
    """Its memory and threads belong to the engine, which the public loader does not hand out."""
    gc.collect()
    gc.disable()
    try:
        loader = load_rows(thumbnails)
        engine = weakref.ref(loader.pipeline.engine)
        next(iter(loader))
        del loader
        wait_until(lambda: engine() is None)
    finally:
        gc.enable()


def test_an_error_in_annotations_leaves_the_engine_empty(
    pack_images: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the next pass would get images of this batch with rows of another one.

    No damaged dataset leads to an unexpected error, so the test makes one.
    """

    def fails(*_: Any) -> Any:
        raise ZeroDivisionError

    with annotated_scenes.load(annotated_scenes.write_annotated(pack_images), batch_size=2) as loader:
        good = [batch.image for batch in loader]
        loader.set_epoch(0)
        monkeypatch.setattr(AnnotationProcessor, "start", fails)
        with pytest.raises(ZeroDivisionError):
            list(loader)
        monkeypatch.undo()
        loader.set_epoch(0)
        for batch, expected in zip(loader, good, strict=True):
            assert np.array_equal(batch.image, expected)


def test_any_error_at_the_start_of_a_batch_reaches_the_consumer(
    squares: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its start runs on a thread of the engine, where an unexpected error would be lost."""
    with load_rows(squares) as loader:

        def fails(batch: Any) -> Any:
            raise TypeError("of all errors")

        # No dataset leads to an error that Stoker does not expect.
        monkeypatch.setattr(loader.pipeline.engine, "_start", fails)
        with pytest.raises(EngineError, match="of all errors"):
            next(iter(loader))


def test_a_thread_that_holds_the_locks_of_a_cache_can_close_it(tmp_path: Path) -> None:
    """The garbage collector may close a cache in a thread that is inside it."""
    files = BlockFiles(tmp_path, ["data"], [1 << 20])
    requests = BlockRequests(files, lambda file, begin, end: bytes(end - begin), 2, threading.Event())
    blocks = np.arange(2)
    files.pin(blocks)

    def end() -> None:
        with requests._guard, files._guard:
            files.unpin(blocks)
            requests.close()
            files.close()

    thread = threading.Thread(target=end, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
