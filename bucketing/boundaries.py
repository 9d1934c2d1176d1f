"""Boundaries of buckets, the padded lengths of batches: chosen from lengths, checked and assigned.

Samplers take boundaries, and ``stoker buckets`` compares the rules that choose them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from stoker.arguments import one_of, whole_number
from stoker.errors import ConfigError

Int64 = npt.NDArray[np.int64]

Cost = Literal["tokens", "attention"] | Callable[[Int64], npt.NDArray[np.generic]]
"""Cost of a sequence of a padded length: its tokens (linear layers), their square (attention), or a
nondecreasing function of (S,) int64 lengths."""

Histogram = tuple[Int64, Int64]
"""Distinct lengths, ascending, and the number of samples of each; both are (S,) int64."""

Number = np.int64 | np.float64

Method = Literal["optimal", "constant", "linear", "exponential", "quantile", "tokens"]
"""The rule for boundaries, see :func:`bucket_boundaries`."""

_DENSE_LIMIT = 1 << 22
"""Up to this length counting is faster than sorting, and the table of counts stays small (32 MiB)."""

_GRID_LIMIT = 256
"""Largest number of distinct lengths of an axis for exact nested shapes. A longer axis is first rounded up to
this many quantiles, so that the search takes seconds."""

_STEP = 1.1
"""Width of an exponential bucket over the one before (``bucket_len_step`` of GluonNLP)."""


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

    boundaries: Int64
    counts: Int64
    padding: float
    padding_per_sample: float
    waste: float
    lower_bound: float

    def __len__(self) -> int:
        return len(self.boundaries)


Boundaries = BucketBoundaries | Int64


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

    "optimal" minimises the cost exactly, by dynamic programming. For two lengths in each sample it returns
    the best nested shapes, which are exact up to 256 distinct lengths on each axis.
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
    weights = None
    if counts is not None:
        weights = np.asarray(counts)
        wrong = weights.shape != table.shape[:1] or weights.dtype.kind not in "iu"
        if wrong or weights.min() < 0 or weights.sum() == 0:
            raise ConfigError(f"counts must be ({len(table)},) integers, at least 0 and not all 0")
        weights = weights.astype(np.int64)
    whole_number("num_buckets", num_buckets, 1)
    one_of("method", method, get_args(Method))
    columns = table.reshape(len(table), -1)
    histograms = [histogram(column, weights) for column in columns.T]
    rounded = [histogram(round_up(values, pad_to_multiple_of), number) for values, number in histograms]
    optima = [optimal_boundaries(_costs(values, cost), number, num_buckets) for values, number in rounded]
    if method != "optimal":
        by_rule = [round_up(_by_rule(one, num_buckets, method), pad_to_multiple_of) for one in histograms]
        edges = np.unique(np.stack(by_rule, axis=1), axis=0)
    elif table.ndim == 1:
        edges = rounded[0][0][optima[0][0]][:, None]
    else:
        edges = _nested(columns, weights, rounded, num_buckets, cost)
    buckets = assign_buckets(table, edges.reshape(-1, *table.shape[1:]))
    held = np.zeros(len(edges), np.int64)
    np.add.at(held, buckets, 1 if weights is None else weights)
    edges, held = edges[held > 0], held[held > 0]
    padded = int((edges.sum(axis=1) * held).sum())
    tokens = sum(float((values * number).sum()) for values, number in histograms)
    spent = float(sum((_costs(edge, cost) * held).sum() for edge in edges.T))
    needed = sum(float((_costs(values, cost) * number).sum()) for values, number in histograms)
    return BucketBoundaries(
        boundaries=edges.reshape(-1, *table.shape[1:]),
        counts=held,
        padding=1 - tokens / padded,
        padding_per_sample=(padded - tokens) / int(held.sum()),
        waste=1 - needed / spent,
        lower_bound=1 - needed / sum(float(total) for _, total in optima),
    )


def as_lengths(lengths: npt.ArrayLike) -> Int64:
    """Return (N,) or (N, D) lengths as int64."""
    array = np.asarray(lengths)
    if array.dtype.kind not in "iu":
        raise ConfigError(f"lengths must be integers, found {array.dtype}")
    if array.ndim not in (1, 2) or array.size == 0:
        raise ConfigError(f"lengths must be a non-empty (N,) or (N, D) array, found shape {array.shape}")
    if array.min() < 0:
        row = int(np.argmin(array.reshape(len(array), -1).min(axis=1)))
        raise ConfigError(f"lengths must be at least 0; row {row} has {array[row].tolist()}")
    return array.astype(np.int64, copy=False)


def as_edges(boundaries: Boundaries) -> Int64:
    """Return boundaries as (K,) or (K, D) int64."""
    edges = as_lengths(boundaries.boundaries if isinstance(boundaries, BucketBoundaries) else boundaries)
    if (np.diff(edges, axis=0) < 0).any() or edges.min() < 1 or len(edges) > 1 << 16:
        raise ConfigError("boundaries must be at least 1, ascending, and no more than 65,536")
    return edges


def round_up(lengths: Int64, pad_to_multiple_of: int) -> Int64:
    """Return lengths rounded up to a multiple; 0 becomes one multiple, because shapes have no side of 0."""
    whole_number("pad_to_multiple_of", pad_to_multiple_of, 1)
    return np.maximum(-(-lengths // pad_to_multiple_of) * pad_to_multiple_of, pad_to_multiple_of)


def histogram(lengths: Int64, counts: Int64 | None = None) -> Histogram:
    """Return distinct values of (N,) lengths, and their counts; ``counts``, (N,), weigh the entries."""
    known: Int64 | None = None
    if lengths.max() > _DENSE_LIMIT:
        known, lengths = np.unique(lengths, return_inverse=True)
    if counts is None:
        dense = np.bincount(lengths)
    else:  # np.bincount(weights=) would sum in float64 and lose counts above 2**53
        dense = np.zeros(int(lengths.max()) + 1, np.int64)
        np.add.at(dense, lengths, counts)
    values = np.flatnonzero(dense)
    return values if known is None else known[values], dense[values]


def assign_buckets(lengths: npt.ArrayLike, boundaries: Int64) -> Int64:
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


def cost_function(cost: Cost) -> Callable[[Int64], npt.NDArray[np.generic]]:
    """Return the function of a named cost; a function is returned as it is."""
    if callable(cost):
        return cost
    if cost == "tokens":
        return lambda lengths: lengths
    if cost == "attention":
        return lambda lengths: lengths * lengths
    raise ConfigError(f"cost must be 'tokens', 'attention' or a function, found {cost!r}")


def _costs(values: Int64, cost: Cost) -> npt.NDArray[np.int64 | np.float64]:
    costs = np.asarray(cost_function(cost)(values))
    costs = costs.astype(np.int64 if costs.dtype.kind in "iu" else np.float64)
    if costs.shape != values.shape or not np.isfinite(costs).all() or (np.diff(costs) < 0).any():
        raise ConfigError("cost must give one finite, nondecreasing number for each length")
    return costs


def _by_rule(lengths: Histogram, num_buckets: int, method: str) -> Int64:
    """(K,) boundaries, ascending, by a rule without a cost (GluonNLP 0.10's, or buckets of equal mass)."""
    values, counts = lengths
    if method in ("quantile", "tokens"):
        return equal_mass(values, counts, num_buckets, by_tokens=method == "tokens")
    shortest, longest = int(values[0]), int(values[-1])
    steps = np.arange(1, num_buckets + 1)
    growth: npt.NDArray[np.floating]
    if method == "constant":  # equidistant, counted down from the longest
        width = max((1 + longest - shortest) // num_buckets, 1)
        return np.sort(np.maximum(longest - width * (steps - 1), shortest))
    if method == "linear":  # the widths are a i + 1
        slope = 2 * (longest - shortest - num_buckets) / (num_buckets * (num_buckets + 1))
        growth = slope * steps * (steps + 1) / 2 + steps
    else:
        growth = (longest - shortest) * (_STEP**steps - 1) / (_STEP**num_buckets - 1)
    edges: Int64 = np.round(shortest + growth).astype(np.int64)
    edges[-1] = max(edges[-1], longest)
    return np.sort(edges)


def equal_mass(values: Int64, counts: Int64, num_buckets: int, *, by_tokens: bool = False) -> Int64:
    """Return K boundaries with the same number of samples, or of tokens, in each bucket."""
    cumulative = np.cumsum(counts * values if by_tokens else counts)
    shares = cumulative[-1] * np.arange(1, num_buckets + 1) / num_buckets
    edges: Int64 = values[np.minimum(np.searchsorted(cumulative, shares), len(values) - 1)]
    return edges


def _nested(
    columns: Int64, counts: Int64 | None, rounded: list[Histogram], num_buckets: int, cost: Cost
) -> Int64:
    """(K, 2), the best nested shapes for two lengths in each sample."""
    if len(rounded) != 2:
        raise ConfigError(f"optimal shapes take one or two lengths in each sample, found {len(rounded)}")
    axes = [
        values if len(values) <= _GRID_LIMIT else np.unique(equal_mass(values, number, _GRID_LIMIT))
        for values, number in rounded
    ]
    cells = [np.searchsorted(axis, column) for axis, column in zip(axes, columns.T, strict=True)]
    grid = np.zeros((len(axes[0]), len(axes[1])), np.int64)
    np.add.at(grid, (cells[0], cells[1]), 1 if counts is None else counts)
    costs = (_costs(axes[0], cost).astype(np.float64), _costs(axes[1], cost).astype(np.float64))
    ends = optimal_shapes(costs, grid, num_buckets)
    return np.stack([axis[end] for axis, end in zip(axes, ends.T, strict=True)], axis=1)


def optimal_boundaries(costs: npt.NDArray[Number], counts: Int64, num_buckets: int) -> tuple[Int64, Number]:
    """Divide distinct lengths into at most ``num_buckets`` buckets at the least total cost.

    With distinct lengths l_1 < ... < l_S and cumulative counts N_1..N_S, the least cost of the first j
    lengths in k buckets is

        D_k(j) = min over i <= j of D_{k-1}(i) + f(l_j) * (N_j - N_i).

    The cost is Monge for every nondecreasing f, because f and N both grow. So the smallest minimising i never
    falls as j grows (Galil and Park, "Dynamic programming with convexity, concavity and sparsity", 1992), and
    each layer takes O(S log S) instead of O(S^2).
    """
    # costs (S,), counts (S,) -> the last length of each bucket, (K,); the total cost
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
    previous: npt.NDArray[Number], costs: npt.NDArray[Number], cumulative: Int64
) -> tuple[npt.NDArray[Number], Int64]:
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
        widths = high - low + 1
        starts = np.cumsum(widths) - widths
        begins = np.arange(widths.sum()) - np.repeat(starts - low, widths)
        values = (
            previous[begins]
            + np.repeat(costs[ends] * cumulative[ends], widths)
            - np.repeat(costs[ends], widths) * cumulative[begins]
        )
        best[ends] = np.minimum.reduceat(values, starts)
        hits = np.flatnonzero(values == np.repeat(best[ends], widths))
        split[ends] = begins[hits[np.searchsorted(hits, starts)]]
        stride //= 2
    return best, split


def optimal_shapes(
    costs: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
    counts: Int64,
    num_buckets: int,
) -> Int64:
    """Return nested shapes for two lengths in each sample, at the least total cost."""
    # Each sample belongs to the first shape that it fits. The recurrence of :func:`optimal_boundaries` runs
    # on the grid of distinct lengths: N counts the samples inside a shape, and i runs over the shapes inside
    # j. It takes O(K (S1 S2)^2 / 4): some seconds for a grid of 200 x 200.
    # costs (S1,), counts (S1, S2) int64 -> (K, 2) int64
    inside = counts.cumsum(axis=0).cumsum(axis=1)
    cost = costs[0][:, None] + costs[1][None, :]
    # Shapes that no smaller shape can replace: each side is the length of a sample inside.
    tight = (np.diff(inside, axis=0, prepend=0) > 0) & (np.diff(inside, axis=1, prepend=0) > 0)
    tight[-1, -1] = True
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
    return np.stack(np.unravel_index(np.unique(shapes), inside.shape), axis=1)


def _next_nested(
    previous: npt.NDArray[np.float64],
    cost: npt.NDArray[np.float64],
    inside: npt.NDArray[np.float64],
    tight: npt.NDArray[np.bool_],
) -> tuple[npt.NDArray[np.float64], Int64]:
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
