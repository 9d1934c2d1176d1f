"""The k-d split: batches of samples with several lengths."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.bucketing import SortedBucketSampler, report_plan
from stoker.bucketing.groups import kd_order


def padded(lengths: np.ndarray, order: np.ndarray, size: int) -> int:
    groups = [lengths[order[at : at + size]] for at in range(0, len(order), size)]
    return int(sum(len(group) * group.max(axis=0).sum() for group in groups))


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize(("n", "size"), [(1, 4), (4, 4), (5, 4), (37, 1), (1000, 7)])
def test_the_order_has_every_sample_once_and_pads_less_than_the_sum(n: int, size: int, columns: int) -> None:
    lengths = np.random.default_rng(n).integers(1, 90, (n, columns))
    order = kd_order(lengths, size)
    assert sorted(order.tolist()) == list(range(n))
    by_sum = np.argsort(-lengths.sum(axis=1), kind="stable")
    assert padded(lengths, order, size) <= padded(lengths, by_sum, size)
    if n == 1000 and columns == 2:
        assert (
            2 * (padded(lengths, order, size) - lengths.sum()) < padded(lengths, by_sum, size) - lengths.sum()
        )


def test_windows_of_pairs_take_the_split_and_say_so_in_their_fingerprint() -> None:
    lengths = np.random.default_rng(3).integers(1, 300, (960, 2))
    pairs = SortedBucketSampler(lengths, 8, window=40, seed=1)
    assert report_plan(pairs.plan(0), lengths).padding < 15
    same = SortedBucketSampler(lengths[:, 0], 8, window=40, seed=1)
    assert (pairs.rule, same.rule) == ("k-d split", "")
