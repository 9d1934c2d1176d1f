"""Reports on plans of batches of images by shape or aspect ratio: cropping, padding and randomness."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..boundaries.aspect_shapes import cropped_shares
from ..samplers.by_aspect import ratio_groups
from .randomness import defined, epoch_partners, intraclass_correlation, lag1_autocorrelation

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..samplers.by_aspect import RatioGroupSampler, ShapeBucketSampler
    from ..samplers.plan import BatchPlan

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
    effective_partners: float  # See :func:`stoker.bucketing.report.randomness.effective_partners`
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
    effective_partners: float  # See :func:`stoker.bucketing.report.randomness.effective_partners`

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
