"""The epoch, step and samples of a batch, for batchify functions and masks that draw random numbers.

A batchify function that has a parameter ``context`` gets a :class:`BatchContext`; others do not.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stoker.random import hash_words

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class BatchContext:
    """The epoch, the step and the samples of a batch of P sequences.

    Attributes:
        epoch: Number of the epoch.
        step: Number of the step in the epoch, the same on all ranks. It counts on after a resume.
        rows: (P,) int64, the number of each sequence's sample, as the column ``row`` has it.
        begins: (P,) int64, the first token of each sequence in its sample; above 0 only if it was split.
        draws: (P,) int64, the number of the draw in the epoch. A sample that is drawn twice has two.
        seed: Seed of the loader.
    """

    epoch: int
    step: int
    rows: npt.NDArray[np.int64]
    begins: npt.NDArray[np.int64]
    draws: npt.NDArray[np.int64]
    seed: int

    def random_words(self, stream: int) -> npt.NDArray[np.uint64]:
        """(P,) uint64 random words, a function of the seed, the epoch and each sequence.

        They do not depend on the step, the rank, or the other sequences of the batch.

        Args:
            stream: Any integer; another one gives independent words.
        """
        return hash_words((self.seed, self.epoch, stream), self.rows, self.begins, self.draws)


class Contextual:
    """A batchify function that is called with a context only if ``function`` has such a parameter."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        try:
            self._takes_context = "context" in inspect.signature(function).parameters
        except (TypeError, ValueError):  # a compiled function without a signature
            self._takes_context = False

    def __call__(self, samples: Any, length: Any, context: BatchContext | None) -> Any:
        """Return what the function makes of the samples of a batch."""
        if self._takes_context:
            return self._function(samples, length, context=context)
        return self._function(samples, length)
