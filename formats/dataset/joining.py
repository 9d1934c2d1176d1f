"""Samples of several datasets as one: its index, classes and manifest, and the next version with new shards.

``stoker.merge`` makes a dataset of several. ``stoker.append`` and a writer that appends add the shards of a
new dataset to one. Classes are joined by their names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker.errors import ConfigError

from ..containers.container import find_writing
from ..files import move_durably, read_regular, sync_folder, write_durably
from .columns import ArrayColumn, ListColumn, common_shape, renumber, shape_column
from .index import KNOWN_COLUMNS, Index, concat_indexes, write_index
from .manifest import (
    SKIPPED_NAME,
    IndexFile,
    Manifest,
    Option,
    Shard,
    end_tokens,
    index_name,
    published_names,
)
from .versions import publish_version

_EMPTY_LISTS = frozenset(
    ("jpeg_bands", "object_polygons", "object_polygon_sizes", "object_polygon_owner", "object_runs")
)
_ZERO_OF_EACH_OBJECT = "object_run_counts"
_WIDENED = ("double", "int64")  # types of a column whose new values happen to be whole
_CORNERS = "object_corners"
_TEXT_OPTIONS = ("fields", "tokenizer_digest", "vocab_size", "pad_id", "dtype", "template_digest")


@dataclass(frozen=True)
class Part:
    """A dataset that is joined with others."""

    folder: Path
    manifest: Manifest
    index: Path

    @classmethod
    def of(cls, folder: Path, manifest: Manifest) -> Part:
        return cls(folder, manifest, folder / manifest.index.file)


def check_parts(parts: Sequence[Part]) -> None:
    """Check that the samples of datasets have one form."""
    first, *others = parts
    for other in others:
        for name, (value, other_value) in _compared(first.manifest, other.manifest).items():
            if value != other_value:
                raise ConfigError(
                    f"the datasets differ in {name}: {value} in {first.folder}, "
                    f"and {other_value} in {other.folder}",
                    hint="Convert one of them again as the other was, or load both: stoker.mix.",
                )


def _compared(first: Manifest, other: Manifest) -> dict[str, tuple[object, object]]:
    """Return the two values of each property that must be equal, by its name."""
    compared: dict[str, tuple[object, object]] = {
        "container": (first.container, other.container),
        "kind": (first.sample_type, other.sample_type),
    }
    filled = {*_EMPTY_LISTS, _ZERO_OF_EACH_OBJECT}
    if _CORNERS not in first.columns:  # outlines of four vertices alone have them, too, and lose them here
        filled.add(_CORNERS)
    for name in sorted((first.columns.keys() | other.columns.keys()) - filled):
        types = (first.columns.get(name, "none"), other.columns.get(name, "none"))
        compared[f"column {name}"] = types if types != _WIDENED else types[:1] * 2
    compared["keypoints or values of masks"] = (first.annotations, other.annotations)
    for name in sorted(first.arrays.keys() & other.arrays.keys()):
        arrays = first.arrays[name], other.arrays[name]
        array, other_array = ((column.dtype, len(column.shape)) for column in arrays)
        compared[f"array {name}"] = array, other_array
    if first.options.get("tokenizer") or other.options.get("tokenizer"):
        for name in _TEXT_OPTIONS:
            compared[f"{name} of the tokens"] = (first.options.get(name), other.options.get(name))
        compared["special tokens around texts"] = (end_tokens(first.options), end_tokens(other.options))
    return compared


def join_classes(parts: Sequence[Part]) -> tuple[str, ...]:
    """Return the names of all classes, those of the first dataset first."""
    lists = [part.manifest.classes for part in parts]
    if len(set(lists)) == 1:
        return lists[0]
    for part, names in zip(parts, lists, strict=True):
        if not names and {"label", "object_labels"} & part.manifest.columns.keys():
            raise ConfigError(
                "the labels have no names, and classes are joined by name",
                path=part.folder,
                hint="Convert the source again with names of classes.",
            )
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise ConfigError(f"two classes have the name {twice[0]!r}", path=part.folder)
    return tuple(dict.fromkeys(name for names in lists for name in names))


def write_joined_index(parts: Sequence[Part], classes: tuple[str, ...], out: Path) -> None:
    """Write the rows of all datasets as one index, and sync it; temporary files lie beside it."""
    columns = list(dict.fromkeys(name for part in parts for name in part.manifest.columns))
    if _CORNERS not in parts[0].manifest.columns:
        columns = [name for name in columns if name != _CORNERS]
    first_shard, files = 0, []
    for number, part in enumerate(parts):
        widened = {name for name, kind in parts[0].manifest.columns.items() if kind == "double"}
        widened = {name for name in widened if part.manifest.columns.get(name) == "int64"}
        label_of = _label_of(part.manifest.classes, classes)
        if first_shard or widened or label_of is not None or list(part.manifest.columns) != columns:
            rewritten = _rewritten(part, columns, first_shard, label_of, widened)
            write_index(file := out.with_name(f"{number}.arrow"), rewritten)
            files.append(file)
        else:
            files.append(part.index)
        first_shard += len(part.manifest.shards)
    concat_indexes(files, out)


def _rewritten(
    part: Part,
    names: list[str],
    first_shard: int,
    label_of: npt.NDArray[np.int64] | None,
    widened: set[str],
) -> dict[str, Any]:
    """The columns of an index with new numbers of shards and classes, and integers that become floats."""
    index = Index.open(part.index)
    columns = {name: index.arrow(name) if name in index.types else _filled(name, index) for name in names}
    columns["shard"] = pa.array(index.column("shard") + np.int32(first_shard))
    for name in widened:
        columns[name] = _widened(columns[name], name, part)
    if label_of is not None:
        for name in {"label", "object_labels"} & columns.keys():
            if columns[name].type == pa.int64() or pa.types.is_large_list(columns[name].type):
                columns[name] = renumber(columns[name], label_of)
    return columns


def _widened(column: pa.Array, name: str, part: Part) -> pa.Array:
    try:
        return column.cast(pa.float64())
    except pa.ArrowInvalid as error:
        raise ConfigError(
            f"column {name!r} must have numbers that a float holds, as in the dataset, found {error}",
            path=part.folder,
        ) from error


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
    parts: Sequence[Part],
    classes: tuple[str, ...],
    shards: Sequence[Shard],
    index: Path,
    *,
    name: str | None,
    options: Mapping[str, Option],
) -> Manifest:
    """Return the manifest of joined datasets, whose shards are in the order of the parts."""
    # ``name`` is the final name of the joined index; None in a first version.
    opened, first = Index.open(index), parts[0].manifest
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


def _joined_ids(parts: Sequence[Part], classes: tuple[str, ...]) -> tuple[int | str, ...]:
    ids: dict[str, set[int | str]] = {name: set() for name in classes}
    for part in parts:
        for name, number in zip(part.manifest.classes, part.manifest.category_ids, strict=False):
            ids[name].add(number)
    joined = tuple(numbers.pop() if len(numbers) == 1 else -1 for numbers in ids.values())
    return joined if any(number != -1 for number in joined) else ()


def add_part(
    dataset: Part,
    new: Part,
    files: Sequence[Mapping[str, Path]],
    *,
    classes: tuple[str, ...],
    skipped: bytes,
    change: str,
    staging: Path,
) -> Manifest:
    """Make the next version of a dataset, whose lock the caller holds, with the samples of another."""
    # ``files`` has the files of each shard of ``new`` by the keys of ``published_names``; they are moved.
    # ``skipped`` are its lines of ``skipped.jsonl``. ``staging`` is a folder for unfinished files.
    folder, last = dataset.folder, dataset.manifest
    version = last.dataset_version + 1
    index = staging / "merged.arrow"
    write_joined_index((dataset, new), classes, index)
    suffix, count = find_writing(last.container).suffix, len(files)
    shards = list(last.shards)
    for number, (shard, old) in enumerate(zip(new.manifest.shards, files, strict=True)):
        name = f"shard-v{version}-{number:05d}-of-{count:05d}{suffix}"
        shards.append(replace(shard, name=name))
        for key, published in published_names(name, last.container).items():
            move_durably(old[key], folder / published)
    sync_folder(folder)
    name = index_name(version)
    grown = join_manifest((dataset, new), classes, shards, index, name=name, options=last.options)
    if skipped:
        path = folder / SKIPPED_NAME
        write_durably(staging / SKIPPED_NAME, (read_regular(path) if path.exists() else b"") + skipped)
        move_durably(staging / SKIPPED_NAME, path)
    added = new.manifest.index.rows
    publish_version(folder, last, grown, index=index, change=change, added=added, staging=staging)
    return grown
