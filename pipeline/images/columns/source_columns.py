"""The columns ``to_source`` and ``source_size``: the way back from pixels of a batch to those of the source.

:mod:`stoker.augment.geometry.source_coordinates` brings boxes, keypoints and masks back by these columns.
"""

from __future__ import annotations

TO_SOURCE = "to_source"
"""Name of the column of matrices; it follows images, so that views have one each."""
SOURCE_SIZE = "source_size"
"""Name of the column of heights and widths; it belongs to samples."""
