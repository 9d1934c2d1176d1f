"""Measures of the randomness of batches, and of the balance of ranks."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from .aspect_shapes import cropped_shares, ratio_groups
from .boundaries import as_lengths, bucket_boundaries
from .packing import PackingPlan


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


if TYPE_CHECKING:
    import numpy.typing as npt

    from .aspect_shapes import RatioGroupSampler, ShapeBucketSampler
    from .plan import BatchPlan

    Int64 = npt.NDArray[np.int64]

_UNITS = 1e6  # of logarithms of ratios as whole numbers


@dataclass(frozen=True)
class ShapeFigures:
    """Figures of all batches of one shape."""

    shape: tuple[int, int]  # Height and width, pixels
    samples: int  # Number of samples
    cropped: float  # Mean percentage of an image that its crop leaves out


@dataclass(frozen=True)
class ShapeReport:
    """Figures of one epoch of batches by shape."""

    samples: int  # Number of samples
    steps: int  # Number of steps
    shapes: int  # Number of shapes
    cropped: float  # Mean percentage of an image that its crop leaves out
    intraclass_correlation: float | None  # Likeness of the aspect ratios in a batch; None where undefined
    # Correlation of the mean ratios of successive steps; None where undefined
    lag1_autocorrelation: float | None
    effective_partners: float  # See :func:`stoker.bucketing.reports.effective_partners`
    figures: tuple[ShapeFigures, ...]  # Those of each shape, by ascending height over width

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as values that JSON has."""
        return asdict(self)


