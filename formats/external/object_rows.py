"""The objects in the records of external shards, which become columns of the index."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from ..sources.annotated.object_issues import BadObjectError, checked_box
from ..sources.annotated.object_table import ObjectTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from ..containers.messages.image_record import ExternalObjects

__all__ = ["ObjectRows"]


class ObjectRows:
    """The objects of all rows, in memory until the index is written."""

    def __init__(self) -> None:
        self._table = ObjectTable()
        self._is_used = False

    def add(self, row: int, objects: ExternalObjects, height: int, width: int) -> Iterator[str]:
        """Add the objects of a row, and yield a reason for each that is left out.

        Boxes are clipped to the image, of ``height`` x ``width`` pixels.
        """
        self._is_used = True
        table = self._table
        for name in objects.flags.keys() - table.extra.keys():
            table.extra[name] = array("B", bytes(len(table)))
        for i, (box, label) in enumerate(zip(objects.boxes, objects.labels, strict=True)):
            try:
                clipped = _clipped(box, height, width)
            except BadObjectError as error:
                yield str(error.args[0])
                continue
            table.add(
                row,
                clipped,
                label,
                i,
                area=None if objects.area is None else objects.area[i],
                crowd=objects.crowd is not None and bool(objects.crowd[i]),
                extra={name: objects.flags[name][i] if name in objects.flags else 0 for name in table.extra},
            )

    def columns(self, rows: int) -> dict[str, pa.Array]:
        """Return the columns of an index of ``rows`` rows; none if no record says anything of objects."""
        return self._table.columns(np.array(self._table.image, np.int64), rows) if self._is_used else {}


def _clipped(
    box: tuple[float, float, float, float], height: int, width: int
) -> tuple[float, float, float, float]:
    """Return a box without the parts outside the image.

    Raises:
        BadObjectError: Nothing of it is left.
    """
    left, top, right, bottom = checked_box(*box)
    inside = max(left, 0.0), max(top, 0.0), min(right, float(width)), min(bottom, float(height))
    if not (inside[0] < inside[2] and inside[1] < inside[3]):
        raise BadObjectError("object outside its image")
    return inside
