"""Joining of several datasets: one index, one list of classes and one manifest.

Classes are joined by their names. The callers, :mod:`.append` and :mod:`.merge`, move or link the shards.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker.errors import ConfigError

from ..conversion.publishing import merge_parts
from ..dataset.columns import ArrayColumn, ListColumn, common_shape, renumber, shape_column
from ..dataset.index import KNOWN_COLUMNS, Index, write_index
from ..dataset.manifest import IndexFile, Manifest, Option, Shard
from ..dataset.versions import local_folder, read_sha256, remove_remains, split_version, with_sha256
from ..files import folder_lock, os_errors, remove

_EMPTY_LISTS = frozenset(
    ("jpeg_bands", "object_polygons", "object_polygon_sizes", "object_polygon_owner", "object_runs")
)
_ZERO_OF_EACH_OBJECT = "object_run_counts"
_TEXT_OPTIONS = ("fields", "tokenizer_digest", "vocab_size", "pad_id", "dtype")


@dataclass(frozen=True)
class JoinedDataset:
    """A dataset that is joined with others."""

    folder: Path  # Its folder
    manifest: Manifest  # The manifest of its version

    @property
    def index(self) -> Path:
        """Its index."""
        return self.folder / self.manifest.index.file


def check_parts(parts: Sequence[JoinedDataset]) -> None:
    """Check that the samples of datasets have one form."""
    first, *others = parts
    for other in others:
        for name, (value, other_value) in _compared(first.manifest, other.manifest).items():
            if value != other_value:
                raise ConfigError(
                    f"the datasets differ in {name}: {value} in {first.folder}, "
                    f"and {other_value} in {other.folder}",
                    hint="convert one of them again as the other was, or load both: stoker.mix",
                )


def _compared(first: Manifest, other: Manifest) -> dict[str, tuple[object, object]]:
    """Return the two values of each property that must be equal, by its name."""
    compared: dict[str, tuple[object, object]] = {
        "container": (first.container, other.container),
        "kind": (first.sample_type, other.sample_type),
    }
    filled = {*_EMPTY_LISTS, _ZERO_OF_EACH_OBJECT}
    for name in sorted((first.columns.keys() | other.columns.keys()) - filled):
        compared[f"column {name}"] = (first.columns.get(name, "none"), other.columns.get(name, "none"))
    compared["keypoints or values of masks"] = (first.annotations, other.annotations)
    for name in sorted(first.arrays.keys() & other.arrays.keys()):
        arrays = first.arrays[name], other.arrays[name]
        array, other_array = ((column.dtype, len(column.shape)) for column in arrays)
        compared[f"array {name}"] = array, other_array
    if first.options.get("tokenizer") or other.options.get("tokenizer"):
        for name in _TEXT_OPTIONS:
            compared[f"{name} of the tokens"] = (first.options.get(name), other.options.get(name))
    return compared


def join_classes(parts: Sequence[JoinedDataset]) -> tuple[str, ...]:
    """Return the names of all classes: those of the first dataset, then the new ones of the others."""
    lists = [part.manifest.classes for part in parts]
    if len(set(lists)) == 1:
        return lists[0]
    for part, names in zip(parts, lists, strict=True):
        if not names and {"label", "object_labels"} & part.manifest.columns.keys():
            raise ConfigError(
                "the labels have no names, and classes are joined by name",
                path=part.folder,
                hint="convert the source again with names: --classes",
            )
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise ConfigError(f"two classes have the name {twice[0]!r}", path=part.folder)
    return tuple(dict.fromkeys(name for names in lists for name in names))


def write_joined_index(parts: Sequence[JoinedDataset], classes: tuple[str, ...], out: Path) -> None:
    """Write the rows of all datasets as one index, and sync it; temporary files lie beside it."""
    columns = list(dict.fromkeys(name for part in parts for name in part.manifest.columns))
    first_shard = 0
    files = []
    for number, part in enumerate(parts):
        file = out.with_name(f"{number}.arrow")
        files.append(_rewritten(part, columns, first_shard, classes, file))
        first_shard += len(part.manifest.shards)
    merge_parts(files, out)


def _rewritten(
    part: JoinedDataset, names: list[str], first_shard: int, classes: tuple[str, ...], file: Path
) -> Path:
    """Write an index with new numbers of shards and classes; return its path, or the old one if it fits."""
    index = Index.open(part.index)
    label_of = _label_of(part.manifest.classes, classes)
    if not first_shard and label_of is None and list(index.types) == names:
        return part.index
    columns = {name: index.arrow(name) if name in index.types else _filled(name, index) for name in names}
    columns["shard"] = pa.array(index.column("shard") + np.int32(first_shard))
    if label_of is not None:
        for name in {"label", "object_labels"} & columns.keys():
            if columns[name].type == pa.int64() or pa.types.is_large_list(columns[name].type):
                columns[name] = renumber(columns[name], label_of)
    write_index(file, columns)
    return file


def _label_of(names: tuple[str, ...], classes: tuple[str, ...]) -> npt.NDArray[np.int64] | None:
    """Return (L,) int64, the new label of each class; None if labels stay as they are."""
    if names == classes[: len(names)]:
        return None
    number = {name: label for label, name in enumerate(classes)}
    return np.array([number[name] for name in names], np.int64)


def _filled(name: str, index: Index) -> pa.Array:
    """Return the column that a dataset lacks: an empty list for each sample, or a zero for each object."""
    item = pa.array([], KNOWN_COLUMNS[name].value_type).to_numpy().dtype
    if name == _ZERO_OF_EACH_OBJECT:
        starts = index.lists("object_labels").starts
        return ListColumn(starts, np.zeros(int(starts[-1]), item)).to_arrow()
    return ListColumn(np.zeros(len(index) + 1, np.int64), np.zeros(0, item)).to_arrow()


def join_manifest(
    parts: Sequence[JoinedDataset],
    classes: tuple[str, ...],
    shards: Sequence[Shard],
    index: Path,
    *,
    name: str | None,
    options: Mapping[str, Option],
) -> Manifest:
    """Return the manifest of joined datasets, whose shards are in the order of the parts.

    ``name`` is the final name of the joined index; None in a first version.
    """
    opened = Index.open(index)
    first = parts[0].manifest
    skipped: Counter[str] = Counter()
    for part in parts:
        skipped.update(part.manifest.skipped)
    return Manifest(
        container=first.container,
        sample_type=first.sample_type,
        columns=opened.types,
        shards=tuple(shards),
        index=IndexFile.of(index, len(opened), name),
        classes=classes,
        options=options,
        skipped=dict(sorted(skipped.items())),
        annotations=first.annotations,
        arrays={
            name: ArrayColumn(column.dtype, common_shape(opened.lists(shape_column(name))))
            for name, column in first.arrays.items()
        },
        category_ids=_joined_ids(parts, classes),
    )


def _joined_ids(parts: Sequence[JoinedDataset], classes: tuple[str, ...]) -> tuple[int | str, ...]:
    """Return the source's id of each class; -1 if datasets have none or another one for it."""
    ids: dict[str, set[int | str]] = {name: set() for name in classes}
    for part in parts:
        for name, number in zip(part.manifest.classes, part.manifest.category_ids, strict=False):
            ids[name].add(number)
    joined = tuple(numbers.pop() if len(numbers) == 1 else -1 for numbers in ids.values())
    return joined if any(number != -1 for number in joined) else ()


