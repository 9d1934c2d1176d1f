"""Boundaries of buckets, the padded lengths of batches: chosen from lengths, checked and assigned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from .lengths import Cost, Histogram, as_lengths, cost_function, histogram, round_up
from .optimal import optimal_boundaries, optimal_shapes
from .widths import EQUAL_WIDTHS, equal_mass

Method = Literal["optimal", "constant", "linear", "exponential", "quantile", "tokens"]
"""The rule for boundaries, see :func:`bucket_boundaries`."""

_GRID_LIMIT = 256
"""Largest number of distinct lengths of an axis for exact nested shapes. A longer axis is first rounded up to
this many quantiles, so that the search takes seconds."""


@dataclass(frozen=True)
class BucketBoundaries:
    """Boundaries of buckets, and their cost on the lengths that they were chosen for.

    Attributes:
        boundaries: (K,) int64, ascending, or (K, D) for D lengths in each sample, ascending in every
            column. The bucket of a sample is the first that the sample fits.
        counts: (K,) int64, the number of samples in each bucket.
        padding: Share of the padded tokens that is padding, 0 to 1, if every sample is padded to its
            boundary.
        padding_per_sample: Mean number of padding tokens in a sample.
        waste: Share of the cost that is spent on padding, 0 to 1; ``padding`` where the cost is "tokens".
        lower_bound: The least ``waste`` of this many buckets. It is exact for one length in each sample; for
            several lengths it is the sum of the optima of each.
    """

    boundaries: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    padding: float
    padding_per_sample: float
    waste: float
    lower_bound: float

    def __len__(self) -> int:
        return len(self.boundaries)


Boundaries = BucketBoundaries | npt.NDArray[np.int64]


def as_edges(boundaries: Boundaries) -> npt.NDArray[np.int64]:
    """Return boundaries as (K,) or (K, D) int64."""
    edges = as_lengths(boundaries.boundaries if isinstance(boundaries, BucketBoundaries) else boundaries)
    if (np.diff(edges, axis=0) < 0).any() or edges.min() < 1 or len(edges) > 1 << 16:
        raise ConfigError("boundaries must be at least 1, ascending, and no more than 65,536")
    return edges


def assign_buckets(lengths: npt.ArrayLike, boundaries: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the first bucket that each sample fits.

    Args:
        lengths: (N,) or (N, D) integers, tokens.
        boundaries: (K,) or (K, D) int64, ascending in every column.

    Returns:
        (N,) int64, 0 to K - 1.

    Raises:
        ConfigError: A sample is longer than the last boundary; the error names its row.
    """
    columns = as_lengths(lengths)
    if columns.shape[1:] != boundaries.shape[1:]:
        raise ConfigError(f"lengths {columns.shape} do not fit boundaries {boundaries.shape}")
    if columns.ndim == 1:
        buckets = np.searchsorted(boundaries, columns)
    else:
        each = [np.searchsorted(edge, column) for edge, column in zip(boundaries.T, columns.T, strict=True)]
        buckets = np.max(each, axis=0)
    if buckets.max() >= len(boundaries):
        row = int(buckets.argmax())
        raise ConfigError(
            f"row {row} has length {columns[row].tolist()}; the last boundary is {boundaries[-1].tolist()}",
            hint="Truncate or leave out longer samples, or add a boundary.",
        )
    return buckets


def bucket_boundaries(
    lengths: npt.ArrayLike,
    num_buckets: int,
    method: Method = "optimal",
    *,
    pad_to_multiple_of: int = 1,
    cost: Cost = "tokens",
    counts: npt.ArrayLike | None = None,
) -> BucketBoundaries:
    """Choose boundaries of buckets for lengths.

    "optimal" minimises the cost exactly (see :mod:`stoker.bucketing.boundaries.optimal`). For two lengths in
    each sample it returns the best nested shapes, which are exact up to 256 distinct lengths on each axis.
    "constant", "linear" and "exponential" follow ConstWidthBucket, LinearWidthBucket and ExpWidthBucket (step
    1.1) of GluonNLP. "quantile" gives each bucket the same number of samples, "tokens" of tokens.

    Args:
        lengths: (N,) integers, tokens, or (N, D) for D sequences in each sample; D is at most 2 for
            "optimal".
        num_buckets: Largest number of buckets; boundaries that coincide or hold no sample are left out.
        method: Rule for the boundaries, see above.
        pad_to_multiple_of: Every boundary is rounded up to a multiple of this (8 or 16 for tensor cores).
        cost: Cost that "optimal" minimises and ``waste`` measures; costs of several lengths add up.
        counts: (N,) integers, the number of samples of each entry of ``lengths``: a histogram.

    Raises:
        ConfigError: An argument is out of range.
    """
    table = as_lengths(lengths)
    weights = None if counts is None else _as_counts(counts, len(table))
    if num_buckets < 1:
        raise ConfigError(f"num_buckets must be at least 1, found {num_buckets}")
    if method not in get_args(Method):
        raise ConfigError(f"method must be one of {get_args(Method)}, found {method!r}")
    columns = table.reshape(len(table), -1)
    if method != "optimal":
        edges = _by_rule(columns, weights, num_buckets, method, pad_to_multiple_of)
    elif table.ndim == 1:
        edges = _optimal(columns[:, 0], weights, num_buckets, pad_to_multiple_of, cost)[0][:, None]
    else:
        edges = _nested(columns, weights, num_buckets, pad_to_multiple_of, cost)
    least = [_optimal(column, weights, num_buckets, pad_to_multiple_of, cost)[1] for column in columns.T]
    return _measured(table, weights, edges.reshape(-1, *table.shape[1:]), cost, sum(least))


