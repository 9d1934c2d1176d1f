"""Plans of conversions, for any classes, shares and sizes."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stoker.formats.conversion.options import ConvertOptions
from stoker.formats.conversion.plan import apportion_split, shard_rows, shuffled

COUNTS = st.lists(st.integers(0, 50), min_size=1, max_size=30)
SHARES = st.fractions(0, 1, max_denominator=1000)


@given(COUNTS, SHARES, st.integers(0, 1 << 32))
def test_every_class_gets_its_share_rounded_and_the_total_is_exact(
    counts: list[int], share: Fraction, seed: int
) -> None:
    ties = np.random.default_rng(seed).integers(0, 1 << 63, len(counts)).astype(np.uint64)
    quotas = apportion_split(np.array(counts), share, ties).tolist()
    assert all(abs(quota - count * share) < 1 for quota, count in zip(quotas, counts, strict=True))
    assert abs(sum(quotas) - sum(counts) * share) <= Fraction(1, 2)


@given(st.integers(0, 300), st.integers(0, (1 << 64) - 1))
def test_a_shuffle_is_a_permutation(n: int, seed: int) -> None:
    assert sorted(shuffled(np.arange(n), seed).tolist()) == list(range(n))


@given(
    st.lists(st.integers(1, 10_000), min_size=1, max_size=200),
    st.sampled_from(["shard_bytes", "shard_records", "shards"]),
    st.integers(1, 50_000),
)
def test_shards_cover_everything_once_and_none_is_empty(sizes: list[int], rule: str, value: int) -> None:
    parts = shard_rows(np.array(sizes), ConvertOptions(**{rule: value}))
    assert [i for part in parts for i in range(part.start, part.stop)] == list(range(len(sizes)))
    assert all(part.stop > part.start for part in parts)


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=200), st.integers(1, 50_000))
def test_a_shard_exceeds_its_bytes_by_less_than_two_samples(sizes: list[int], limit: int) -> None:
    parts = shard_rows(np.array(sizes), ConvertOptions(shard_bytes=limit))
    assert all(sum(sizes[part]) < limit + 2 * max(sizes) for part in parts)
