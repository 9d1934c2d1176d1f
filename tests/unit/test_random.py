"""Keyed random numbers: definitions and quality, with bounds so far from chance that failures are real."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from stoker.random import bits, derive_key, hash_words, uniform, unit_interval

SAMPLES = np.arange(4096)


def pearson(a, b):
    return np.corrcoef(np.ravel(a), np.ravel(b))[0, 1]


def test_bits_are_the_same_on_every_platform():
    got = bits(derive_key(0, 0, 0), np.array([0, 1, 2**40]), 2)
    assert [[f"{value:016x}" for value in row] for row in got.tolist()] == [
        ["5244cc098e9dad54", "73148ba8e1578690"],
        ["371aaeb216373eea", "aedad503b56136cc"],
        ["f40af3e6a5261421", "7a6a0b7c5d5bfa3c"],
    ]


def test_bits_follow_the_documented_construction():
    def mix13(x):
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
        return x ^ x >> 31

    first, second = map(int, derive_key(5, -1, 3))
    for row in (0, 1, 2**40, 2**63 - 1):
        state = mix13(mix13((row + first) % 2**64) ^ second)
        expected = [mix13((state + i * 0x9E3779B97F4A7C15) % 2**64) for i in (1, 2, 3)]
        assert bits(derive_key(5, -1, 3), np.array([row]), 3)[0].tolist() == expected


def test_a_samples_numbers_do_not_depend_on_other_samples_or_more_draws():
    key = derive_key(3, 1, 2)
    together = uniform(key, SAMPLES, 5)
    np.testing.assert_array_equal(uniform(key, SAMPLES[::-1][:7].copy(), 5), together[::-1][:7])
    np.testing.assert_array_equal(uniform(key, SAMPLES, 2), together[:, :2])
    np.testing.assert_array_equal(SAMPLES, np.arange(4096))
    assert (uniform(key, SAMPLES[:0], 3).shape, uniform(key, SAMPLES, 0).shape) == ((0, 3), (4096, 0))
    assert np.unique(bits(key, np.arange(50_000), 4)).size == 200_000


@pytest.mark.parametrize(
    "numbers",
    [
        *(uniform(derive_key(seed, 0, 0), SAMPLES, 64) for seed in (0, 1, -1, 2**64, 2**200)),
        unit_interval(hash_words((3, 5), np.arange(4096 * 64))),
    ],
    ids=range(6),
)
def test_numbers_are_uniform_by_chi_square(numbers):
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts = np.histogram(numbers, 256, (0, 1))[0]
    expected = numbers.size / 256
    chi = ((counts - expected) ** 2 / expected).sum()
    assert 150 < chi < 390  # 255 +- 22.6: six standard deviations


def test_every_bit_is_fair():
    numbers = bits(derive_key(0, 0, 0), SAMPLES, 16).ravel()
    shares = [(numbers >> np.uint64(i) & np.uint64(1)).mean() for i in range(64)]
    assert np.abs(np.array(shares) - 0.5).max() < 6 * 0.5 / np.sqrt(numbers.size)


@pytest.mark.parametrize(
    "neighbour", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (-1, 0, 0), (2**63, 0, 0), (1, -1, 0)]
)
def test_neighbouring_keys_are_uncorrelated(neighbour):
    a, b = (uniform(derive_key(*key), SAMPLES, 16) for key in ((0, 0, 0), neighbour))
    assert abs(pearson(a, b)) < 6 / np.sqrt(a.size)
    assert abs(pearson(a[1:], b[:-1])) < 6 / np.sqrt(a.size)
    assert abs(pearson(a[:, 1:], b[:, :-1])) < 6 / np.sqrt(a.size)
    assert not np.intersect1d(a, b).size


def test_different_seeds_epochs_and_positions_have_different_keys():
    triples = [(s, e, p) for s in (-11, -1, 0, 1, 11, 111) for e in (0, 1, 11, 111) for p in (0, 1, 11)]
    assert len({derive_key(*triple) for triple in triples}) == len(triples)


@pytest.mark.parametrize("bit", [0, 1, 7, 20, 31, 32, 47, 62])
def test_a_bit_of_the_sample_changes_half_of_the_output(bit):
    key = derive_key(0, 0, 0)
    changed = bits(key, SAMPLES, 4) ^ bits(key, SAMPLES ^ (1 << bit), 4)
    for i in range(64):
        share = (changed >> np.uint64(i) & np.uint64(1)).mean()
        assert abs(share - 0.5) < 6 * 0.5 / np.sqrt(changed.size)


def test_hashes_depend_on_every_part():
    rows = np.arange(3)
    hashes = [
        hash_words((1,), rows),
        hash_words((2,), rows),
        hash_words((1, 0), rows),
        hash_words((1,), rows, rows + 7),
        hash_words((-1,), rows),
        hash_words((2**64 + 1,), rows),
    ]
    assert len(set(np.concatenate(hashes).tolist())) == 18


# Orders are part of what a checkpoint relies on: another version must draw the same.
def test_hashes_stay_the_same_in_all_versions():
    numbers = unit_interval(hash_words((2**70, 3), np.arange(1000)))
    assert hashlib.sha256(numbers.astype("<f8").tobytes()).hexdigest()[:16] == "34198d554472a8cf"
