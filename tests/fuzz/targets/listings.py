"""Checks of a listing that a target has made of a damaged source of objects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from helpers.datasets import jpeg

from stoker.formats.dataset.annotations import from_columns
from stoker.formats.dataset.columns import ListColumn
from stoker.formats.sources.listing import Listing
from stoker.formats.sources.registry import find_format, list_source
from stoker.formats.sources.source import Source

IMAGES = ("a.jpg", "b.jpg")


def write_images(folder: Path) -> None:
    """Write the images of a source, 12 x 16."""
    folder.mkdir(parents=True)
    for seed, name in enumerate(IMAGES):
        (folder / name).write_bytes(jpeg(seed))


def list_as(format_name: str, path: Path) -> Listing:
    """List a source as one of this format."""
    source = Source(path)
    return list_source(source, find_format(source, format_name))


def check_listing(listing: Listing, what: str = "", expected: int = 0) -> bool:
    """Check columns, boxes and labels; return whether there is an object."""
    assert all(isinstance(name, str) for name in listing.classes)
    assert listing.objects is not None
    for column in [listing.keys, *listing.columns.values(), *listing.objects.columns.values()]:
        column.validate(full=True)
        assert len(column) == len(listing)
    columns = {name: ListColumn.from_arrow(values) for name, values in listing.objects.columns.items()}
    objects = from_columns(columns, len(listing), len(listing.info.keypoints))
    assert np.isfinite(objects.boxes).all()
    assert (objects.boxes[:, :2] <= objects.boxes[:, 2:]).all()  # equal where float32 makes them so
    assert ((objects.labels >= 0) & (objects.labels < max(1, len(listing.classes)))).all()
    skipped = sum(what in skip.detail for skip in listing.skipped)
    assert len(objects.labels) + skipped >= expected, f"{expected} objects became {len(objects.labels)}"
    return len(objects.labels) > 0
