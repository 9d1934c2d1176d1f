"""``stoker.merge``: a dataset of the samples of several, without copies of their shards."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from stoker.errors import ConfigError, DatasetError
from stoker.urls import is_url

from ..containers.container import find_container
from ..dataset.index import open_index
from ..dataset.joining import Part, check_parts, join_classes, join_manifest, write_joined_index
from ..dataset.manifest import INDEX_NAME, MANIFEST_NAME, SKIPPED_NAME, TOKENIZER_NAME, Option, Shard
from ..dataset.versions import (
    HISTORY_NAME,
    SHA256_NAME,
    STAGING_NAME,
    ChangeSummary,
    history_content,
    load_version,
    local_folder,
    read_sha256,
    sha256_content,
    split_version,
    staging_folder,
    with_sha256,
)
from ..files import (
    check_named,
    check_target,
    folder_lock,
    move_durably,
    os_errors,
    read_regular,
    remove,
    sync,
    sync_folder,
    write_durably,
)

_SMALL = (INDEX_NAME, SKIPPED_NAME, TOKENIZER_NAME, HISTORY_NAME, SHA256_NAME)


def merge(
    datasets: Sequence[str | os.PathLike[str]], into: str | os.PathLike[str], *, copy: bool = False
) -> ChangeSummary:
    """Make a dataset of the samples of several, in their order; classes are joined by their names.

    No byte of a shard is copied: a shard gets a second name (a hard link), and stays when the dataset that it
    came from is changed or removed. If no hard link can be made, as between two file systems, the new dataset
    refers to the shard by its absolute path, and needs it there.

    Args:
        datasets: Folders of two or more datasets, each with ``@`` and a version if it is not the last.
        into: Folder of the new dataset; made if missing.
        copy: Whether shards that cannot be linked are copied.

    Raises:
        ConfigError: The datasets differ in the form of their samples, or labels have no names to join by.
        DatasetError: A folder holds no dataset, or ``into`` holds one.
        LockedError: Another process writes into the folder.
        StaleIndexError: An index does not belong to its manifest.
        WriteError: The disk is full or refuses a write.
    """
    if isinstance(datasets, str) or len(datasets) < 2:
        raise ConfigError(f"merge needs two datasets or more, found {datasets!r}")
    parts = [_part(path) for path in datasets]
    check_parts(parts)
    classes = join_classes(parts)
    check_named(into=into)
    target = local_folder(into)
    check_target(target)
    with os_errors(target):
        target.mkdir(parents=True, exist_ok=True)
        with folder_lock(target):
            _make_room(target)
            try:
                with staging_folder(target) as staging:
                    return _publish(parts, classes, target, staging, copy=copy)
            except BaseException:
                _remove_unpublished(target)
                raise


def _part(path: str | os.PathLike[str]) -> Part:
    """Return a dataset whose shards and index are whole."""
    plain, version = split_version(path)
    folder = local_folder(plain)
    part = Part.of(folder, with_sha256(load_version(folder, version), read_sha256(folder), folder))
    if find_container(part.manifest.container).payload_files is not None:
        raise DatasetError(
            "the dataset is an index of image files, and there are no shards to merge",
            path=folder,
            hint="Convert the images, or load both datasets: stoker.mix.",
        )
    open_index(folder, part.manifest)
    part.manifest.data_files(folder, check=True)
    return part


def _make_room(target: Path) -> None:
    """Remove the files of a killed merge from a folder; DatasetError if another file is there."""
    if (target / STAGING_NAME).exists():
        _remove_unpublished(target)
    if files := sorted(file for file in target.iterdir() if not file.name.startswith(".")):
        raise DatasetError(
            f"the folder is not empty: it has {files[0].name}",
            path=target,
            hint="Name another folder for the merged dataset.",
        )


def _remove_unpublished(target: Path) -> None:
    if not (target / MANIFEST_NAME).exists():
        for file in (*target.glob("shard-*-of-*"), *(target / name for name in _SMALL)):
            remove(file)


def _publish(
    parts: list[Part], classes: tuple[str, ...], target: Path, staging: Path, *, copy: bool
) -> ChangeSummary:
    index = staging / INDEX_NAME
    write_joined_index(parts, classes, index)
    total = sum(len(part.manifest.shards) for part in parts)
    shards: list[Shard] = []
    for part in parts:
        for shard in part.manifest.shards:
            name = f"shard-{len(shards):05d}-of-{total:05d}"
            shards.append(_take_shard(part, shard, name, target, copy=copy))
    manifest = join_manifest(
        parts, classes, shards, index, name=None, options={**_common_options(parts), "made_by": "merge"}
    )
    change = f"merge {' '.join(str(part.folder) for part in parts)}"
    contents = {
        SKIPPED_NAME: b"".join(_content(part.folder / SKIPPED_NAME) for part in parts),
        TOKENIZER_NAME: _content(parts[0].folder / TOKENIZER_NAME),
        HISTORY_NAME: history_content(manifest, change, manifest.index.rows),
        SHA256_NAME: sha256_content(manifest),
        MANIFEST_NAME: manifest.to_json().encode(),
    }
    move_durably(index, target / INDEX_NAME)
    sync_folder(target)
    for name, content in contents.items():
        if content or name == SKIPPED_NAME:
            write_durably(staging / name, content)
            move_durably(staging / name, target / name)
    sync_folder(target)
    return ChangeSummary(target, 1, manifest.index.rows, added=manifest.index.rows)


def _take_shard(part: Part, shard: Shard, name: str, target: Path, *, copy: bool) -> Shard:
    """Link, copy or refer to a shard under a new name without a suffix; return its entry in the manifest."""
    merged = replace(shard, name=name + Path(shard.name).suffix, path=None)
    if shard.path is not None and is_url(shard.path):
        merged = replace(merged, path=shard.path)
    else:
        source = part.folder.absolute() / (shard.path or shard.name)
        if not _linked(source, target / merged.name):
            if copy:
                _copy(source, target / merged.name, shutil.copyfile)
            else:
                merged = replace(merged, path=str(source.resolve()))
    for sidecar in find_container(part.manifest.container).sidecars:
        beside = part.folder / sidecar.name(shard.name, external=shard.path is not None)
        if beside.exists():
            name = sidecar.name(merged.name, external=merged.path is not None)
            _copy(beside, target / name, shutil.copyfile)
    return merged


def _linked(source: Path, target: Path) -> bool:
    try:
        _copy(source, target, os.link)
    except OSError:  # another file system, or one without links; a full disk fails again later
        remove(target)
        return False
    return True


def _copy(source: Path, target: Path, copy_file: Callable[[Path, Path], object]) -> None:
    """Copy or link a shard, a file or a folder of files, with a function for one file, and sync it."""
    if source.is_dir():
        target.mkdir()
        for file in sorted(source.iterdir()):
            copy_file(file, target / file.name)
    else:
        copy_file(source.resolve(), target)
    sync(target)


def _content(file: Path) -> bytes:
    return read_regular(file) if file.exists() else b""


def _common_options(parts: list[Part]) -> dict[str, Option]:
    first, *others = (part.manifest.options for part in parts)
    common = {one[0]: one[1] for one in first.items() if all(one in other.items() for other in others)}
    for part in parts:  # one of them suffices, as all have one tokenizer
        if settings := part.manifest.options.get("tokenizer_settings"):
            return {**common, "tokenizer_settings": settings}
    return common
