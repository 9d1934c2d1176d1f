"""Statistics and the verdict."""

from __future__ import annotations

import pytest

from stoker.pipeline.execution import stats
from stoker.pipeline.execution.batch import Finished
from stoker.pipeline.execution.stats import Clock


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    time = [100.0]
    monkeypatch.setattr(stats, "perf_counter", lambda: time[0])
    return time


def test_nothing_yet() -> None:
    result = Clock().stats()
    assert (result.samples, result.seconds, result.samples_per_second, result.waited_share) == (0, 0, 0, 0)
    assert result.verdict == "Nothing has been loaded yet."


def test_rates_are_over_the_time_since_the_first_pass(now: list[float]) -> None:
    clock = Clock()
    clock.begin()
    now[0] += 5
    clock.begin()
    clock.samples, clock.batches, clock.waited = 100, 10, 2.5
    now[0] += 5
    result = clock.stats()
    assert result.seconds == 10
    assert result.samples_per_second == 10
    assert result.waited_share == 0.25
    clock.waited = 10.1  # of two threads that share a pass
    assert clock.stats().waited_share == 1


def test_bad_keys_are_bounded_and_counts_are_not() -> None:
    clock = Clock()
    for i in range(0, 1500, 3):
        clock.receive(Finished(([1, 2],), 2, skipped=3, bad_keys=tuple(f"k{i + k}" for k in range(3))))
    result = clock.stats()
    assert (result.skipped, result.batches, result.samples) == (1500, 500, 1000)
    assert result.bad_keys == tuple(f"k{i}" for i in range(1000))


@pytest.mark.parametrize(
    ("waited", "busy", "words"),
    [
        (0.4, "executing", "The step is the limit: the loop waited for data 4.0% of the time."),
        (5.0, "planning", "larger batches"),
        (5.0, "executing", "more threads"),
        (5.0, "fetching", "stoker stage"),
        (5.0, "handing_over", "smaller dtype"),
    ],
)
def test_verdict(now: list[float], waited: float, busy: str, words: str) -> None:
    clock = Clock()
    clock.begin()
    now[0] += 10
    clock.batches, clock.waited = 1, waited
    clock.idle = 9.0
    setattr(clock, busy, 4.0)
    assert ("fetching" in clock.stats().producer) is (busy == "fetching")
    verdict = clock.stats().verdict
    assert words in verdict
    if waited > 1:
        assert verdict.startswith("The loader is the limit: the loop waited 50% of the time.")
