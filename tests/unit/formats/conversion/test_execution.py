"""Executing a plan: the effects of a finished shard, an error or an interrupt on the other shards."""

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from helpers.datasets import plan_images
from helpers.options import convert
from helpers.processes import full_disk
from hypothesis import given
from hypothesis import strategies as st

import stoker
from stoker.formats.conversion.execution import ProgressCounter, make_on_ray, make_on_threads
from stoker.formats.conversion.options import ConvertOptions
from stoker.formats.conversion.plan import ConversionPlan
from stoker.formats.conversion.shard import Cancelled, ShardContext, ShardResult, chunk_rows, write_shard
from stoker.formats.sources.class_folder import list_folder
from stoker.formats.sources.source import Source

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


@pytest.fixture
def plan(photos: Path) -> ConversionPlan:
    return plan_images(list_folder(Source(photos)), ConvertOptions(shards=10))


def run(plan: ConversionPlan, make: Any, maker: Any, report: Callable[..., None] | None = None) -> None:
    make(plan, maker, range(10), ProgressCounter(plan, range(10), report), 1)


class Endless:
    """A shard maker whose shards end only when they are stopped."""

    def __init__(self) -> None:
        self.started = threading.Semaphore(0)
        self.stopped: list[bool] = []

    def __call__(self, plan: ConversionPlan, number: int, context: ShardContext | None) -> ShardResult:
        assert context is not None
        self.started.release()
        self.stopped.append(context.stop.wait(60))
        raise Cancelled


def test_an_interrupt_stops_running_shards_and_starts_no_more(plan: ConversionPlan) -> None:
    maker = Endless()

    def interrupt(*_: object) -> None:
        for _ in range(2):  # one worker makes two shards at once
            assert maker.started.acquire(timeout=60)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(plan, make_on_threads, maker, interrupt)
    assert maker.stopped == [True, True]


def test_an_interrupt_while_shards_are_submitted_to_ray_cancels_them(
    plan: ConversionPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = MagicMock()
    cluster.remote.return_value.return_value.remote.side_effect = ["first", "second", KeyboardInterrupt]
    monkeypatch.setitem(sys.modules, "ray", cluster)
    with pytest.raises(KeyboardInterrupt):
        run(plan, make_on_ray, partial(write_shard, Path()))
    assert [call.args for call in cluster.cancel.call_args_list] == [("first",), ("second",)]


def test_a_shard_that_is_stopped_leaves_no_file(plan: ConversionPlan, tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    (tmp_path / "state").mkdir()
    with pytest.raises(Cancelled):
        write_shard(tmp_path / "state", plan, 0, ShardContext(stop=stop))
    assert list((tmp_path / "state").iterdir()) == []


def test_the_first_error_is_raised_not_the_cancellation(plan: ConversionPlan) -> None:
    def make(plan: ConversionPlan, number: int, context: ShardContext | None) -> ShardResult:
        assert context is not None
        if number:
            context.stop.wait(60)
            raise Cancelled
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        run(plan, make_on_threads, make)


def test_an_interrupt_while_shards_are_submitted_stops_running_ones(
    plan: ConversionPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = ThreadPoolExecutor.submit
    maker = Endless()

    def interrupted(executor: ThreadPoolExecutor, *task: Any, **options: Any) -> Future[Any]:
        future = submit(executor, *task, **options)
        if maker.started.acquire(timeout=60):
            raise KeyboardInterrupt
        return future

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(plan, make_on_threads, maker)
    assert maker.stopped == [True]


def test_progress_counts_shards_of_an_earlier_run(photos: Path, tmp_path: Path) -> None:
    with full_disk(8), pytest.raises(stoker.errors.WriteError):
        convert(photos, tmp_path / "out", shards=10)
    finished = [int(file.stem) for file in tmp_path.glob("out/.stoker-convert/0*.json")]
    assert len(finished) == 8
    seen: list[tuple[int, int, int, str]] = []
    summary = convert(photos, tmp_path / "out", progress=lambda *state: seen.append(state), shards=10)
    assert seen[0] == (0, 0, 0, "listing")
    sizes = [file.stat().st_size for file in sorted(photos.glob("*/*.jpg"))]
    assert min(seen[1:]) >= (24, 30, sum(sum(sizes[3 * shard : 3 * shard + 3]) for shard in finished), "")
    assert seen[-1] == (30, 30, sum(sizes), "publishing")
    assert summary.written == 30
    assert round(summary.images_per_second * summary.seconds) == 6


@given(st.lists(st.integers(0, 1 << 21), max_size=40), st.integers(1, 9))
def test_chunks_cover_all_rows_within_the_limits_of_rows_and_bytes(sizes: list[int], most: int) -> None:
    chunks = list(chunk_rows(np.array(sizes, np.int64), most))
    assert [size for chunk in chunks for size in sizes[chunk]] == sizes
    for chunk in chunks:
        assert 1 <= len(sizes[chunk]) <= most
        assert len(sizes[chunk]) == 1 or sum(sizes[chunk]) <= 1 << 20
