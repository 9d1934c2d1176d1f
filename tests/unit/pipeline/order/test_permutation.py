"""Permutations of single elements, each with its own key."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
import pytest

from stoker.pipeline.order.orders import permute
from stoker.random import hash_words


def words(n: int, *key: int) -> np.ndarray:
    return hash_words(key, np.arange(n))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 61, 64, 65, 1000])
def test_elements_with_one_key_share_a_permutation(size: int) -> None:
    for word in words(5, size):
        images = permute(np.arange(size), np.full(size, size), np.full(size, word))
        assert sorted(images) == list(range(size))


def test_elements_with_different_sizes_and_keys_are_independent() -> None:
    sizes = np.random.default_rng(0).integers(1, 300, 500)
    elements = np.random.default_rng(1).integers(0, sizes)
    together = permute(elements, sizes, words(500, 7))
    for i in range(0, 500, 7):
        alone = permute(elements[i : i + 1], sizes[i : i + 1], words(500, 7)[i : i + 1])
        assert together[i] == alone[0]
    assert together.dtype == np.int64


@pytest.mark.parametrize("size", [2**53 - 1, 2**53 + 1, 2**60 - 1, 2**62])
def test_large_domains_are_permuted_within_their_size(size: int) -> None:
    elements = np.array([0, 1, size // 2, size - 1])
    images = permute(elements, np.full(4, size), np.full(4, 5, np.uint64))
    assert len(set(images.tolist())) == 4
    assert images.min() >= 0
    assert images.max() < size


def test_every_permutation_of_four_is_drawn_about_equally_often() -> None:
    seeds = 2400
    images = permute(np.tile(np.arange(4), seeds), np.full(4 * seeds, 4), np.repeat(words(seeds), 4))
    drawn = [tuple(row) for row in images.reshape(seeds, 4).tolist()]
    counts = np.array([drawn.count(p) for p in itertools.permutations(range(4))])
    # chi-squared with 23 degrees of freedom: the 0.999 quantile is 49.7
    assert ((counts - 100) ** 2 / 100).sum() < 49.7


# Checkpoints rely on orders: every version must draw the same.
def test_permutations_do_not_change_between_versions() -> None:
    elements = np.arange(1000)
    images = permute(elements, elements + 1, words(1000, -(2**70), 3))
    assert hashlib.sha256(images.astype("<i8").tobytes()).hexdigest()[:16] == "25912cae7857c0c2"
