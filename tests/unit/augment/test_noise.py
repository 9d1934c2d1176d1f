"""Noise: its definition by hand, its distribution, and the independence of neighbours."""

from __future__ import annotations

import hashlib
from statistics import NormalDist

import numpy as np
import pytest

from stoker.augment.noise import displacement, gaussian_weights, normal_noise, quantiles

SIDE = 300
FIELD = normal_noise(12345, (0, 0, SIDE, SIDE), SIDE)


def test_quantiles_are_those_of_the_normal_distribution():
    table = quantiles()
    assert table.shape == (65536,)
    assert table.dtype == np.float32
    for k in (0, 1, 1000, 32767, 32768, 65535):
        assert table[k] == pytest.approx(NormalDist().inv_cdf((k + 0.5) / 65536), rel=1e-6)
    assert (np.diff(table) > 0).all()
    assert table.astype(np.float64).var() == pytest.approx(1, abs=2e-4)


def by_hand(key, pixel):
    bits = (key + (pixel + 1) * 0x9E3779B97F4A7C15) % 2**64
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB % 2**64
    bits ^= bits >> 31
    return [quantiles()[bits >> 16 * c & 0xFFFF] for c in range(3)]


@pytest.mark.parametrize("key", [0, 1, 2**53 - 1, 2**64 - 1])
def test_noise_follows_its_definition(key):
    got = normal_noise(key, (2, 3, 4, 5), 17)
    assert got.shape == (4, 5, 3)
    assert got.dtype == np.float32
    for row in range(4):
        for column in range(5):
            assert got[row, column].tolist() == by_hand(key, (row + 2) * 17 + column + 3)


def test_noise_is_that_of_every_version():
    digest = hashlib.sha256(normal_noise(7, (0, 0, 16, 16), 16).round(4).tobytes()).hexdigest()
    assert digest[:16] == "ffc838fdb34a33dc"


def test_noise_has_the_normal_distribution():
    values = np.sort(FIELD.ravel().astype(np.float64))
    n = values.size
    assert abs(values.mean()) < 5 / np.sqrt(n)
    assert abs(values.var() - 1) < 5 * np.sqrt(2 / n)
    points = np.linspace(-3, 3, 61)
    found = np.searchsorted(values, points) / n
    expected = [NormalDist().cdf(point) for point in points]
    assert np.abs(found - expected).max() < 2.7 / np.sqrt(n)  # Kolmogorov and Smirnov, p = 1e-6


def smoothed(noise, sigma, axis):
    half = (int(8 * sigma + 1) | 1) // 2
    weights = np.exp(-0.5 * (np.arange(-half, half + 1) / sigma) ** 2)
    around = [(half, half) if a == axis else (0, 0) for a in (0, 1)]
    lines = np.pad(noise, around, "reflect")
    return np.apply_along_axis(np.convolve, axis, lines, weights / weights.sum(), "valid")


def test_the_field_is_smoothed_uniform_noise_times_half_of_alpha():
    size = 30, 50
    raw = displacement(7, size, (2.0, 2.0), (0.0, 0.0))
    assert -1 < raw.min() < -0.99
    assert 0.99 < raw.max() < 1
    assert abs(raw.mean()) < 0.03
    assert abs(raw.var() - 1 / 3) < 0.02
    assert abs(np.corrcoef(raw[0].ravel(), raw[1].ravel())[0, 1]) < 0.1
    down, across = displacement(7, size, (40.0, 90.0), (1.5, 3.0))
    expected = [smoothed(smoothed(noise, 3.0, 0), 1.5, 1) for noise in raw]
    np.testing.assert_allclose(down, expected[0] * 90 / 2, atol=0.02)
    np.testing.assert_allclose(across, expected[1] * 40 / 2, atol=0.02)


@pytest.mark.parametrize("sigma", [0.0, 0.3, 5.0, 400.0])
def test_weights_are_whole_and_symmetric_and_sum_to_one(sigma):
    weights = gaussian_weights(sigma)
    assert weights.sum() == 65536
    assert (weights == np.rint(weights)).all()
    assert (weights == weights[::-1]).all()
    assert len(weights) % 2 == 1
