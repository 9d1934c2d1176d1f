"""Measures of the randomness of batches, and of the balance of ranks."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt


def intraclass_correlation(values: npt.NDArray[np.int64], batches: npt.NDArray[np.int64]) -> float:
    """Return the likeness of values in a batch: 0 for random batches, 1 where all are equal.

    This is ICC(1) by one-way analysis of variance with unequal groups (Donner, "A review of inference
    procedures for the intraclass correlation coefficient", 1986). It is NaN for a single batch, and for
    batches of one sample.
    """
    # values (N,) int64, batches (N,) int64
    _, batches, sizes = np.unique(batches, return_inverse=True, return_counts=True)
    number, total = len(sizes), len(values)
    if number < 2 or total == number:
        return float("nan")
    centred = values - values.mean()
    means = np.bincount(batches, weights=centred) / sizes
    between = float((sizes * means**2).sum()) / (number - 1)
    within = float(((centred - means[batches]) ** 2).sum()) / (total - number)
    size = (total - float((sizes**2).sum()) / total) / (number - 1)
    spread = between + (size - 1) * within
    return (between - within) / spread if spread > 0 else float("nan")


def lag1_autocorrelation(series: npt.NDArray[np.float64]) -> float:
    """Return the correlation of a step's mean length with the next one's: 0 where steps are shuffled."""
    # series (steps,) float64
    centred = series - series.mean()
    spread = float((centred**2).sum())
    if len(series) < 3 or spread == 0:
        return float("nan")
    return float((centred[1:] * centred[:-1]).sum()) / spread


def effective_partners(first: npt.NDArray[np.int64], second: npt.NDArray[np.int64]) -> float:
    """Return the effective number of samples that a sample's partners in a batch are drawn from.

    With k partners drawn from P in each of two epochs, k * k / P partners are in both. Frozen batches
    therefore give the batch size less one, and random batches about the number of samples.
    """
    # first (N,) int64, second (N,) int64
    _, second = np.unique(second, return_inverse=True)
    both = np.unique(first * (int(second.max()) + 1) + second, return_counts=True)[1]
    pairs = [_pairs(np.unique(batches, return_counts=True)[1]) for batches in (first, second)]
    again = _pairs(both)
    if again == 0:
        return float(len(first) - 1) if min(pairs) > 0 else 0.0
    return min(2 * pairs[0] * pairs[1] / (len(first) * again), float(len(first) - 1))


def epoch_partners(
    number: int,
    first: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
    second: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
) -> float:
    """Return the effective partners of the samples that are in both of two epochs."""
    # first (M,) int64
    batch = np.full((2, number), -1)
    for epoch, (rows, batches) in zip(batch, (first, second), strict=True):
        epoch[rows[::-1]] = batches[::-1]
    both = batch[:, (batch >= 0).all(axis=0)]
    return effective_partners(both[0], both[1])


def defined(value: float) -> float | None:
    """Return a figure, or None if it is NaN."""
    return None if math.isnan(value) else value


def _pairs(sizes: npt.NDArray[np.int64]) -> float:
    return float((sizes * (sizes - 1) / 2).sum())


def rank_efficiency(work: npt.NDArray[np.float64]) -> float:
    """Return the work of all ranks over what they could do in the same time, 0 to 1.

    At each step all ranks wait for the rank with the most work.
    """
    # work (steps, ranks) float64
    return float(work.sum() / (work.shape[1] * work.max(axis=1).sum()))
