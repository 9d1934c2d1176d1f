"""GaussianNoise and JPEG: their arguments, distributions, and what is lost."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.augment import JPEG, CenterCrop, GaussianNoise, compile_image
from stoker.augment.reference import execute
from stoker.errors import ConfigError

N = 3000


def draw(transform, n, size=(60, 80)):
    plan = compile_image([CenterCrop(size), transform])
    return plan.draw(np.full(n, size[0]), np.full(n, size[1]), np.arange(n), 0, 0)


def test_noise_has_its_mean_and_deviation_as_shares_of_the_range():
    params = draw(GaussianNoise(0.1, 0.05), 2)
    grey = np.full((60, 80, 3), 100, np.uint8)
    first, second = (execute(params, i, grey, "uint8", "NHWC").astype(float) for i in range(2))
    assert abs(first.mean() - 125.5) < 0.5
    # The rounding of levels adds a variance of 1/12.
    assert abs(first.std() - np.hypot(12.75, np.sqrt(1 / 12))) < 0.3
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.05


def test_levels_beyond_the_range_are_clipped():
    image = execute(draw(GaussianNoise(0.9, 0.3), 1), 0, np.full((60, 80, 3), 200, np.uint8), "uint8")
    assert (image == 255).mean() > 0.9
    for arguments, message in (({"clip": False}, "clip must be True"), ({"sigma": -1}, "sigma must be")):
        with pytest.raises(ConfigError, match=message):
            GaussianNoise(**arguments)


def test_every_quality_of_a_range_is_as_likely():
    (step,) = draw(JPEG((30, 34)), N).steps
    values, counts = np.unique(step.quality, return_counts=True)
    assert values.tolist() == [30, 31, 32, 33, 34]
    assert np.abs(counts - N / 5).max() < 5 * np.sqrt(N / 5)
    assert (draw(JPEG(7), 5).steps[0].quality == 7).all()
    for wrong in (0, 101, (50, 40), (1, 2, 3), 2.5):
        with pytest.raises(ConfigError, match="quality must be a whole number 1 to 100"):
            JPEG(wrong)


def test_a_lower_quality_loses_more_and_colours_lose_their_resolution():
    pixels = np.random.default_rng(0).integers(0, 256, (60, 80, 1), np.uint8).repeat(3, axis=2)
    lost = [
        np.abs(execute(draw(JPEG(quality), 1), 0, pixels, "uint8", "NHWC") - pixels.astype(float)).mean()
        for quality in (100, 80, 40, 5)
    ]
    assert lost[0] < 1
    assert lost == sorted(lost)
    stripes = np.zeros((60, 80, 3), np.uint8)
    stripes[:, ::2, 0] = stripes[:, 1::2, 2] = 200  # red and blue in turn
    mixed = execute(draw(JPEG(100), 1), 0, stripes, "uint8", "NHWC").astype(int)
    assert np.abs(mixed[:, ::2, 0] - mixed[:, 1::2, 0]).max() < 60
