"""The matrices of the column ``to_source``, of each column of images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stoker.augment.params.image_params import ImageParams
from stoker.formats.dataset.columns.origin_columns import Origins

from .image_column import ImageColumn
from .source_columns import MATRIX

Float = npt.NDArray[np.float64]

__all__ = ["source_matrices"]


def source_matrices(
    names: Sequence[str],
    columns: Sequence[ImageColumn],
    drawn: Sequence[ImageParams],
    origins: Origins | None,
) -> list[Float | None]:
    """Matrices from the pixels of each column of images to those of the source.

    Args:
        names: Names of the columns of a batch.
        columns: The columns of images.
        drawn: Parameters of the M images of each column of images.
        origins: The way from the N stored images to those of the source; None where no column needs it.

    Returns:
        For each column of images (M, 3, 3), from homogeneous (x, y, 1) in the output to the source; None
        where a batch has no column of them.
    """
    found: list[Float | None] = []
    for column, params in zip(columns, drawn, strict=True):
        if origins is None or f"{column.prefix}{MATRIX}" not in names:
            found.append(None)
        else:
            shown = column.samples_of_images(len(origins.sizes))
            found.append(origins.matrices[shown] @ params.to_source())
    return found
