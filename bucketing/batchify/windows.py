"""The batchify function of streams: tokens, and the token that follows each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .ragged import Packed


@dataclass(frozen=True)
class StreamWindows:
    """Makes the arrays of a step of ``TextLoader(stream=...)``."""

    ignore_index: int = -100  # Target or label where a model is not trained

    def __call__(self, samples: Packed, length: Any = None) -> dict[str, Any]:
        """Return "input_ids" and "targets", the tokens that follow, (B, L) each.

        If tokens are masked, return "labels", the tokens that were hidden, instead of "targets".
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
