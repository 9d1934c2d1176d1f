"""Reports on plans of padded batches of images by groups of aspect ratios: padding and randomness."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..samplers.by_ratio import ratio_groups
from .shape_report import plan_members, ratio_randomness

if TYPE_CHECKING:
    from ..samplers.by_ratio import RatioGroupSampler

__all__ = ["RatioReport", "report_ratio_groups"]


@dataclass(frozen=True)
class RatioReport:
    """Figures of one epoch of padded batches.

    Attributes:
        samples: Number of samples.
        steps: Number of steps.
        groups: Number of groups that have images.
        padding: Percentage of the batches' pixels that is padding, if all images are resized to one shorter
            side before.
        intraclass_correlation: Likeness of the aspect ratios in a batch; None where undefined.
        lag1_autocorrelation: Correlation of the mean ratios of successive steps; None where undefined.
        effective_partners: See :func:`stoker.bucketing.report.randomness.effective_partners`.
    """

    samples: int
    steps: int
    groups: int
    padding: float
    intraclass_correlation: float | None
    lag1_autocorrelation: float | None
    effective_partners: float

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as values that JSON has."""
        return asdict(self)


def report_ratio_groups(sampler: RatioGroupSampler) -> RatioReport:
    """Return the figures of the first epoch of a sampler, and its randomness over the first two."""
    sizes = sampler.lengths
    rows, steps, batches, _ = plan_members(plan := sampler.plan(0))
    sides = sizes[rows] / sizes[rows].min(axis=1, keepdims=True)
    largest = np.zeros((int(batches.max()) + 1, 2))
    np.maximum.at(largest, batches, sides)
    padded = (largest.prod(axis=1) * np.bincount(batches, minlength=len(largest))).sum()
    alike, following, partners = ratio_randomness(sizes, plan, sampler.plan(1))
    return RatioReport(
        samples=len(rows),
        steps=len(np.unique(steps)),
        groups=len(np.unique(ratio_groups(sizes, sampler.factor))),
        padding=float(100 * (1 - sides.prod(axis=1).sum() / padded)),
        intraclass_correlation=alike,
        lag1_autocorrelation=following,
        effective_partners=partners,
    )
