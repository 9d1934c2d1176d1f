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
        ignore_index: Target where a model is not trained on the token that follows.
    """

    ignore_index: int = -100

    def __call__(self, samples: Packed, length: Any = None) -> dict[str, Any]:
        """Return "input_ids" and "targets", (B, L) each.

        Args:
            samples: B rows of L + 1 tokens.
            length: It follows from the samples.
        """
        sequences = samples.sequences
        ids = sequences.values.reshape(len(samples.groups) - 1, -1)
        targets = ids[:, 1:].copy()
        if sequences.trained is not None:
            targets[~sequences.trained.reshape(ids.shape)[:, 1:]] = self.ignore_index
        return {"input_ids": np.ascontiguousarray(ids[:, :-1]), "targets": targets}
