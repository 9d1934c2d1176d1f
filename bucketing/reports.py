"""Reports on plans: padding or cropping, shapes, balance of ranks, and randomness.

``stoker buckets`` and benchmarks print them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from .aspect_shapes import AspectSampler, cropped_shares
from .boundaries import as_lengths, bucket_boundaries
from .packing import PackingPlan
from .plan import BatchPlan

Int64 = npt.NDArray[np.int64]

_UNITS = 1e6  # of logarithms of ratios as whole numbers


@dataclass(frozen=True)
class BucketReport:
    """All batches of one padded length."""

    length: tuple[int, ...]  # Padded length; two for two lengths in each sample
    samples: int  # Number of samples, without repeated ones
    tokens: int  # Number of tokens of the samples
    padded_tokens: int  # Number of tokens of the padded batches
    padding: float  # Percentage of ``padded_tokens`` that is padding


@dataclass(frozen=True)
class PlanReport:
    """Numbers of one epoch; repeated rows count as padding.

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
        effective_partners: Effective number of samples that a sample's partners in a batch are drawn from:
            the batch size less one for frozen batches, about the number of samples for random ones. None
            without a second epoch.
        buckets: Samples, tokens and padding of each padded length, ascending.
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
        """Return the numbers as values that JSON has."""
        return asdict(self)

    def to_json(self) -> str:
        """Return one JSON object, indented."""
        return json.dumps(self.as_dict(), indent=2, allow_nan=False)

    def table(self) -> str:
        """Return text: the numbers, and a line for each of the first 32 buckets."""
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
    """Return text with a column for each report and a line for each number."""
    widths = {name: max(len(name), 10) for name in reports}
    lines = [" " * 24 + "".join(f"  {name:>{widths[name]}}" for name in reports)]
    for name, style in _ROWS:
        values = [getattr(report, name) for report in reports.values()]
        cells = ["-" if value is None else format(value, style) for value in values]
        line = "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths.values(), strict=True))
        lines.append(f"{name.replace('_', ' '):<24}{line}")
    return "\n".join(lines)


def report_plan(
    plan: BatchPlan | PackingPlan, lengths: npt.ArrayLike, following: BatchPlan | PackingPlan | None = None
) -> PlanReport:
    """Return the numbers of a plan.

    Args:
        plan: Plan of an epoch, or a packing.
        lengths: (N,) or (N, D) integers, from which the plan was made.
        following: Plan of another epoch by the same sampler, for ``effective_partners``.

    Raises:
        ConfigError: The plan has no batch, or has rows that ``lengths`` lacks.
    """
    members = _Members.of(plan, as_lengths(lengths))
    total = members.lengths.sum(axis=1)
    later = None if following is None else _Members.of(following, as_lengths(lengths))
    width = members.padded.sum(axis=1)
    padded_tokens = float((width * members.sizes).sum())
    tokens = int(total.sum())
    padding = 100 * (1 - tokens / padded_tokens)
    bound = _lower_bound(plan, members)
    correlation, autocorrelation = members.correlations(total)
    return PlanReport(
        samples=len(total),
        steps=len(plan),
        world_size=members.world_size,
        tokens=tokens,
        padded_tokens=int(padded_tokens),
        padding=padding,
        padding_per_sample=(padded_tokens - tokens) / len(total),
        fill=100 * tokens / padded_tokens,
        shapes=len(np.unique(np.column_stack((members.sizes, members.padded)), axis=0)),
        lower_bound=bound,
        gap=padding - bound,
        efficiency_linear=members.efficiency(width[members.steps]),
        efficiency_quadratic=members.efficiency((members.padded**2).sum(axis=1)[members.steps]),
        balance_tokens=members.efficiency(total),
        balance_attention=members.efficiency((members.lengths**2).sum(axis=1)),
        intraclass_correlation=correlation,
        lag1_autocorrelation=autocorrelation,
        effective_partners=None if later is None else members.partners(later),
        buckets=_buckets(members, width * members.sizes, total),
    )


