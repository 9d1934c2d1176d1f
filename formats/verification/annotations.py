"""Checks of the objects and the masks of a dataset, which verify() runs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stoker.errors import DatasetError

from ..codecs.registry import open_mask
from ..dataset.columns.annotation_columns import from_columns, is_object_column
from ..dataset.columns.list_column import ListColumn
from ..dataset.index import Index
from ..dataset.manifest import Manifest


def object_problems(index: Index, rows: range, manifest: Manifest) -> Iterator[tuple[int, str]]:
    """Yield the index in ``rows``, and the problem, of each row whose objects contradict the dataset."""
    names = [name for name, arrow_type in index.types.items() if is_object_column(name, arrow_type)]
    if not names:
        return
    try:
        columns = {name: index.lists(name) for name in names}
    except DatasetError as error:
        yield 0, error.message
        return
    for i, row in enumerate(rows):
        if message := _problem(index, columns, row, manifest):
            yield i, message


def _problem(index: Index, columns: dict[str, ListColumn], row: int, manifest: Manifest) -> str | None:
    try:
        of_row = {name: column.take([row]) for name, column in columns.items()}
        objects = from_columns(of_row, 1, len(manifest.annotations.keypoints))
        height, width = (int(index.column(name)[row]) for name in ("height", "width"))
    except (ValueError, DatasetError) as error:
        return f"the objects in the index contradict each other: {error}"
    if manifest.classes and ((objects.labels < 0) | (objects.labels >= len(manifest.classes))).any():
        return f"an object has a label outside the {len(manifest.classes)} classes"
    low, high = objects.boxes[:, :2], objects.boxes[:, 2:]
    if not ((low >= 0) & (low < high) & (high <= (width, height))).all():
        return f"an object has an empty box, or one that leaves the image of {width} x {height} pixels"
    pixels = height * width
    if any(len(runs) and int(runs.sum(dtype=np.int64)) != pixels for runs in objects.runs or ()):
        return f"an object has run lengths that do not fill {width} x {height} pixels"
    return None


def mask_problem(data: bytes, size: tuple[int, int]) -> str | None:
    """Return the problem of an intact mask of an image of ``size``, height and width; None if it has none."""
    try:
        with open_mask(data) as image:
            image.load()
            mask_size, mode = (image.height, image.width), image.mode
    # Pillow's decoders raise almost anything on a damaged image.
    except Exception as error:
        return f"the mask is not decodable: {error}"
    if mask_size != size:
        return f"the mask is {mask_size[1]} x {mask_size[0]} where the image is {size[1]} x {size[0]}"
    return None if mode in ("L", "I;16", "I;16B", "I") else f"the mask has more than one channel: {mode}"
