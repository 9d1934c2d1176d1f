"""Reports on plans: padding, shapes, balance of ranks, and randomness."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from ..boundaries.bucket_boundaries import bucket_boundaries
from ..boundaries.lengths import as_lengths
from ..packing.plan import PackingPlan
from .randomness import defined, epoch_partners, intraclass_correlation, lag1_autocorrelation, rank_efficiency
from .shape_report import plan_members

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..samplers.plan import BatchPlan


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
        effective_partners: See :func:`stoker.bucketing.report.randomness.effective_partners`; None without a
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
