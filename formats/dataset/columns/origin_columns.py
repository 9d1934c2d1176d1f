"""The index columns of resized images: the size of the source image, and the way back to its pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Float = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

ORIGIN_COLUMNS: dict[str, pa.DataType] = {
    "source_height": pa.int32(),
    "source_width": pa.int32(),
    "source_left": pa.float64(),
    "source_top": pa.float64(),
    "source_scale_x": pa.float64(),
    "source_scale_y": pa.float64(),
}
"""Index columns of images that a conversion has resized.

A point (x, y) of the stored image is (source_left + source_scale_x * x, source_top + source_scale_y * y) in
the image of the source, after its EXIF orientation; in both, edges of pixels are integers."""


class Origin(NamedTuple):
    """The mapping from a stored image to the image of the source, as its values of :data:`ORIGIN_COLUMNS`."""

    height: int
    width: int
    left: float = 0.0
    top: float = 0.0
    scale_x: float = 1.0
    scale_y: float = 1.0


class Origins(NamedTuple):
    """The way from M stored images back to the images of the source."""

    sizes: Int64  # (M, 2) int64, height and width of the images of the source
    matrices: Float  # (M, 3, 3) float64, from (x, y, 1) in a stored image to (x, y, 1) in its source image


def has_origins(types: Mapping[str, str]) -> bool:
    """Return whether an index with columns of these names and types has all columns of origins."""
    return all(types.get(name) == str(arrow_type) for name, arrow_type in ORIGIN_COLUMNS.items())


def origin_columns(origins: Sequence[Origin]) -> dict[str, pa.Array]:
    """Return the index columns of N origins."""
    table: npt.NDArray[Any] = np.array(origins, np.float64).reshape(-1, len(ORIGIN_COLUMNS))
    return {
        name: pa.array(values).cast(arrow_type)
        for (name, arrow_type), values in zip(ORIGIN_COLUMNS.items(), table.T, strict=True)
    }