def _as_counts(counts: npt.ArrayLike, size: int) -> npt.NDArray[np.int64]:
    array = np.asarray(counts)
    if array.shape != (size,) or array.dtype.kind not in "iu" or array.min() < 0 or array.sum() == 0:
        raise ConfigError(f"counts must be ({size},) integers, at least 0 and not all 0")
    return array.astype(np.int64)


def _by_rule(
    columns: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64] | None,
    num_buckets: int,
    method: str,
    pad_to_multiple_of: int,
) -> npt.NDArray[np.int64]:
    edges = []
    for column in columns.T:
        if method in EQUAL_WIDTHS:
            edge = EQUAL_WIDTHS[method](int(column.min()), int(column.max()), num_buckets)
        else:
            edge = equal_mass(*histogram(column, counts), num_buckets, by_tokens=method == "tokens")
        edges.append(round_up(np.sort(edge), pad_to_multiple_of))
    return np.unique(np.stack(edges, axis=1), axis=0)


def _costs(values: npt.NDArray[np.int64], cost: Cost) -> npt.NDArray[np.int64 | np.float64]:
    costs = np.asarray(cost_function(cost)(values))
    costs = costs.astype(np.int64 if costs.dtype.kind in "iu" else np.float64)
    if costs.shape != values.shape or not np.isfinite(costs).all() or (np.diff(costs) < 0).any():
        raise ConfigError("cost must give one finite, nondecreasing number for each length")
    return costs


def _optimal(
    column: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64] | None,
    num_buckets: int,
    pad_to_multiple_of: int,
    cost: Cost,
) -> tuple[npt.NDArray[np.int64], float]:
    values, weights = _rounded(histogram(column, counts), pad_to_multiple_of)
    ends, total = optimal_boundaries(_costs(values, cost), weights, num_buckets)
    return values[ends], float(total)


def _rounded(table: Histogram, pad_to_multiple_of: int) -> Histogram:
    return histogram(round_up(table[0], pad_to_multiple_of), table[1])


def _nested(
    columns: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64] | None,
    num_buckets: int,
    pad_to_multiple_of: int,
    cost: Cost,
) -> npt.NDArray[np.int64]:
    if columns.shape[1] != 2:
        raise ConfigError(f"optimal shapes take one or two lengths in each sample, found {columns.shape[1]}")
    axes = [_axis_values(column, counts, pad_to_multiple_of) for column in columns.T]
    cells = [np.searchsorted(axis, column) for axis, column in zip(axes, columns.T, strict=True)]
    grid = np.zeros((len(axes[0]), len(axes[1])), np.int64)
    np.add.at(grid, (cells[0], cells[1]), 1 if counts is None else counts)
    costs = (_costs(axes[0], cost).astype(np.float64), _costs(axes[1], cost).astype(np.float64))
    ends, _ = optimal_shapes(costs, grid, num_buckets)
    return np.stack([axis[end] for axis, end in zip(axes, ends.T, strict=True)], axis=1)


def _axis_values(
    column: npt.NDArray[np.int64], counts: npt.NDArray[np.int64] | None, pad_to_multiple_of: int
) -> npt.NDArray[np.int64]:
    values, weights = _rounded(histogram(column, counts), pad_to_multiple_of)
    return values if len(values) <= _GRID_LIMIT else np.unique(equal_mass(values, weights, _GRID_LIMIT))


def _measured(
    lengths: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64] | None,
    boundaries: npt.NDArray[np.int64],
    cost: Cost,
    least: float,
) -> BucketBoundaries:
    buckets = assign_buckets(lengths, boundaries)
    held = np.zeros(len(boundaries), np.int64)
    np.add.at(held, buckets, 1 if counts is None else counts)
    boundaries, held = boundaries[held > 0], held[held > 0]
    samples = int(held.sum())
    padded = int((boundaries.reshape(len(held), -1).sum(axis=1) * held).sum())
    tokens = _total(lengths, counts, "tokens")
    spent = float(sum((_costs(edge, cost) * held).sum() for edge in boundaries.reshape(len(held), -1).T))
    needed = _total(lengths, counts, cost)
    return BucketBoundaries(
        boundaries=boundaries,
        counts=held,
        padding=1 - tokens / padded,
        padding_per_sample=(padded - tokens) / samples,
        waste=1 - needed / spent,
        lower_bound=1 - needed / least,
    )


def _total(lengths: npt.NDArray[np.int64], counts: npt.NDArray[np.int64] | None, cost: Cost) -> float:
    total = 0.0
    for column in lengths.reshape(len(lengths), -1).T:
        values, weights = histogram(column, counts)
        total += float((_costs(values, cost) * weights).sum())
    return total
