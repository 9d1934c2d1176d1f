"""Shards of a dataset that get a place in another one, for :mod:`.merge`: linked, referred to, or copied."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ..containers.registry import find_container
from ..dataset.manifest import Shard
from ..files.publishing import remove, sync
from ..remote.store import is_url
from .joining import Part

__all__ = ["place_shard"]


def place_shard(part: Part, number: int, name: str, target: Path, *, copy: bool) -> Shard:
    """Give a shard a name in another dataset, and return what the manifest there says of it.

    Args:
        part: The dataset that has the shard.
        number: Its number there.
        name: Its new name, without a suffix.
        target: Folder of the other dataset.
        copy: Whether a shard that cannot be linked is copied; otherwise the manifest refers to it by path.
    """
    shard = part.manifest.shards[number]
    placed = replace(shard, name=name + Path(shard.name).suffix, path=None)
    if shard.path is not None and is_url(shard.path):
        placed = replace(placed, path=shard.path)
    else:
        source = part.folder.absolute() / (shard.path or shard.name)
        if not _linked(source, target / placed.name):
            if copy:
                _copy(source, target / placed.name, shutil.copyfile)
            else:
                placed = replace(placed, path=str(source.resolve()))
    _copy_sidecars(part, shard, placed, target)
    return placed


def _linked(source: Path, target: Path) -> bool:
    """Return whether a shard, a file or a folder of files, got a hard link."""
    try:
        _copy(source, target, os.link)
    except OSError:  # another file system, or one without links; a full disk fails again later
        remove(target)
        return False
    return True


def _copy(source: Path, target: Path, place: Callable[[Path, Path], object]) -> None:
    if source.is_dir():
        target.mkdir()
        for file in sorted(source.iterdir()):
            place(file, target / file.name)
    else:
        place(source.resolve(), target)
    sync(target)


def _copy_sidecars(part: Part, shard: Shard, placed: Shard, target: Path) -> None:
    for sidecar in find_container(part.manifest.container).sidecars:
        source = part.folder / sidecar.name(shard.name, external=shard.path is not None)
        if source.exists():
            name = sidecar.name(placed.name, external=placed.path is not None)
            _copy(source, target / name, shutil.copyfile)
