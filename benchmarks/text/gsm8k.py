"""Lengths of the texts of GSM8K's training split, which benchmarks and tests of batching read."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import numpy.typing as npt


def gsm8k_lengths(field: str) -> npt.NDArray[np.int64]:
    """Return (7473,) int64: whitespace tokens of "question" or "answer", in the order of the file."""
    with (files(__package__) / "gsm8k-lengths.npz").open("rb") as file, np.load(file) as table:
        return np.asarray(table[field], np.int64)