@dataclass(frozen=True)
class _Members:
    """The batch of each of M samples or pieces, without repeated ones."""

    rows: Int64  # (M,), the row of each in the dataset
    lengths: Int64  # (M, D), the tokens of each
    steps: Int64  # (M,), the step of each
    batches: Int64  # (M,), the batch of each: step * world_size + rank
    padded: Int64  # (steps, D), the padded lengths of each step
    sizes: Int64  # (steps,), the rows of all ranks with repeated ones; 1 for a packed row
    world_size: int

    @classmethod
    def of(cls, plan: BatchPlan | PackingPlan, lengths: Int64) -> _Members:
        if len(plan) == 0 or int(plan.rows.max()) >= len(lengths):
            raise ConfigError("the plan has no batch, or was made from other lengths")
        steps = np.arange(len(plan))
        if isinstance(plan, PackingPlan):
            batches = np.repeat(steps, np.diff(plan.offsets))
            padded = np.tile(np.atleast_1d(plan.capacity), (len(plan), 1))
            tokens = plan.lengths.reshape(len(plan.lengths), -1)
            return cls(plan.rows, tokens, batches, batches, padded, np.ones_like(steps), 1)
        steps = np.repeat(steps, plan.valid)
        index = np.arange(len(steps)) - np.repeat(np.cumsum(plan.valid) - plan.valid, plan.valid)
        rows = plan.rows[plan.starts[steps] + index].astype(np.int64)
        batches = steps * plan.world_size + index % plan.world_size
        tokens = lengths.reshape(len(lengths), -1)[rows]
        return cls(rows, tokens, steps, batches, plan.lengths, plan.sizes, plan.world_size)

    def efficiency(self, costs: Int64) -> float:
        """The work of all ranks over what they could do in the time of the slowest at each step, 0 to 1."""
        work = np.zeros((len(self.sizes), self.world_size))
        np.add.at(work.reshape(-1), self.batches, costs)
        return float(work.sum() / (self.world_size * work.max(axis=1).sum()))

    def correlations(self, values: Int64) -> tuple[float | None, float | None]:
        """Likeness of the values in a batch, and correlation of the means of successive steps."""
        means = np.bincount(self.steps, weights=values) / np.bincount(self.steps)
        return intraclass_correlation(values, self.batches), lag1_autocorrelation(means)

    def partners(self, later: _Members) -> float:
        """The effective partners of the samples that are in both of two epochs."""
        batch = np.full((2, int(max(self.rows.max(), later.rows.max())) + 1), -1)
        for epoch, members in zip(batch, (self, later), strict=True):
            epoch[members.rows[::-1]] = members.batches[::-1]
        both = batch[:, (batch >= 0).all(axis=0)]
        return effective_partners(both[0], both[1])


def _lower_bound(plan: BatchPlan | PackingPlan, members: _Members) -> float:
    if isinstance(plan, PackingPlan):
        return 100 * (1 - int(plan.lengths.sum()) / (plan.least * int(np.sum(plan.capacity))))
    lengths = members.lengths[:, 0] if members.lengths.shape[1] == 1 else members.lengths
    shapes = len(np.unique(members.padded, axis=0))
    return 100 * bucket_boundaries(lengths, shapes, "quantile").lower_bound


def _buckets(members: _Members, padded_tokens: Int64, total: Int64) -> tuple[BucketReport, ...]:
    # padded_tokens (steps,), total (M,)
    lengths, bucket = np.unique(members.padded, axis=0, return_inverse=True)
    bucket = bucket.reshape(-1)
    padded = np.bincount(bucket, weights=padded_tokens)
    tokens = np.bincount(bucket[members.steps], weights=total, minlength=len(lengths))
    samples = np.bincount(bucket[members.steps], minlength=len(lengths))
    numbers = zip(lengths.tolist(), samples.tolist(), tokens.tolist(), padded.tolist(), strict=True)
    return tuple(
        BucketReport(tuple(length), count, int(used), int(filled), 100 * (1 - used / filled))
        for length, count, used, filled in numbers
    )


def intraclass_correlation(values: Int64, batches: Int64) -> float | None:
    """Return the likeness of values in a batch: 0 for random batches, 1 where all are equal."""
    # This is ICC(1) by one-way analysis of variance with unequal groups (Donner, "A review of inference
    # procedures for the intraclass correlation coefficient", 1986). It is None for a single batch, and for
    # batches of one sample.
    _, batches, sizes = np.unique(batches, return_inverse=True, return_counts=True)
    number, total = len(sizes), len(values)
    if number < 2 or total == number:
        return None
    centred = values - values.mean()
    means = np.bincount(batches, weights=centred) / sizes
    between = float((sizes * means**2).sum()) / (number - 1)
    within = float(((centred - means[batches]) ** 2).sum()) / (total - number)
    size = (total - float((sizes**2).sum()) / total) / (number - 1)
    spread = between + (size - 1) * within
    return (between - within) / spread if spread > 0 else None


def lag1_autocorrelation(series: npt.NDArray[np.float64]) -> float | None:
    """Return the correlation of each number with the next one: 0 where steps are shuffled."""
    centred = series - series.mean()
    spread = float((centred**2).sum())
    if len(series) < 3 or spread == 0:
        return None
    return float((centred[1:] * centred[:-1]).sum()) / spread


