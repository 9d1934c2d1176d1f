"""Reports on plans: padding, waiting of ranks and randomness, against counts and formulas by hand."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from PIL import Image

from stoker.benchmarks.text.gsm8k import gsm8k_lengths
from stoker.bucketing import (
    FixedBucketSampler,
    SortedBucketSampler,
    bucket_boundaries,
    compare,
    pack,
    report_plan,
)
from stoker.bucketing.plots import plot_report
from stoker.bucketing.reports import (
    effective_partners,
    intraclass_correlation,
    lag1_autocorrelation,
)
from stoker.errors import ConfigError, MissingDependencyError

ANSWER = gsm8k_lengths("answer")
PAIRS = np.stack([gsm8k_lengths("question"), ANSWER], axis=1)
EDGES = bucket_boundaries(ANSWER, 8)


def test_padding_is_what_counting_gives():
    plan = FixedBucketSampler(ANSWER, EDGES, 32, world_size=4, last_batch="pad").plan()
    report = report_plan(plan, ANSWER)
    padded = tokens = 0
    for step in range(len(plan)):
        for rank in range(4):
            rows, (n, length) = plan.batch(step, rank)
            padded += n * length
            tokens += ANSWER[rows[plan.mask(step, rank)]].sum()
    assert (report.padded_tokens, report.tokens) == (padded, tokens) == (padded, ANSWER.sum())
    assert report.padding == pytest.approx(100 * (1 - tokens / padded))
    assert report.padding + report.fill == pytest.approx(100)
    assert report.shapes == len(plan.shapes()) == 8
    assert round(report.lower_bound, 1) == 13.1
    assert report.gap == pytest.approx(report.padding - report.lower_bound)
    assert sum(bucket.padded_tokens for bucket in report.buckets) == padded
    assert sum(bucket.samples for bucket in report.buckets) == len(ANSWER)


def test_one_rank_reaches_the_lower_bound():
    report = report_plan(FixedBucketSampler(ANSWER, EDGES, 32).plan(), ANSWER)
    assert report.gap == pytest.approx(0)
    assert report.efficiency_linear == 1


def test_eight_ranks_hardly_wait():
    report = report_plan(FixedBucketSampler(ANSWER, EDGES, 32, world_size=8).plan(), ANSWER)
    assert report.efficiency_linear >= 0.99
    assert report.efficiency_quadratic >= 0.99
    even = FixedBucketSampler(ANSWER, EDGES, 32, world_size=8, balance="attention", last_batch="drop").plan()
    assert report_plan(even, ANSWER).balance_attention > 0.99


def test_efficiency_and_balance_are_those_counted_by_hand():
    # Three samples on two ranks: at the second step one rank repeats a row.
    plan = FixedBucketSampler(
        np.array([2, 4, 6]), np.array([6]), 1, world_size=2, membership="ordered"
    ).plan()
    report = report_plan(plan, [2, 4, 6])
    assert report.efficiency_linear == report.efficiency_quadratic == pytest.approx(3 / 4)
    assert report.balance_tokens == pytest.approx((2 + 4 + 6) / (2 * (4 + 6)))
    assert report.balance_attention == pytest.approx((4 + 16 + 36) / (2 * (16 + 36)))
    assert report.padding_per_sample == pytest.approx((4 * 6 - 12) / 3)


def test_what_buckets_cost_in_randomness():
    random, bucketed, frozen = (
        report_plan(sampler.plan(0), ANSWER, sampler.plan(1))
        for sampler in (
            SortedBucketSampler(ANSWER, 32, window=1),
            FixedBucketSampler(ANSWER, EDGES, 32),
            FixedBucketSampler(ANSWER, EDGES, 32, membership="frozen"),
        )
    )
    assert abs(random.intraclass_correlation) < 0.05
    assert bucketed.intraclass_correlation > 0.9
    assert random.effective_partners > 0.9 * len(ANSWER)
    assert 500 < bucketed.effective_partners < 2000
    assert frozen.effective_partners == pytest.approx(31, abs=0.5)
    assert abs(bucketed.lag1_autocorrelation) < 0.3
    bounded_map = FixedBucketSampler(ANSWER, EDGES, 32, shuffle=False).plan()
    assert report_plan(bounded_map, ANSWER).lag1_autocorrelation > 0.8


def test_a_packed_plan_reports_its_fill_and_partners():
    plan = pack(ANSWER, 256, seed=0)
    report = report_plan(plan, ANSWER, pack(ANSWER, 256, seed=0, epoch=1))
    assert report.fill == pytest.approx(100 * plan.efficiency)
    assert report.lower_bound == pytest.approx(100 * (1 - ANSWER.sum() / (1510 * 256)))
    assert (report.steps, report.shapes, report.samples) == (1513, 1, len(ANSWER))
    assert 5 < report.effective_partners < len(ANSWER)


def test_a_report_is_printed_compared_and_saved_as_json():
    report = report_plan(FixedBucketSampler(ANSWER, EDGES, 32).plan(), ANSWER)
    assert json.loads(report.to_json())["buckets"][0]["length"] == [29]
    table = report.table()
    assert "13.13" in table
    assert "effective partners" in table
    assert len(table.splitlines()) == 17 + 2 + 8
    many = report_plan(SortedBucketSampler(ANSWER, 32).plan(), ANSWER).table()
    assert "more" in many.splitlines()[-1]
    both = compare({"one": report, "other": report}).splitlines()
    assert both[0].split() == ["one", "other"]
    assert both[5].split() == ["padding", "13.13", "13.13"]


@pytest.mark.parametrize("pairs", [False, True])
def test_a_report_is_drawn_as_a_png(tmp_path, pairs):
    pytest.importorskip("matplotlib")
    lengths = PAIRS if pairs else ANSWER
    plan = FixedBucketSampler(lengths, bucket_boundaries(lengths, 4), 32).plan()
    plot_report(report_plan(plan, lengths), lengths, tmp_path / "plan.png", title="GSM8K", dpi=50)
    with Image.open(tmp_path / "plan.png") as image:
        assert image.size == (450, 325)
        assert len(image.convert("RGB").getcolors(1 << 20)) > 20


def test_a_plot_without_matplotlib_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    report = report_plan(FixedBucketSampler(ANSWER, EDGES, 32).plan(), ANSWER)
    with pytest.raises(MissingDependencyError, match="pip install matplotlib"):
        plot_report(report, ANSWER, tmp_path / "plan.png")


def test_a_plan_without_a_batch_or_of_other_lengths_is_refused():
    with pytest.raises(ConfigError, match="no batch"):
        report_plan(FixedBucketSampler(ANSWER[:3], EDGES, 32, last_batch="drop").plan(), ANSWER)
    with pytest.raises(ConfigError, match="other lengths"):
        report_plan(FixedBucketSampler(ANSWER, EDGES, 32).plan(), ANSWER[:100])


def test_intraclass_correlation_is_the_anova_estimate():
    assert intraclass_correlation(np.array([1, 1, 5, 5]), np.array([0, 0, 1, 1])) == 1
    assert intraclass_correlation(np.array([1, 5, 1, 5]), np.array([0, 0, 1, 1])) == -1
    # By hand: means 2, 5, 5; MSB 6, MSW 8 / 4, sizes 2, 2, 3: n0 = (7 - 17 / 7) / 2.
    values, batches = np.array([1, 3, 4, 6, 4, 5, 6]), np.array([0, 0, 1, 1, 2, 2, 2])
    between = (2 * (2 - 29 / 7) ** 2 + 5 * (5 - 29 / 7) ** 2) / 2
    within, size = 6 / 4, (7 - 17 / 7) / 2
    assert intraclass_correlation(values, batches) == pytest.approx(
        (between - within) / (between + (size - 1) * within)
    )
    assert intraclass_correlation(np.array([1, 2]), np.array([0, 1])) is None
    assert intraclass_correlation(np.array([3, 3, 3, 3]), np.array([0, 0, 1, 1])) is None


def test_lag1_autocorrelation_is_its_formula():
    assert lag1_autocorrelation(np.array([1.0, -1, 1, -1])) == pytest.approx(-0.75)
    assert lag1_autocorrelation(np.array([2.0, 2, 2, 2])) is None
    assert lag1_autocorrelation(np.array([1.0, 2])) is None


def test_effective_partners_are_those_of_two_epochs():
    batches = np.repeat(np.arange(8), 4)
    assert effective_partners(batches, batches) == 3
    assert effective_partners(batches, np.tile(np.arange(8), 4)) == 31
    assert effective_partners(np.arange(4), np.arange(4)) == 0
