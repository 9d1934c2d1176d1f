"""Statistics of a loader, and the verdict on them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.pipeline.execution.pipeline import FinishedBatch
from stoker.pipeline.execution.stats import MakerStats, StatsTotals, Traffic


def test_statistics_before_the_first_pass_are_zero() -> None:
    result = StatsTotals().stats()
    assert (result.samples, result.seconds, result.samples_per_second, result.waited_share) == (0, 0, 0, 0)
    assert result.verdict == "Nothing has been loaded yet."


def test_rates_are_over_the_time_since_the_first_pass(now: list[float]) -> None:
    totals = StatsTotals()
    totals.begin()
    now[0] += 5
    totals.begin()
    totals.samples, totals.batches, totals.waited = 100, 10, 2.5
    now[0] += 5
    result = totals.stats()
    assert result.seconds == 10
    assert result.samples_per_second == 10
    assert result.waited_share == 0.25
    totals.waited = 10.1  # two threads that share a pass can wait at once
    assert totals.stats().waited_share == 1


def test_bad_keys_are_bounded_and_counts_are_not() -> None:
    totals = StatsTotals()
    for i in range(0, 1500, 3):
        totals.receive(FinishedBatch(([1, 2],), 2, skipped=3, bad_keys=tuple(f"k{i + k}" for k in range(3))))
    result = totals.stats()
    assert (result.skipped, result.batches, result.samples) == (1500, 500, 1000)
    assert result.bad_keys == tuple(f"k{i}" for i in range(1000))


@pytest.mark.parametrize(
    ("waited", "busy", "words"),
    [
        (0.4, "executing", "The step is the limit: the loop waited 4.0% of the time for data."),
        (5.0, "planning", "larger batches"),
        (5.0, "executing", "more threads"),
        (5.0, "fetching", "stoker stage"),
        (5.0, "handing over", "fewer columns"),
        (5.0, "copying", "smaller dtype"),
    ],
)
def test_the_verdict_names_the_limit_and_a_cure(
    now: list[float], waited: float, busy: str, words: str
) -> None:
    totals = StatsTotals()
    totals.begin()
    now[0] += 10
    totals.batches, totals.waited = 1, waited
    totals.worker.seconds = {"idle": 9.0, busy: 4.0}
    assert ("fetching" in totals.stats().producer) is (busy == "fetching")
    verdict = totals.stats().verdict
    assert words in verdict
    if waited > 1:
        assert verdict.startswith("The loader is the limit: the loop waited 50% of the time for data.")


def test_a_short_run_is_not_called_slow_because_of_its_start(now: list[float]) -> None:
    totals = StatsTotals()
    totals.begin()
    finished = FinishedBatch(([1, 2],), 2)

    def batch(waited: float) -> None:
        now[0] += waited
        totals.wait(now[0] - waited, now[0])
        totals.receive(finished)

    batch(5.0)
    assert totals.stats().verdict.startswith("One batch of data alone does not show")
    now[0] += 1
    batch(0.25)
    now[0] += 8.75
    result = totals.stats()
    assert (result.waited, result.waited_share) == (5.25, 0.35)
    assert result.verdict.startswith("The step is the limit: the loop waited 2.5% of the time")
    totals.begin()
    batch(7.0)
    now[0] += 3
    assert "the loop waited 70% of the time" in totals.stats("pass").verdict, "a later wait counts"


@pytest.mark.parametrize(
    ("engine", "slow_steps", "custom_steps", "words"),
    [
        ("native", (), ("Scratch",), "Reading, decoding and the step Scratch in Python take the time: use"),
        ("native", (), (), "(engine 'native'). Reading, decoding and augmentation take the time: use more"),
        ("reference", (), (), "The slow engine 'reference' takes the time: leave out engine='reference'."),
        (
            "reference",
            ("Blot", "Scratch"),
            (),
            "The slow engine 'reference' runs all transforms, because only it executes the steps Blot and "
            "Scratch before another step: move them after all other steps, or write them as",
        ),
    ],
)
def test_the_verdict_names_the_engine_and_the_steps_that_cost(
    now: list[float], engine: str, slow_steps: tuple[str, ...], custom_steps: tuple[str, ...], words: str
) -> None:
    """It advised more threads where one step had moved all images to the slow engine."""
    totals = StatsTotals(engine=engine, slow_steps=slow_steps, custom_steps=custom_steps)
    totals.begin()
    now[0] += 10
    totals.batches, totals.waited, totals.worker.seconds = 1, 5.0, {"executing": 4.0}
    verdict = totals.stats().verdict
    assert words in verdict
    assert ("threads" in verdict) == (engine == "native")


def test_the_verdict_names_the_datasets(now: list[float]) -> None:
    totals = StatsTotals(engine="native")
    totals.begin()
    now[0] += 10
    totals.batches = 1
    for stores, words in (
        (("shards/a",), "for data of shards/a (engine 'native')."),
        (("shards/a", "s3://bucket/b"), "for data of shards/a and s3://bucket/b (engine 'native')."),
        (("shards/a", "b", "c"), "for data of shards/a and 2 other datasets (engine 'native')."),
    ):
        assert words in replace(totals.stats(), stores=stores).verdict


def test_the_rate_of_a_maker_goes_from_its_first_request_to_its_latest_answer() -> None:
    traffic = Traffic()
    traffic.add_batches("local", 1, samples=30, size=100, asked=10.0, received=12.0)
    traffic.add_batches("local", 1, samples=20, size=50, asked=11.0, received=15.0)
    assert traffic.makers() == (MakerStats("local", 2, 50, 10.0, 150, 3.0),)
