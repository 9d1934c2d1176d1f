"""The columns ``to_source`` and ``source_size``: the way back from pixels of a batch to those of the source.

:mod:`stoker.augment.geometry.source_coordinates` brings boxes, keypoints and masks back by these columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from stoker.augment.params.image_params import ImageParams
    from stoker.formats.dataset.samples import Samples

    Float = npt.NDArray[np.float64]

__all__ = ["MATRIX", "SIZE", "source_matrices", "source_sizes"]

MATRIX = "to_source"
"""Name of the column of matrices; it follows images, so that views have one each."""
SIZE = "source_size"
"""Name of the column of heights and widths; it belongs to samples."""


def source_sizes(samples: Samples) -> npt.NDArray[np.int64]:
    """Height and width, (N, 2), of the images that :func:`source_matrices` leads to."""
    return np.stack((samples.height, samples.width), axis=1).astype(np.int64)


def source_matrices(
    names: Sequence[str], prefixes: Sequence[str], drawn: Sequence[ImageParams]
) -> list[Float | None]:
    """Matrices from the pixels of each column of images to those of the source.

    Args:
        names: Names of the columns of a batch.
        prefixes: What the names of columns that follow each column of images begin with.
        drawn: Parameters of the M images of each column of images.

    Returns:
        For each column of images (M, 3, 3), from homogeneous (x, y, 1) in the output to the source; None
        where a batch has no column of them.
    """
    return [
        params.to_source() if f"{prefix}{MATRIX}" in names else None
        for prefix, params in zip(prefixes, drawn, strict=True)
    ]
