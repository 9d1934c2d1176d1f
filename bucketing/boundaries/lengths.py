"""Lengths of samples: checks, histograms, and costs of padded lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

Cost = Literal["tokens", "attention"] | Callable[[npt.NDArray[np.int64]], npt.NDArray[np.generic]]
"""Cost of a sequence of a padded length: its tokens (linear layers), their square (attention), or a
nondecreasing function of (S,) int64 lengths."""

Histogram = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Distinct lengths, ascending, and the number of samples of each; both are (S,) int64."""

_DENSE_LIMIT = 1 << 22
"""Up to this length counting is faster than sorting, and the table of counts stays small (32 MiB)."""


def as_lengths(lengths: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return lengths as int64."""
    # lengths (N,)
    array = np.asarray(lengths)
    if array.dtype.kind not in "iu":
        raise ConfigError(f"lengths must be integers, found {array.dtype}")
    if array.ndim not in (1, 2) or array.size == 0:
        raise ConfigError(f"lengths must be a non-empty (N,) or (N, D) array, found shape {array.shape}")
    if array.min() < 0:
        row = int(np.argmin(array.reshape(len(array), -1).min(axis=1)))
        raise ConfigError(f"lengths must be at least 0; row {row} has {array[row].tolist()}")
    return array.astype(np.int64, copy=False)


def round_up(lengths: npt.NDArray[np.int64], pad_to_multiple_of: int) -> npt.NDArray[np.int64]:
    """Return lengths rounded up to a multiple; 0 becomes one multiple, because shapes have no side of 0."""
    if pad_to_multiple_of < 1:
        raise ConfigError(f"pad_to_multiple_of must be at least 1, found {pad_to_multiple_of}")
    return np.maximum(-(-lengths // pad_to_multiple_of) * pad_to_multiple_of, pad_to_multiple_of)


def histogram(lengths: npt.NDArray[np.int64], counts: npt.NDArray[np.int64] | None = None) -> Histogram:
    """Return distinct values of (N,) int64 lengths, and their counts; ``counts`` (N,) weighs entries."""
    if lengths.max() > _DENSE_LIMIT:
        values, inverse = np.unique(lengths, return_inverse=True)
        return values, _bincount(inverse.astype(np.int64), counts)
    dense = _bincount(lengths, counts)
    values = np.flatnonzero(dense)
    return values, dense[values]


def _bincount(lengths: npt.NDArray[np.int64], counts: npt.NDArray[np.int64] | None) -> npt.NDArray[np.int64]:
    if counts is None:
        return np.bincount(lengths)
    # np.bincount(weights=) would sum in float64 and lose counts above 2**53.
    dense = np.zeros(int(lengths.max()) + 1, np.int64)
    np.add.at(dense, lengths, counts)
    return dense


def cost_function(cost: Cost) -> Callable[[npt.NDArray[np.int64]], npt.NDArray[np.generic]]:
    """Return the function of a named cost; a function is returned as it is."""
    if callable(cost):
        return cost
    if cost == "tokens":
        return lambda lengths: lengths
    if cost == "attention":
        return lambda lengths: lengths * lengths
    raise ConfigError(f"cost must be 'tokens', 'attention' or a function, found {cost!r}")
