"""Data files of a dataset, opened for engines and token readers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stoker._native import Shards, crc32c
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
