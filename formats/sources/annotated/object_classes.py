"""Objects of some classes alone, for conversions that leave the others out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stoker.errors import SourceError

from ...dataset.columns.annotation_columns import from_columns, to_columns
from ...dataset.columns.list_column import ListColumn

if TYPE_CHECKING:
    from ..listing import Listing

__all__ = ["select_objects"]


def select_objects(listing: Listing, classes: tuple[str, ...]) -> Listing:
    """Return a listing whose objects are those of some classes; all images and all classes stay.

    Args:
        listing: A listing with objects.
        classes: Names of the classes; of a source without names, their number counts.

    Raises:
        SourceError: No object is left.
    """
    assert listing.objects is not None, "called for listings with objects"
    columns = {name: ListColumn.from_arrow(array) for name, array in listing.objects.columns.items()}
    n = len(listing)
    found = from_columns(columns, n, len(listing.info.keypoints))
    wanted = list(range(len(classes)))
    if listing.classes:
        wanted = [number for number, name in enumerate(listing.classes) if name in classes]
    chosen = np.isin(found.labels, wanted)
    if len(found) and not chosen.any():
        have = ", ".join(listing.classes[:10]) or "labels without names"
        raise SourceError(
            f"no object is of the classes {', '.join(classes[:10])}",
            path=listing.root,
            hint=f"the source has {have}",
        )
    if chosen.all():
        return listing
    made = to_columns(found.take(chosen).split(n))
    kept = {
        name: made[name].cast(array.type) for name, array in listing.objects.columns.items() if name in made
    }
    return replace(listing, objects=replace(listing.objects, columns=kept))
