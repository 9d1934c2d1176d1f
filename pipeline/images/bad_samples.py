"""The budget of bad samples: how many of an epoch a loader skips or replaces before it gives up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, SupportsIndex

from stoker.errors import ConfigError

from ..execution.arguments import whole_number

__all__ = ["BadSampleBudget", "OnError", "make_bad_sample_budget"]

OnError = Literal["raise", "skip", "replace"]
_SHARE = 0.01
_LEAST_SEEN = 100
"""Samples that a loader has seen before a share counts: one bad sample of ten says little."""


@dataclass(frozen=True)
class BadSampleBudget:
    """The bad samples that an epoch may have on one rank.

    Attributes:
        max_bad: A number of samples, or as a float a share of the epoch's samples.
    """

    max_bad: int | float

    def is_exceeded(self, bad: int, *, samples: float, seen: int) -> bool:
        """Whether there are too many bad samples.

        Args:
            bad: Bad samples of the epoch so far.
            samples: Samples of a whole epoch on this rank.
            seen: Samples that the loader has seen in all epochs.
        """
        if isinstance(self.max_bad, int):
            return bad > self.max_bad
        return seen >= _LEAST_SEEN and bad > self.max_bad * samples


def make_bad_sample_budget(max_bad: int | float | None, on_error: OnError) -> BadSampleBudget:
    """Check a loader's argument ``max_bad``; None is one percent.

    Raises:
        ConfigError: ``max_bad`` is no number from 0 or share from 0 to 1, or every bad sample is an error.
    """
    if max_bad is None:
        return BadSampleBudget(_SHARE)
    if on_error == "raise":
        raise ConfigError(
            "max_bad limits the bad samples that are skipped or replaced, and on_error='raise' does neither",
            hint="Give on_error='skip' or 'replace', too, or leave out max_bad.",
        )
    if isinstance(max_bad, SupportsIndex):
        return BadSampleBudget(whole_number("max_bad", max_bad, 0))
    try:
        share = float(max_bad)
    except (TypeError, ValueError):
        raise ConfigError(f"max_bad must be a number or a share, found {max_bad!r}") from None
    if not 0 <= share <= 1:
        raise ConfigError(f"max_bad as a float is a share, 0 to 1, found {max_bad!r}")
    return BadSampleBudget(share)
