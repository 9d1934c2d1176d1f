"""Random orders of rows for samplers and packing: pure functions of seed, epoch and stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.random import philox_permutation


def check_seed(seed: int, epoch: int) -> None:
    """Raise ConfigError unless ``seed`` is from 0 to 2**64 - 1 and ``epoch`` from 0 to 2**32 - 1."""
    for name, value, bits in (("seed", seed, 64), ("epoch", epoch, 32)):
        if not 0 <= value < 1 << bits:
            raise ConfigError(f"{name} must be from 0 to 2**{bits} - 1, found {value}")


def narrowed(numbers: npt.NDArray[np.int64], end: int) -> npt.NDArray[Any]:
    """Return numbers from 0 to ``end - 1`` as int32 if they fit, which halves the memory of plans."""
    dtype = np.int32 if end <= 1 << 31 else np.int64
    if len(numbers) and numbers.strides == (0,):  # one number for all, which takes no memory
        return np.broadcast_to(numbers[:1].astype(dtype), numbers.shape)
    return numbers.astype(dtype, copy=False)


def random_order(
    size: int, seed: int, epoch: int, stream: int, within: npt.NDArray[np.uint16] | None = None
) -> npt.NDArray[Any]:
    """Return a random permutation of 0 to size - 1."""
    # within (size,) uint16 -> (size,) int32
    order = narrowed(philox_permutation(size, epoch << 96 | stream << 64 | seed), size)
    return order if within is None else order[np.argsort(within[order], kind="stable")]
