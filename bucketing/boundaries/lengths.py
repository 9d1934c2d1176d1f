"""Lengths of samples: their checks, their histogram, and what a padded length costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

__all__ = ["Cost", "Histogram", "as_lengths", "cost_function", "histogram", "round_up"]

Cost = Literal["tokens", "attention"] | Callable[[npt.NDArray[np.int64]], npt.NDArray[np.generic]]
"""What one sequence of a padded length costs: its tokens (linear layers), their square (attention),
or any nondecreasing function of (S,) int64 lengths."""

Histogram = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Distinct lengths, ascending, and how often each occurs: (S,) int64 both."""

_DENSE_LIMIT = 1 << 22
"""Up to this length counting beats sorting, and its table stays small (32 MiB)."""


def as_lengths(lengths: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Check lengths and return them as int64.

    Args:
        lengths: (N,) integers, or (N, D) for D sequences a sample; tokens, at least 0.

    Raises:
        ConfigError: Not integers, of another rank, none at all, or one is negative.
    """
    array = np.asarray(lengths)
    if array.dtype.kind not in "iu":
        raise ConfigError(f"lengths must be integers, not {array.dtype}")
    if array.ndim not in (1, 2) or array.size == 0:
        raise ConfigError(f"lengths must be a non-empty (N,) or (N, D) array, not of shape {array.shape}")
    if array.min() < 0:
        row = int(np.argmin(array.reshape(len(array), -1).min(axis=1)))
        raise ConfigError(f"lengths must be at least 0; row {row} has {array[row].tolist()}")
    return array.astype(np.int64, copy=False)


def round_up(lengths: npt.NDArray[np.int64], multiple_of: int) -> npt.NDArray[np.int64]:
    """Round lengths up to a multiple, and an empty sequence to one multiple: no shape has a side of 0.

    Raises:
        ConfigError: ``multiple_of`` is less than 1.
    """
    if multiple_of < 1:
        raise ConfigError(f"multiple_of must be at least 1, not {multiple_of}")
    return np.maximum(-(-lengths // multiple_of) * multiple_of, multiple_of)


def histogram(lengths: npt.NDArray[np.int64], counts: npt.NDArray[np.int64] | None = None) -> Histogram:
    """Distinct values of (N,) int64 lengths and their counts; ``counts`` (N,) weighs each entry."""
    if lengths.max() > _DENSE_LIMIT:
        values, inverse = np.unique(lengths, return_inverse=True)
        lengths = inverse.astype(np.int64)
        dense = _bincount(lengths, counts)
        return values, dense
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
    """The function behind a cost's name; functions pass through.

    Raises:
        ConfigError: An unknown name.
    """
    if callable(cost):
        return cost
    if cost == "tokens":
        return lambda lengths: lengths
    if cost == "attention":
        return lambda lengths: lengths * lengths
    raise ConfigError(f"cost must be 'tokens', 'attention' or a function, not {cost!r}")
