"""Boundaries of buckets, the padded lengths of batches: chosen from lengths, checked and assigned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

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


Number = np.int64 | np.float64


def optimal_boundaries(
    costs: npt.NDArray[Number], counts: npt.NDArray[np.int64], num_buckets: int
) -> tuple[npt.NDArray[np.int64], Number]:
    """Divide distinct lengths into at most ``num_buckets`` buckets at the least total cost."""
    # costs (S,) int64, counts (S,) int64 -> (K,) int64
    size = len(costs)
    cumulative = np.concatenate(([0], np.cumsum(counts)))
    padded = np.concatenate((costs[:1], costs))
    best = padded * cumulative
    splits = []
    for _ in range(min(num_buckets, size) - 1):
        best, split = _next_layer(best, padded, cumulative)
        splits.append(split)
    ends = [size]
    for split in reversed(splits):
        ends.append(int(split[ends[-1]]))
    return np.unique([end - 1 for end in ends if end > 0]), best[size]


def _next_layer(
    previous: npt.NDArray[Number], costs: npt.NDArray[Number], cumulative: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[Number], npt.NDArray[np.int64]]:
    """Add a bucket: solve the recurrence for all j, in rounds that halve the distance between the j's."""
    # The minimising i of a j lies between those of its solved neighbours, so a round computes O(S) pairs.
    last = len(previous) - 1
    best = np.zeros_like(previous)
    split = np.zeros(last + 1, np.int64)
    stride = 1 << (last.bit_length() - 1)
    while stride:
        ends = np.arange(stride, last + 1, 2 * stride)
        low = split[ends - stride]
        right = ends + stride
        high = np.minimum(ends, np.where(right <= last, split[np.minimum(right, last)], last))
        best[ends], split[ends] = _segment_minima(previous, costs, cumulative, ends, low=low, high=high)
        stride //= 2
    return best, split


def _segment_minima(
    previous: npt.NDArray[Number],
    costs: npt.NDArray[Number],
    cumulative: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    *,
    low: npt.NDArray[np.int64],
    high: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[Number], npt.NDArray[np.int64]]:
    widths = high - low + 1
    starts = np.cumsum(widths) - widths
    begins = np.arange(widths.sum()) - np.repeat(starts - low, widths)
    values = (
        previous[begins]
        + np.repeat(costs[ends] * cumulative[ends], widths)
        - np.repeat(costs[ends], widths) * cumulative[begins]
    )
    minima = np.minimum.reduceat(values, starts)
    hits = np.flatnonzero(values == np.repeat(minima, widths))
    return minima, begins[hits[np.searchsorted(hits, starts)]]


def optimal_shapes(
    costs: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
    counts: npt.NDArray[np.int64],
    num_buckets: int,
) -> tuple[npt.NDArray[np.int64], float]:
    """Return nested shapes for two lengths in each sample, at the least total cost.

    Each sample belongs to the first shape that it fits. The recurrence is that of this module on the grid of
    distinct lengths: N counts the samples inside a shape, and i runs over the shapes inside j. It takes
    O(K (S1 S2)^2 / 4): some seconds for a grid of 200 x 200.
    """
    # costs (S1,), counts (S1, S2) int64 -> (K, 2) int64
    inside = counts.cumsum(axis=0).cumsum(axis=1)
    cost = costs[0][:, None] + costs[1][None, :]
    tight = _tight(inside)
    best = cost * inside
    splits = []
    for _ in range(num_buckets - 1):
        best, split = _next_nested(best, cost, inside.astype(np.float64), tight)
        splits.append(split)
    shape = inside.size - 1
    shapes = [shape]
    for split in reversed(splits):
        shape = int(split.flat[shape])
        if shape < 0:
            break
        shapes.append(shape)
    unique = np.unique(shapes)
    return np.stack(np.unravel_index(unique, inside.shape), axis=1), float(best.flat[-1])


def _tight(inside: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return shapes that no smaller shape can replace: each side is the length of a sample inside."""
    rows = np.diff(inside, axis=0, prepend=0) > 0
    columns = np.diff(inside, axis=1, prepend=0) > 0
    tight = rows & columns
    tight[-1, -1] = True
    return tight


def _next_nested(
    previous: npt.NDArray[np.float64],
    cost: npt.NDArray[np.float64],
    inside: npt.NDArray[np.float64],
    tight: npt.NDArray[np.bool_],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Add a shape; an inner shape of -1 means that there is none."""
    best = cost * inside
    split = np.full(cost.shape, -1, np.int64)
    for row in range(len(cost)):
        columns, rows = np.nonzero(tight[: row + 1].T)
        base, held = previous[rows, columns], inside[rows, columns]
        prefix = np.searchsorted(columns, np.arange(cost.shape[1]), side="right")
        for column in np.flatnonzero(tight[row]):
            end = prefix[column]
            values = base[:end] - cost[row, column] * held[:end]
            inner = int(values.argmin())
            total = values[inner] + cost[row, column] * inside[row, column]
            if total < best[row, column]:
                best[row, column] = total
                split[row, column] = rows[inner] * cost.shape[1] + columns[inner]
    return best, split


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

    "optimal" minimises the cost exactly (see :mod:`stoker.bucketing.boundaries`). For two lengths in
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
