"""The prefetcher, with producers that record its calls, and batches as named tuples."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from helpers.loaders import Groups, Numbers, started
from helpers.processes import wait_until

from stoker.pipeline.execution import passes as prefetch
from stoker.pipeline.execution import stats as stages
from stoker.pipeline.execution.stats import StatsTotals

Threads = Callable[[], list[threading.Thread]]


@pytest.fixture(autouse=True)
def threads(new_threads: Callable[[str], list[threading.Thread]]) -> Iterator[Threads]:
    """``threads()``: the running threads of the test's prefetchers; none may stay."""

    def threads() -> list[threading.Thread]:
        return new_threads("stoker-prefetch")

    yield threads
    wait_until(lambda: not threads())


@pytest.mark.parametrize("n", [0, 1, 7])
@pytest.mark.parametrize("depth", [1, 2, 10])
@pytest.mark.parametrize("limit", [1, 3])
def test_all_batches_come_in_order_and_end(n: int, depth: int, limit: int) -> None:
    producer = Numbers(n, limit)
    batches = started([producer], depth, StatsTotals())
    assert list(batches) == list(range(n))
    assert list(batches) == [], "an ended pass stays ended"
    assert producer.most_in_flight == min(n, depth, limit)


@pytest.mark.parametrize(("depth", "limit"), [(1, 1), (3, 2), (3, 9)])
def test_the_thread_works_depth_batches_ahead_and_no_further(depth: int, limit: int) -> None:
    producer = Numbers(100, limit)
    batches = started([producer], depth, StatsTotals())
    for received in range(5):
        wait_until(lambda expected=depth + received: producer.finished == expected)
        time.sleep(0.005)
        assert producer.started == depth + received
        assert next(batches) == received
    batches.close()


def test_closing_early_finishes_the_started_batches(threads: Threads) -> None:
    producer = Numbers(100, limit=4)
    batches = started([producer], 8, StatsTotals())
    next(batches)
    batches.close()
    assert producer.finished == producer.started, "the engine is left empty"
    assert not threads()
    batches.close()
    with pytest.raises(StopIteration):
        next(batches)


def test_dropping_the_prefetcher_stops_its_thread(threads: Threads) -> None:
    batches = started([Numbers(100)], 3, StatsTotals())
    next(batches)
    assert len(threads()) == 1
    del batches
    gc.collect()
    wait_until(lambda: not threads())


@pytest.mark.parametrize("where", ["bad_start", "bad_finish"])
@pytest.mark.parametrize("batch", [0, 3, 9])
@pytest.mark.parametrize("depth", [1, 4])
def test_an_exception_reaches_the_consumer_after_the_batches_before_it(
    where: str, batch: int, depth: int
) -> None:
    producer = Numbers(10, **{where: batch})
    batches = started([producer], depth, StatsTotals())
    received = []
    with pytest.raises(ZeroDivisionError, match=where.removeprefix("bad_")):
        received.extend(batches)
    assert received == list(range(len(received)))
    assert len(received) <= batch
    assert producer.finished == producer.started
    assert list(batches) == []


