"""Rows of the index that an engine needs to read and decode payloads."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

NO_CHECKSUM = 0
"""The ``crc`` of a payload that was not read for its index; readers do not compare it."""


@dataclass(frozen=True)
class Samples:
    """N rows of the index, as columns."""

    row: npt.NDArray[np.int64]  # (N,) int64, row of the sample in the index
    shard: npt.NDArray[np.int32]  # (N,) int32, index of its shard in the manifest
    record: npt.NDArray[np.int64]  # (N,) int64, number of the record in the shard
    offset: npt.NDArray[np.int64]  # (N,) int64, first byte of the payload in the shard's data file
    length: npt.NDArray[np.int64]  # (N,) int64, bytes of the payload
    # (N,) uint32, CRC32C (Castagnoli, RFC 3720, not masked) of the payload, or :data:`NO_CHECKSUM`
    crc: npt.NDArray[np.uint32]
    codec: npt.NDArray[np.uint8]  # (N,) uint8, see :class:`stoker.formats.codecs.codec.Codec`
    height: npt.NDArray[np.int32]  # (N,) int32, pixels, after the EXIF orientation has been applied
    width: npt.NDArray[np.int32]  # (N,) int32, pixels, after the EXIF orientation has been applied
    # (N,) uint8, EXIF orientation of the stored image, 1 to 8; 1 if it has none
    orientation: npt.NDArray[np.uint8]
    # (N, W) uint32, the lists of the index column ``jpeg_bands``, padded with zeros
    bands: npt.NDArray[np.uint32] | None = None

    def take(self, at: npt.NDArray[np.int64] | slice) -> Samples:
        """Return the rows at ``at``: (M,) int64, which may repeat, or successive ones."""
        columns = {one.name: getattr(self, one.name) for one in fields(self)}
        taken: dict[str, Any] = {n: None if values is None else values[at] for n, values in columns.items()}
        return Samples(**taken)

    def __len__(self) -> int:
        return len(self.row)
