"""Displacement fields: torchvision's recipe, and the same numbers in any order of sums."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.augment.noise import displacement, gaussian_weights


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


def test_an_image_of_one_row_and_one_smaller_than_the_gaussian_have_fields():
    for size in ((1, 9), (2, 3), (1, 1)):
        assert np.isfinite(displacement(3, size, (50.0, 50.0), (5.0, 5.0))).all()
