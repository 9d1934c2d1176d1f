"""Padding of arrays of any rank along one axis, such as speech features (frames, channels)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .ragged import Ragged


def pad_arrays(
    samples: Ragged | Sequence[npt.ArrayLike],
    axis: int,
    length: int | None,
    *,
    pad_to_multiple_of: int,
    value: float,
    dtype: npt.DTypeLike | None,
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    """Return the samples in one array, padded at the end of an axis; and (N,) int32, their lengths there."""
    arrays = [np.asarray(samples[i]) for i in range(len(samples))]
    if not arrays:
        raise ConfigError("a batch needs at least one sample")
    first = arrays[0].shape
    if not -len(first) <= axis < len(first):
        raise ConfigError(f"axis must be one of a sample of shape {first}, found {axis}")
    axis %= len(first)
    for number, array in enumerate(arrays):
        if array.ndim != len(first) or _others(array.shape, axis) != _others(first, axis):
            raise ConfigError(
                f"samples may differ along axis {axis} alone: the first has shape {first}, and sample "
                f"{number} has {array.shape}"
            )
    lengths = np.array([array.shape[axis] for array in arrays], np.int32)
    longest = int(lengths.max())
    width = -(-longest // pad_to_multiple_of) * pad_to_multiple_of if length is None else length
    if longest > width:
        raise ConfigError(
            f"sample {int(lengths.argmax())} has length {longest} along axis {axis}, more than the {width} "
            "it is padded to"
        )
    shape = (len(arrays), *first[:axis], width, *first[axis + 1 :])
    padded = np.full(shape, value, dtype or np.result_type(*arrays))
    within = (slice(None),) * axis
    for target, array in zip(padded, arrays, strict=True):
        index = (*within, slice(array.shape[axis]))
        target[index] = array
    return padded, lengths


def _others(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]
