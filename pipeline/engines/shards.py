"""Data files of a dataset, opened for engines and token readers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker._native import Column, Shards, crc32c
from stoker.errors import DatasetError, StaleIndexError
from stoker.formats.dataset.index import NO_CHECKSUM, Samples


def open_shards(files: Sequence[Path | str], sizes: Sequence[int], *, mapped: bool = True) -> Shards:
    """Open data files; the caller closes them."""
    try:
        return Shards(list(map(str, files)), list(sizes), mapped)
    except OSError as error:
        if error.errno is None:
            hint = "Rebuild the index with `stoker index`, or bring back the file that it was made for."
            raise StaleIndexError(str(error), hint=hint) from error
        raise DatasetError(f"a data file cannot be opened: {error}") from error


def matches_checksum(shards: Shards, payload: Any, samples: Samples, i: int) -> bool:
    """Return whether the payload of sample ``i`` matches its checksum; True if the index has no checksum."""
    if not shards.has_checksums(int(samples.shard[i])):
        return True
    return int(samples.crc[i]) in (NO_CHECKSUM, crc32c(payload))


def pack(columns: Iterable[Column], source: object) -> dict[str, npt.NDArray[Any]]:
    """Collect the attributes of ``source`` that columns are named after, in the form that C++ takes.

    A dotted name leads through attributes of attributes. Attributes that are None are left out. Arrays are
    copied only where their type or their order in memory is another one.
    """
    values = {column: _attribute(source, column.name) for column in columns}
    return {
        column.name: np.asarray(value, column.dtype, order="C")
        for column, value in values.items()
        if value is not None
    }


def _attribute(source: object, path: str) -> Any:
    name, _, rest = path.partition(".")
    value = getattr(source, name)
    return _attribute(value, rest) if rest and value is not None else value
