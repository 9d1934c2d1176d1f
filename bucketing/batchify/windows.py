"""The batchify function of streams: tokens, and the token that follows each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .ragged import Packed

__all__ = ["StreamWindows"]


@dataclass(frozen=True)
class StreamWindows:
    """Makes the arrays of a step of ``TextLoader(stream=...)``.

    Attributes:
        ignore_index: Target or label where a model is not trained.
    """

    ignore_index: int = -100

    def __call__(self, samples: Packed, length: Any = None) -> dict[str, Any]:
        """Return "input_ids" and "targets", the tokens that follow, (B, L) each.

        If tokens are masked, return "labels", the tokens that were hidden, instead of "targets".

        Args:
            samples: B rows of L + 1 tokens.
            length: It follows from the samples.
        """
        sequences = samples.sequences
        ids = sequences.values.reshape(len(samples.groups) - 1, -1)
        masked = sequences.targets is not None
        each = slice(0, -1) if masked else slice(1, None)
        trained = sequences.values if sequences.targets is None else sequences.targets
        targets = trained.reshape(ids.shape)[:, each].copy()
        if sequences.trained is not None:
            targets[~sequences.trained.reshape(ids.shape)[:, each]] = self.ignore_index
        name = "labels" if masked else "targets"
        return {"input_ids": np.ascontiguousarray(ids[:, :-1]), name: targets}
