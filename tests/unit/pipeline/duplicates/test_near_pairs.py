"""Pairs of hashes within a Hamming distance, compared with a search of all pairs."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.pipeline.duplicates import near_pairs as module
from stoker.pipeline.duplicates.near_pairs import hamming_distances, near_pairs


@pytest.mark.parametrize("distance", [0, 1, 2, 4, 7, 16])
@pytest.mark.parametrize("at_once", [1, 1 << 20])
def test_all_near_pairs_are_found_and_no_other(
    distance: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The bound of the product is above all candidates of a test.
    monkeypatch.setattr(module, "_MOST_CANDIDATES", at_once)
    rng = np.random.default_rng(distance)
    hashes = rng.integers(0, 1 << 64, 40, np.uint64)
    copies = hashes[rng.integers(0, 40, 60)]
    for _ in range(distance):
        copies ^= np.uint64(1) << rng.integers(0, 64, 60, np.uint64)
    hashes = np.unique(np.concatenate((hashes, copies)))
    first, second = np.triu_indices(len(hashes), 1)
    near = hamming_distances(hashes[first], hashes[second]) <= distance
    assert near.any() or not distance
    pairs = near_pairs(hashes, distance)
    assert [side.tolist() for side in pairs] == [first[near].tolist(), second[near].tolist()]


def test_the_hamming_distance_counts_differing_bits() -> None:
    first, second = np.array([0, 5, 2**64 - 1], np.uint64), np.array([0, 6, 0], np.uint64)
    assert hamming_distances(first, second).tolist() == [0, 2, 64]
    assert [side.tolist() for side in near_pairs(np.zeros(0, np.uint64), 4)] == [[], []]
