"""Where the payloads of some samples lie: what the index tells an engine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Codec", "Samples"]


class Codec(IntEnum):
    """How a payload is encoded; the numbers are those of the index column ``codec``."""

    RAW = 0
    """``height * width * 3`` bytes, RGB, rows from the top, no padding."""
    JPEG = 1
    PNG = 2
    WEBP = 3
    BMP = 4
    GIF = 5
    TIFF = 6
    PLANES = 7
    """(channels, height, width) uint8, as in Caffe's Datum: one plane, grey, or blue, green and red."""
    OTHER = 255


@dataclass(frozen=True)
class Samples:
    """Rows of the index, as columns. All arrays have length N.

    Attributes:
        row: (N,) int64, position of the sample in the index.
        shard: (N,) int32, position of its shard in the manifest.
        record: (N,) int64, position of the record in the shard.
        offset: (N,) int64, first byte of the payload in the shard's data file.
        length: (N,) int64, bytes of the payload.
        crc: (N,) uint32, CRC32C (Castagnoli, RFC 3720, not masked) of the payload.
        codec: (N,) uint8, see :class:`Codec`.
        height: (N,) int32, pixels, after the EXIF orientation has been applied.
        width: (N,) int32, likewise.
        orientation: (N,) uint8, EXIF orientation 1 to 8 of the stored image (1 where it has none).
    """

    row: npt.NDArray[np.int64]
    shard: npt.NDArray[np.int32]
    record: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    crc: npt.NDArray[np.uint32]
    codec: npt.NDArray[np.uint8]
    height: npt.NDArray[np.int32]
    width: npt.NDArray[np.int32]
    orientation: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.row)