STAGING_NAME = ".stoker-change"


@contextmanager
def locked_dataset(path: str | os.PathLike[str], *, resumes: bool = False) -> Iterator[tuple[Path, Manifest]]:
    """Hold the lock of a dataset's folder; yield the folder and the manifest of the last version.

    The files of a killed change are removed, except those of a conversion that resumes.
    """
    path, version = split_version(path)
    if version is not None:
        raise ConfigError(
            f"the path names version {version}, and changes are made to the last version",
            path=path,
            hint=f"leave out @{version}",
        )
    folder = local_folder(path)
    Manifest.load(folder)  # first: no lock file in a folder that is not a dataset
    with os_errors(folder, resumes=resumes), folder_lock(folder):
        last = Manifest.load(folder)
        with_sha256(last, read_sha256(folder), folder)  # a damaged file raises before any work
        remove_remains(folder, last)
        yield folder, last


@contextmanager
def staging_folder(folder: Path) -> Iterator[Path]:
    """Make a folder for unfinished files in the folder of a dataset, and remove it at the end."""
    staging = folder / STAGING_NAME
    remove(staging)
    staging.mkdir()
    try:
        yield staging
    finally:
        remove(staging)


@dataclass(frozen=True)
class ChangeSummary:
    """The result of :func:`stoker.append`, :func:`stoker.merge` or :func:`stoker.remove`.

    Attributes:
        path: The dataset's folder.
        version: Its last version now.
        samples: Samples of this version.
        added: Number of samples that the version before lacks.
        removed: Number of samples of the version before that this one lacks.
        skipped: Number of files or samples that were left out, by reason.
        already: Whether the dataset had all samples before, so that no version was made.
    """

    path: Path
    version: int
    samples: int
    added: int = 0
    removed: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    already: bool = False