def effective_partners(first: Int64, second: Int64) -> float:
    """Return the effective number of samples that a sample's partners in a batch are drawn from."""
    # With k partners drawn from P in each of two epochs, k * k / P partners are in both. Frozen batches
    # therefore give the batch size less one, and random batches about the number of samples.
    _, second = np.unique(second, return_inverse=True)
    both = np.unique(first * (int(second.max()) + 1) + second, return_counts=True)[1]
    pairs = [_pairs(np.unique(batches, return_counts=True)[1]) for batches in (first, second)]
    again = _pairs(both)
    if again == 0:
        return float(len(first) - 1) if min(pairs) > 0 else 0.0
    return min(2 * pairs[0] * pairs[1] / (len(first) * again), float(len(first) - 1))


def _pairs(sizes: Int64) -> float:
    return float((sizes * (sizes - 1) / 2).sum())


@dataclass(frozen=True)
class FieldReport:
    """How packed rows are filled in one field, such as the tokens of captions."""

    capacity: int  # Tokens that fit into a row
    mean: float  # Mean tokens of a sample
    filled: float  # Percentage of the rows that holds tokens
    bound: float  # The same if there were only as many rows as are needed at least


@dataclass(frozen=True)
class RowReport:
    """One epoch of packed rows of whole samples."""

    samples: int
    rows: int
    least: int  # Lower bound on the number of rows
    most: int  # Largest number of samples of a row
    effective_partners: float
    fields: tuple[FieldReport, ...]


def report_rows(plan: PackingPlan, following: PackingPlan) -> RowReport:
    """Return the numbers of an epoch of whole samples; its randomness needs the following epoch."""
    members, later = (_Members.of(one, one.rows) for one in (plan, following))
    samples, tokens = len(plan.rows), members.lengths.sum(axis=0).tolist()
    return RowReport(
        samples=samples,
        rows=len(plan),
        least=plan.least,
        most=int(np.diff(plan.offsets).max()),
        effective_partners=members.partners(later),
        fields=tuple(
            FieldReport(
                room, total / samples, 100 * total / (len(plan) * room), 100 * total / (plan.least * room)
            )
            for total, room in zip(tokens, np.atleast_1d(plan.capacity).tolist(), strict=True)
        ),
    )


@dataclass(frozen=True)
class ShapeNumbers:
    """All image batches of one shape."""

    shape: tuple[int, int]  # Height and width, pixels
    samples: int
    cropped: float  # Mean percentage of an image that its crop leaves out


@dataclass(frozen=True)
class ImageReport:
    """One epoch of image batches by shape or group of aspect ratios; None where a number is undefined."""

    samples: int
    steps: int
    groups: int  # Number of shapes or groups that have images
    cropped: float  # Mean percentage of an image that its crop leaves out
    # Percentage of the batches' pixels that is padding, if all images are resized to one shorter side before
    padding: float
    intraclass_correlation: float | None  # Likeness of the aspect ratios in a batch
    lag1_autocorrelation: float | None  # Correlation of the mean ratios of successive steps
    effective_partners: float
    shapes: tuple[ShapeNumbers, ...] = ()  # By ascending height over width


def report_images(sampler: AspectSampler) -> ImageReport:
    """Return the numbers of the first epoch of a sampler, and its randomness over the first two."""
    members, later = (_Members.of(sampler.plan(epoch), sampler.lengths) for epoch in (0, 1))
    sizes = members.lengths
    # Logarithms of height over width, as whole numbers
    ratios = np.rint(_UNITS * np.log(sizes[:, 0] / sizes[:, 1])).astype(np.int64)
    numbers = (*members.correlations(ratios), members.partners(later))
    groups = len(np.unique(sampler.groups[members.rows]))
    report = ImageReport(len(members.rows), len(members.sizes), groups, 0.0, 0.0, *numbers)
    if sampler.shapes is None:
        sides = sizes / sizes.min(axis=1, keepdims=True)
        largest = np.zeros((int(members.batches.max()) + 1, 2))
        np.maximum.at(largest, members.batches, sides)
        padded = (largest.prod(axis=1) * np.bincount(members.batches, minlength=len(largest))).sum()
        return replace(report, padding=float(100 * (1 - sides.prod(axis=1).sum() / padded)))
    chosen = members.padded[members.steps]
    cropped = 100 * cropped_shares(sizes, chosen)
    used, which, samples = np.unique(chosen, axis=0, return_inverse=True, return_counts=True)
    means = np.bincount(which.reshape(-1), weights=cropped) / samples
    shapes = [
        ShapeNumbers((height, width), number, mean)
        for (height, width), number, mean in zip(used.tolist(), samples.tolist(), means.tolist(), strict=True)
    ]
    shapes.sort(key=lambda one: one.shape[0] / one.shape[1])
    return replace(report, groups=len(used), cropped=float(cropped.mean()), shapes=tuple(shapes))
