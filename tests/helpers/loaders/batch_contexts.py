"""Contexts of batches of text, as a loader passes them to masks and batchify functions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stoker.bucketing import BatchContext


def batch_context(rows: npt.ArrayLike, epoch: int = 0, step: int = 0) -> BatchContext:
    """Return the context of whole samples, each drawn once, in the order of the dataset."""
    numbers = np.asarray(rows, np.int64)
    return BatchContext(epoch, step, numbers, np.zeros_like(numbers), numbers, seed=7)
