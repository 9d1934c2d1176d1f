"""Boundaries by rule: the three widths of GluonNLP, and equal mass."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_STEP = 1.1
"""Width of an exponential bucket over that of the one before (``bucket_len_step`` of GluonNLP)."""


def constant_width(shortest: int, longest: int, num_buckets: int) -> npt.NDArray[np.int64]:
    """Return K equidistant boundaries, counted down from the longest (GluonNLP 0.10 ConstWidthBucket)."""
    width = max((1 + longest - shortest) // num_buckets, 1)
    edges: npt.NDArray[np.int64] = np.maximum(longest - width * np.arange(num_buckets), shortest)
    return edges


def linear_width(shortest: int, longest: int, num_buckets: int) -> npt.NDArray[np.int64]:
    """Return K boundaries with linearly growing widths a i + 1 (GluonNLP 0.10 LinearWidthBucket)."""
    slope = 2 * (longest - shortest - num_buckets) / (num_buckets * (num_buckets + 1))
    steps = np.arange(1, num_buckets + 1)
    return _up_to(shortest + slope * steps * (steps + 1) / 2 + steps, longest)


def exponential_width(shortest: int, longest: int, num_buckets: int) -> npt.NDArray[np.int64]:
    """Return K boundaries, each width 1.1 times the one before (GluonNLP 0.10 ExpWidthBucket)."""
    steps = np.arange(1, num_buckets + 1)
    return _up_to(shortest + (longest - shortest) * (_STEP**steps - 1) / (_STEP**num_buckets - 1), longest)


def _up_to(widths: npt.NDArray[np.floating], longest: int) -> npt.NDArray[np.int64]:
    edges = np.round(widths).astype(np.int64)
    edges[-1] = max(edges[-1], longest)
    return edges


def equal_mass(
    values: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], num_buckets: int, *, by_tokens: bool = False
) -> npt.NDArray[np.int64]:
    """Return K boundaries with the same number of samples, or of tokens, in each bucket."""
    # values (S,) int64, counts (S,) int64
    cumulative = np.cumsum(counts * values if by_tokens else counts)
    shares = cumulative[-1] * np.arange(1, num_buckets + 1) / num_buckets
    edges: npt.NDArray[np.int64] = values[np.minimum(np.searchsorted(cumulative, shares), len(values) - 1)]
    return edges


EQUAL_WIDTHS = {"constant": constant_width, "linear": linear_width, "exponential": exponential_width}
