"""Comparison of two samples of numbers."""

from __future__ import annotations

import math

import numpy as np


def assert_same_distribution(a, b):
    """Two-sample Kolmogorov-Smirnov; the bound is passed by chance once in a million."""
    a, b = np.sort(a), np.sort(b)
    points = np.concatenate((a, b))
    steps = [np.searchsorted(values, points, "right") / len(values) for values in (a, b)]
    distance = np.abs(steps[0] - steps[1]).max()
    assert distance < 2.7 * math.sqrt((len(a) + len(b)) / (len(a) * len(b)))
