"""Labels and further columns of the samples of a text source, read from its objects before the conversion.

The rules for values are those of lists of images (:mod:`stoker.formats.sources.columns`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from stoker.errors import ConfigError, SourceError

from ..sources.classes import number_classes
from ..sources.columns import EntryColumns
from ..sources.listing import Skip
from .listing import RowColumns, TextListing

_CHUNK = 4096  # lines that are read at once
_FILLED = {"int64": 0, "double": np.nan, "large_string": ""}


def read_row_columns(listing: TextListing, wanted: RowColumns) -> TextListing:
    """Return the listing with labels, classes and columns; a sample without a label is left out."""
    if not wanted.names:
        return listing
    values = EntryColumns(cells=False)
    left_out: dict[int, Skip] = {}
    rows = np.fromiter(map(int, values.gather(_entries(listing, wanted, left_out))), np.int64)
    path = listing.files[0].path
    if not len(rows):
        raise SourceError(f"no sample has a label in {wanted.label!r}", path=path)
    everything = np.arange(len(rows))
    columns = {name: _spread(array, rows, len(listing)) for name, array in values.others(everything).items()}
    extended = replace(listing, columns={**listing.columns, **columns}, left_out=left_out)
    if wanted.label is None:
        return extended
    try:
        labels, classes = values.labels(everything)
    except ValueError as error:
        raise ConfigError(f"label {wanted.label!r}: {error}", path=path) from error
    extended = replace(extended, labels=labels, classes=classes)
    if wanted.classes is not None:
        extended = cast("TextListing", number_classes(extended, wanted.classes, path))
    assert extended.labels is not None, "set above"
    return replace(extended, labels=_spread(extended.labels, rows, len(listing)))


def _entries(listing: TextListing, wanted: RowColumns, left_out: dict[int, Skip]) -> Iterator[dict[str, Any]]:
    """Yield the values of each sample that has a label; its path is its row."""
    for start in range(0, len(listing), _CHUNK):
        rows = np.arange(start, min(start + _CHUNK, len(listing)))
        for row, document in zip(rows.tolist(), listing.documents(rows), strict=True):
            if document is None:
                continue  # the conversion skips it
            label = 0 if wanted.label is None else document.get(wanted.label)
            if label is None or label == "" or isinstance(label, (dict, list)):
                left_out[row] = Skip(listing.keys[row].as_py(), f"no label in {wanted.label!r}")
                continue
            if isinstance(label, bool):
                label = str(label)
            columns = {name: document.get(name) for name in wanted.columns}
            yield {**columns, "path": str(row), "label": label}


def _spread(array: pa.Array, rows: Any, size: int) -> pa.Array:
    """Return (size,) values with ``array`` at ``rows``; the conversion skips the samples at other rows."""
    if len(rows) == size:
        return array
    indices = np.full(size, len(rows), np.int64)
    indices[rows] = np.arange(len(rows))
    filled = pa.concat_arrays([array, pa.array([_FILLED[str(array.type)]], array.type)])
    return filled.take(pa.array(indices))