@dataclass(frozen=True)
class RatioReport:
    """Figures of one epoch of padded batches."""

    samples: int  # Number of samples
    steps: int  # Number of steps
    groups: int  # Number of groups that have images
    # Percentage of the batches' pixels that is padding, if all images are resized to one shorter side before
    padding: float
    intraclass_correlation: float | None  # Likeness of the aspect ratios in a batch; None where undefined
    # Correlation of the mean ratios of successive steps; None where undefined
    lag1_autocorrelation: float | None
    effective_partners: float  # See :func:`stoker.bucketing.reports.effective_partners`

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as values that JSON has."""
        return asdict(self)


def report_shapes(sampler: ShapeBucketSampler) -> ShapeReport:
    """Return the figures of the first epoch of a sampler, and its randomness over the first two."""
    sizes = sampler.lengths
    rows, steps, _, shapes = plan_members(plan := sampler.plan(0))
    cropped = 100 * cropped_shares(sizes[rows], shapes)
    alike, following, partners = _ratio_randomness(sizes, plan, sampler.plan(1))
    used, shape_index = np.unique(shapes, axis=0, return_inverse=True)
    shape_index = shape_index.reshape(-1)
    figures = (
        ShapeFigures((height, width), int((shape_index == k).sum()), float(cropped[shape_index == k].mean()))
        for k, (height, width) in enumerate(used.tolist())
    )
    return ShapeReport(
        samples=len(rows),
        steps=len(np.unique(steps)),
        shapes=len(used),
        cropped=float(cropped.mean()),
        intraclass_correlation=alike,
        lag1_autocorrelation=following,
        effective_partners=partners,
        figures=tuple(sorted(figures, key=lambda one: one.shape[0] / one.shape[1])),
    )


def report_ratio_groups(sampler: RatioGroupSampler) -> RatioReport:
    """Return the figures of the first epoch of a sampler, and its randomness over the first two."""
    sizes = sampler.lengths
    rows, steps, batches, _ = plan_members(plan := sampler.plan(0))
    sides = sizes[rows] / sizes[rows].min(axis=1, keepdims=True)
    largest = np.zeros((int(batches.max()) + 1, 2))
    np.maximum.at(largest, batches, sides)
    padded = (largest.prod(axis=1) * np.bincount(batches, minlength=len(largest))).sum()
    alike, following, partners = _ratio_randomness(sizes, plan, sampler.plan(1))
    return RatioReport(
        samples=len(rows),
        steps=len(np.unique(steps)),
        groups=len(np.unique(ratio_groups(sizes, sampler.factor))),
        padding=float(100 * (1 - sides.prod(axis=1).sum() / padded)),
        intraclass_correlation=alike,
        lag1_autocorrelation=following,
        effective_partners=partners,
    )


def _ratio_randomness(
    sizes: Int64, plan: BatchPlan, following: BatchPlan
) -> tuple[float | None, float | None, float]:
    """Return the figures of randomness of two epochs, in the order of :class:`ShapeReport`."""
    (rows, steps, batches, _), (later_rows, _, later, _) = plan_members(plan), plan_members(following)
    ratios = np.rint(_UNITS * np.log(sizes[rows, 0] / sizes[rows, 1])).astype(np.int64)
    means = np.bincount(steps, weights=ratios) / np.bincount(steps)
    alike, next_step = intraclass_correlation(ratios, batches), lag1_autocorrelation(means)
    partners = epoch_partners(len(sizes), (rows, batches), (later_rows, later))
    return defined(alike), defined(next_step), partners


def plan_members(plan: BatchPlan) -> tuple[Int64, Int64, Int64, Int64]:
    """The row, the step, the batch and the shape, (M, 2), of each sample, without repeated ones."""
    steps = np.repeat(np.arange(len(plan)), plan.valid)
    index = np.arange(len(steps)) - np.repeat(np.cumsum(plan.valid) - plan.valid, plan.valid)
    rows = plan.rows[plan.starts[steps] + index].astype(np.int64)
    return rows, steps, steps * plan.world_size + index % plan.world_size, plan.lengths[steps]


if TYPE_CHECKING:
    from collections.abc import Mapping

    from .plan import BatchPlan


@dataclass(frozen=True)
class BucketReport:
    """Figures of all batches of one padded length."""

    length: tuple[int, ...]  # Padded length; two for two lengths in each sample
    samples: int  # Number of samples, without repeated ones
    tokens: int  # Number of tokens of the samples
    padded_tokens: int  # Number of tokens of the padded batches
    padding: float  # Percentage of ``padded_tokens`` that is padding


@dataclass(frozen=True)
class PlanReport:
    """Figures of one epoch; repeated rows count as padding.

    Attributes:
        samples: Number of samples, without repeated ones; for a packing, of pieces of sequences.
        steps: Number of steps; for a packing, of packed rows.
        world_size: Number of ranks.
        tokens: Number of tokens of the samples.
        padded_tokens: Number of tokens of the padded batches.
        padding: Percentage of ``padded_tokens`` that is padding.
        padding_per_sample: Mean number of padding tokens in a sample.
        fill: Percentage of ``padded_tokens`` that is not padding.
        shapes: Number of distinct shapes.
        lower_bound: The least percentage of padding with as many distinct padded lengths; for a packing, with
            rows of this capacity.
        gap: ``padding`` less ``lower_bound``, in percentage points.
        efficiency_linear: Work of all ranks over what they could do in the time of the slowest rank at each
            step, 0 to 1, where a padded token costs 1.
        efficiency_quadratic: The same, where a sequence costs the square of its padded length.
        balance_tokens: The same, where a token costs 1 and padding nothing.
        balance_attention: The same, where a sequence costs the square of its length and padding nothing.
        intraclass_correlation: Likeness of the lengths in a batch; None where undefined.
        lag1_autocorrelation: Correlation of the mean lengths of successive steps; None where undefined.
        effective_partners: See :func:`stoker.bucketing.reports.effective_partners`; None without a
            second epoch.
        buckets: Figures of each padded length, ascending.
    """

    samples: int
    steps: int
    world_size: int
    tokens: int
    padded_tokens: int
    padding: float
    padding_per_sample: float
    fill: float
    shapes: int
    lower_bound: float
    gap: float
    efficiency_linear: float
    efficiency_quadratic: float
    balance_tokens: float
    balance_attention: float
    intraclass_correlation: float | None
    lag1_autocorrelation: float | None
    effective_partners: float | None
    buckets: tuple[BucketReport, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as values that JSON has."""
        return asdict(self)

    def to_json(self) -> str:
        """Return one JSON object, indented."""
        return json.dumps(self.as_dict(), indent=2, allow_nan=False)

    def table(self) -> str:
        """Return text: the figures, and a line for each of the first 32 buckets."""
        header = f"{'padded to':>12} {'samples':>10} {'tokens':>12} {'padding %':>10}"
        lines = [
            f"{'x'.join(map(str, bucket.length)):>12} {bucket.samples:>10} {bucket.tokens:>12}"
            f" {bucket.padding:>10.2f}"
            for bucket in self.buckets[:32]
        ]
        more = len(self.buckets) - len(lines)
        rest = [f"{f'and {more} more':>12}"] if more else []
        return "\n".join([compare({"plan": self}), "", header, *lines, *rest])


