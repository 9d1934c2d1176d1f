"""Reports on packed rows of several fields: their fill against the bound, and randomness."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .randomness import effective_partners

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..packing.plan import PackingPlan


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
