"""Optimal boundaries: the K padded lengths, or nested shapes, of the least cost.

With distinct lengths l_1 < ... < l_S and cumulative counts N_1..N_S, the least cost of the first j
lengths in k buckets is

    D_k(j) = min over i <= j of D_{k-1}(i) + f(l_j) * (N_j - N_i).

The cost is Monge for every nondecreasing f, because f and N both grow, so the smallest minimising i
never falls as j grows (Galil and Park, "Dynamic programming with convexity, concavity and
sparsity", 1992), and each layer takes O(S log S) instead of O(S^2).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

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