_ROWS = (
    ("samples", "d"),
    ("steps", "d"),
    ("world_size", "d"),
    ("shapes", "d"),
    ("padding", ".2f"),
    ("padding_per_sample", ".3f"),
    ("fill", ".2f"),
    ("lower_bound", ".2f"),
    ("gap", ".2f"),
    ("efficiency_linear", ".4f"),
    ("efficiency_quadratic", ".4f"),
    ("balance_tokens", ".4f"),
    ("balance_attention", ".4f"),
    ("intraclass_correlation", ".3f"),
    ("lag1_autocorrelation", ".3f"),
    ("effective_partners", ".0f"),
)


def compare(reports: Mapping[str, PlanReport]) -> str:
    """Return text with a column for each report and a line for each figure."""
    widths = {name: max(len(name), 10) for name in reports}
    lines = [" " * 24 + "".join(f"  {name:>{widths[name]}}" for name in reports)]
    for figure, style in _ROWS:
        values = [getattr(report, figure) for report in reports.values()]
        cells = ["-" if value is None else format(value, style) for value in values]
        line = "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths.values(), strict=True))
        lines.append(f"{figure.replace('_', ' '):<24}{line}")
    return "\n".join(lines)


def report_plan(
    plan: BatchPlan | PackingPlan, lengths: npt.ArrayLike, following: BatchPlan | PackingPlan | None = None
) -> PlanReport:
    """Return the figures of a plan.

    Args:
        plan: Plan of an epoch, or a packing.
        lengths: (N,) or (N, D) integers, from which the plan was made.
        following: Plan of another epoch by the same sampler, for ``effective_partners``.

    Raises:
        ConfigError: The plan has no batch, or has rows that ``lengths`` lacks.
    """
    table = as_lengths(lengths)
    members = _members(plan, table)
    total = members.lengths.sum(axis=1)
    partners = None
    if following is not None:
        later = _members(following, table)
        partners = epoch_partners(len(table), (members.rows, members.batches), (later.rows, later.batches))
    padded = float((members.width * members.sizes).sum())
    tokens = int(total.sum())
    bound = _lower_bound(plan, members)
    means = np.bincount(members.steps, weights=total) / np.bincount(members.steps)
    return PlanReport(
        samples=len(total),
        steps=len(plan),
        world_size=members.world_size,
        tokens=tokens,
        padded_tokens=int(padded),
        padding=100 * (1 - tokens / padded),
        padding_per_sample=(padded - tokens) / len(total),
        fill=100 * tokens / padded,
        shapes=len(np.unique(np.column_stack((members.sizes, members.padded)), axis=0)),
        lower_bound=bound,
        gap=100 * (1 - tokens / padded) - bound,
        efficiency_linear=members.efficiency(members.width[members.steps]),
        efficiency_quadratic=members.efficiency((members.padded**2).sum(axis=1)[members.steps]),
        balance_tokens=members.efficiency(total),
        balance_attention=members.efficiency((members.lengths**2).sum(axis=1)),
        intraclass_correlation=defined(intraclass_correlation(total, members.batches)),
        lag1_autocorrelation=defined(lag1_autocorrelation(means)),
        effective_partners=partners,
        buckets=_buckets(members, total),
    )


@dataclass(frozen=True)
class _Members:
    """The batch of each of M samples or pieces, without repeated ones."""

    rows: npt.NDArray[np.int64]  # (M,), the row of each in the dataset
    lengths: npt.NDArray[np.int64]  # (M, D), the tokens of each
    steps: npt.NDArray[np.int64]  # (M,), the step of each
    batches: npt.NDArray[np.int64]  # (M,), the batch of each: step * world_size + rank
    padded: npt.NDArray[np.int64]  # (steps, D), the padded lengths of each step
    sizes: npt.NDArray[np.int64]  # (steps,), the rows of all ranks with repeated ones; 1 for a packed row
    world_size: int

    @property
    def width(self) -> npt.NDArray[np.int64]:
        """(steps,) int64, the padded tokens of a sample at each step."""
        width: npt.NDArray[np.int64] = self.padded.sum(axis=1)
        return width

    def efficiency(self, costs: npt.NDArray[np.int64]) -> float:
        work = np.zeros(len(self.sizes) * self.world_size)
        np.add.at(work, self.batches, costs)
        return rank_efficiency(work.reshape(-1, self.world_size))


