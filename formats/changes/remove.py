"""``stoker.remove``: a version of a dataset without some of its samples."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stoker.errors import ConfigError, SourceError

from ..dataset.index import Index, concat_indexes, open_index, write_index
from ..dataset.manifest import IndexFile, index_name
from ..dataset.selection import check_unambiguous, matching
from ..dataset.versions import ChangeSummary, locked_dataset, publish_version, staging_folder
from ..files import read_regular

_CHUNK = 1 << 20  # rows
_NOT_FOUND = "key that is not in the dataset"
_CHOOSE = (
    'Say in the condition which of them, such as where="key == {0!r} and shard == 0". Without the shard it '
    "leaves out all."
)


def remove(
    dataset: str | os.PathLike[str],
    *,
    keys: str | os.PathLike[str] | Iterable[str] | None = None,
    where: str | pc.Expression | None = None,
) -> ChangeSummary:
    """Make a version of a dataset without some of its samples; shards and earlier versions stay as they are.

    Every version can be opened: ``stoker.open(path, version=1)`` still has all samples of the first.

    Args:
        dataset: The dataset's folder.
        keys: Keys of the samples to leave out, or a file with a key on each line. Each names one sample.
        where: A condition on the index's columns, as :meth:`stoker.Dataset.select` takes it, such as
            ``"width < 64"``. With both arguments, all samples that either names are left out.

    Raises:
        ConfigError: Neither is given, a key names several samples, the condition cannot be used, or it would
            leave out no sample or all.
        DatasetError: There is no dataset in the folder, or it is at a URL.
        LockedError: Another process changes the dataset.
        SourceError: The file of keys cannot be read.
        WriteError: The disk is full or refuses a write.
    """
    if keys is None and where is None:
        raise ConfigError("remove needs keys or a condition", hint="Such as where='width < 64'.")
    changes, skipped = [], {}
    with locked_dataset(dataset) as (folder, last):
        index = open_index(folder, last)
        out = np.zeros(len(index), bool)
        if keys is not None:
            source = ""
            if isinstance(keys, (str, os.PathLike)):
                source, keys = f" of {Path(keys).name}", _read_keys(Path(keys))
            listed = set(keys)
            out |= np.asarray(
                pc.is_in(index.arrow("key"), value_set=pa.array(sorted(listed), pa.large_string()))
            )
            found = index.keys(np.flatnonzero(out))
            check_unambiguous(found, _CHOOSE)
            if missing := len(listed - set(found)):
                skipped[_NOT_FOUND] = missing
            changes.append(f"{len(listed):,} key{'' if len(listed) == 1 else 's'}{source}")
        if where is not None:
            out |= matching(index, where)
            changes.append(f"where {where}")
        if not out.any():
            raise ConfigError(
                "no sample would be left out: no key is in the dataset, and no sample meets the condition",
                path=folder,
                hint="stoker info --versions says what earlier commands have left out.",
            )
        if out.all():
            raise ConfigError(
                "every sample would be left out", path=folder, hint="Remove the folder instead."
            )
        with staging_folder(folder) as staging:
            merged = staging / "merged.arrow"
            concat_indexes(_filtered_parts(index, ~out, staging), merged)
            name = index_name(last.dataset_version + 1)
            grown = replace(last, index=IndexFile.of(merged, int((~out).sum()), name))
            change = f"remove {' and '.join(changes)}"
            publish_version(folder, last, grown, index=merged, change=change, added=0, staging=staging)
    version, samples = grown.dataset_version, grown.index.rows
    return ChangeSummary(folder, version, samples, removed=int(out.sum()), skipped=skipped)


def _read_keys(file: Path) -> list[str]:
    try:
        lines = read_regular(file).decode("utf-8-sig").split("\n")  # spreadsheets write a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"the file of keys cannot be read: {error}", path=file) from error
    return [line.removesuffix("\r") for line in lines if line.strip()]


def _filtered_parts(index: Index, keep: npt.NDArray[np.bool_], staging: Path) -> list[Path]:
    """Write the rows to keep as files of at most a million rows, so that memory does not grow with them."""
    parts = []
    for start in range(0, len(keep), _CHUNK):
        rows = pa.array(start + np.flatnonzero(keep[start : start + _CHUNK]))
        if len(rows):
            parts.append(staging / f"{start}.arrow")
            write_index(parts[-1], {name: index.arrow(name).take(rows) for name in index.types})
    return parts
