"""Where payloads of text lie; the token reader finds it, and reads there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["PayloadLocations"]


class PayloadLocations(NamedTuple):
    """Where the payloads of N samples lie, as the index says.

    Attributes:
        positions: (N,) int64, positions of the samples in the dataset.
        shard: (N,) int32, number of the data file.
        offset: (N,) int64, bytes from the beginning of the file.
        length: (N,) int64, bytes.
        crc: (N,) uint32, CRC32C of the payload.
        tokens: (N, F) int64, tokens in each of F stored fields.
    """

    positions: npt.NDArray[np.int64]
    shard: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    crc: npt.NDArray[np.uint32]
    tokens: npt.NDArray[np.int64]

    def part(self, each: slice) -> PayloadLocations:
        """Where some of the payloads lie."""
        return PayloadLocations._make(column[each] for column in self)