def _members(plan: BatchPlan | PackingPlan, lengths: npt.NDArray[np.int64]) -> _Members:
    if len(plan) == 0 or int(plan.rows.max()) >= len(lengths):
        raise ConfigError("the plan has no batch, or was made from other lengths")
    steps = np.arange(len(plan))
    if isinstance(plan, PackingPlan):
        batches = np.repeat(steps, np.diff(plan.offsets))
        padded = np.tile(np.atleast_1d(plan.capacity), (len(plan), 1))
        tokens = plan.lengths.reshape(len(plan.lengths), -1)
        return _Members(plan.rows, tokens, batches, batches, padded, np.ones_like(steps), 1)
    rows, steps, batches, _ = plan_members(plan)
    tokens = lengths.reshape(len(lengths), -1)[rows]
    return _Members(rows, tokens, steps, batches, plan.lengths, plan.sizes, plan.world_size)


def _lower_bound(plan: BatchPlan | PackingPlan, members: _Members) -> float:
    if isinstance(plan, PackingPlan):
        return 100 * (1 - int(plan.lengths.sum()) / (plan.least * int(np.sum(plan.capacity))))
    lengths = members.lengths[:, 0] if members.lengths.shape[1] == 1 else members.lengths
    shapes = len(np.unique(members.padded, axis=0))
    return 100 * bucket_boundaries(lengths, shapes, "quantile").lower_bound


def _buckets(members: _Members, total: npt.NDArray[np.int64]) -> tuple[BucketReport, ...]:
    lengths, bucket = np.unique(members.padded, axis=0, return_inverse=True)
    bucket = bucket.reshape(-1)
    padded = np.bincount(bucket, weights=members.width * members.sizes)
    tokens = np.bincount(bucket[members.steps], weights=total, minlength=len(lengths))
    samples = np.bincount(bucket[members.steps], minlength=len(lengths))
    return tuple(
        BucketReport(
            length=tuple(lengths[k].tolist()),
            samples=int(samples[k]),
            tokens=int(tokens[k]),
            padded_tokens=int(padded[k]),
            padding=100 * (1 - float(tokens[k] / padded[k])),
        )
        for k in range(len(lengths))
    )


if TYPE_CHECKING:
    import numpy.typing as npt

    from .packing import PackingPlan


@dataclass(frozen=True)
class FieldReport:
    """Figures of one field, such as the tokens of captions."""

    capacity: int  # Tokens that fit into a row
    mean: float  # Mean tokens of a sample
    filled: float  # Percentage of the rows that holds tokens
    bound: float  # The same if there were only as many rows as are needed at least


@dataclass(frozen=True)
class RowReport:
    """Figures of one epoch of packed rows."""

    samples: int  # Number of samples
    rows: int  # Number of rows
    least: int  # Lower bound on the number of rows; see :attr:`.packing.plan.PackingPlan.least`
    most: int  # Largest number of samples of a row
    effective_partners: float  # See :func:`.randomness.effective_partners`
    fields: tuple[FieldReport, ...]  # Figures of each field

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as values that JSON has."""
        return asdict(self)


def report_rows(plan: PackingPlan, following: PackingPlan) -> RowReport:
    """Return the figures of an epoch of whole samples; its randomness needs the following epoch."""
    tokens = plan.lengths.reshape(len(plan.lengths), -1).sum(axis=0).tolist()
    capacities = np.atleast_1d(plan.capacity).tolist()
    return RowReport(
        samples=len(plan.rows),
        rows=len(plan),
        least=plan.least,
        most=int(np.diff(plan.offsets).max()),
        effective_partners=effective_partners(_row_of_each(plan), _row_of_each(following)),
        fields=tuple(
            FieldReport(
                capacity=capacity,
                mean=total / len(plan.rows),
                filled=100 * total / (len(plan) * capacity),
                bound=100 * total / (plan.least * capacity),
            )
            for total, capacity in zip(tokens, capacities, strict=True)
        ),
    )


def _row_of_each(plan: PackingPlan) -> npt.NDArray[np.int64]:
    """(N,) int64, the packed row of each sample."""
    row_of_each = np.empty(len(plan.rows), np.int64)
    row_of_each[plan.rows] = np.repeat(np.arange(len(plan)), np.diff(plan.offsets))
    return row_of_each