@pytest.mark.parametrize(("kind", "depth"), [(Numbers, 2), (Groups, 1)])
def test_batches_before_an_exception_are_handed_out(kind: type[Numbers], depth: int) -> None:
    batches = started([kind(10, bad_finish=4)], depth, StatsTotals())
    assert [next(batches) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(ZeroDivisionError):
        next(batches)


def test_batches_that_are_started_together_count_as_one_and_come_one_by_one() -> None:
    producer = Groups(8, limit=1)
    batches = started([producer], 2, StatsTotals())
    wait_until(lambda: batches.ready == 6)
    assert [next(batches), next(batches)] == [0, 1]
    assert (batches.ready, batches.handed_out, producer.started) == (4, 2, 6)
    assert next(batches) == 2, "the last of three frees their slot"
    wait_until(lambda: batches.ready == 5)
    assert list(batches) == [3, 4, 5, 6, 7]


def test_an_interrupt_during_the_start_leaves_no_thread(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        started([Numbers(100)], 3, StatsTotals())
    gc.collect()
    wait_until(lambda: not threads())


class TestTimes:
    """A clock that a test advances when the consumer or the producer is known to wait for the other."""

    @pytest.fixture
    def clock_reads(self, threads: Threads, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
        """How often the consumer and the producer have read the clock: before each wait, and after."""
        counts = {"consumer": 0, "producer": 0}

        def read_clock() -> float:
            now = self.now  # first: a thread that waits for the count then advances the clock
            counts["producer" if threading.current_thread() in threads() else "consumer"] += 1
            return now

        self.now = 0.0
        monkeypatch.setattr(prefetch, "perf_counter", read_clock)
        monkeypatch.setattr(stages, "perf_counter", read_clock)
        return counts

    def test_the_seconds_that_the_consumer_waits_are_counted(self, clock_reads: dict[str, int]) -> None:
        test = self

        class Slow(Numbers):
            def finish(self) -> int:
                wait_until(lambda: clock_reads["consumer"] > 2 * self.finished)
                test.now += 10.0
                return super().finish()

        totals = StatsTotals()
        assert list(started([Slow(3)], 1, totals)) == [0, 1, 2]
        assert (totals.waited, totals.worker.seconds["idle"]) == (30.0, 0.0)

    def test_the_seconds_that_the_producer_waits_are_counted(self, clock_reads: dict[str, int]) -> None:
        totals = StatsTotals()
        batches = started([Numbers(3, limit=1)], 1, totals)
        for number in range(3):
            wait_until(lambda expected=2 * number + 3: clock_reads["producer"] == expected)
            self.now += 10.0
            assert next(batches) == number
        wait_until(
            lambda: clock_reads["producer"] == 11
        )  # the end of the pass is ready and takes the only slot
        assert (totals.waited, totals.worker.seconds["idle"]) == (0.0, 30.0)
        batches.close()


class TestPasses:
    def test_the_next_pass_is_begun_while_batches_of_the_last_wait(self) -> None:
        producers = [Numbers(3), Numbers(5), Numbers(2)]
        batches = started(producers, 4, StatsTotals())
        assert next(batches) == 0
        wait_until(lambda: producers[1].finished == 1)  # four slots: two batches, an end, and this batch
        time.sleep(0.005)
        assert producers[1].started == 1
        assert [list(batches) for _ in producers] == [[1, 2], [0, 1, 2, 3, 4], [0, 1]]
        assert list(batches) == []

    def test_empty_passes_take_slots(self) -> None:
        asked = []

        def producers() -> Iterator[Numbers]:
            while True:
                asked.append(1)
                yield Numbers(0)

        batches = started(producers(), 3, StatsTotals())
        wait_until(lambda: len(asked) >= 3)
        time.sleep(0.005)
        assert len(asked) <= 4
        assert [list(batches) for _ in range(10)] == [[]] * 10
        batches.close()

    @pytest.mark.parametrize("where", ["bad_start", "bad_finish"])
    def test_an_error_of_the_next_pass_is_raised_in_the_next_pass(self, where: str) -> None:
        batches = started([Numbers(6), Numbers(6, **{where: 1})], 4, StatsTotals())
        assert list(batches) == list(range(6))
        assert next(batches) == 0
        with pytest.raises(ZeroDivisionError):
            next(batches)
        assert batches.closed

    def test_an_error_in_making_a_producer_belongs_to_its_pass(self) -> None:
        def producers() -> Iterator[Numbers]:
            yield Numbers(3)
            raise ZeroDivisionError

        batches = started(producers(), 4, StatsTotals())
        assert list(batches) == [0, 1, 2]
        with pytest.raises(ZeroDivisionError):
            next(batches)
