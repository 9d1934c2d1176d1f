"""Files in a conversion's target that the conversion would replace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.errors import DatasetError

from ...containers.registry import find_writing
from ...dataset.manifest import INDEX_NAME, MANIFEST_NAME, SKIPPED_NAME
from ...files.publishing import remove
from ..shards.shard_file import published_names

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["make_room"]


def make_room(folders: Iterable[Path], container: str, *, overwrite: bool, remains: bool) -> None:
    """Check that a conversion replaces nothing that it may not replace.

    Args:
        folders: Folders of the datasets that will be made.
        container: Name of the container of their shards.
        overwrite: Whether everything may be replaced.
        remains: Whether a writer that was killed has left files there, which are removed.

    Raises:
        DatasetError: There is a dataset, or a file with the name of a published one.
    """
    for folder in folders:
        if (folder / MANIFEST_NAME).exists():
            if overwrite:
                continue  # it stays until the new one is whole
            raise DatasetError(
                "there is a dataset in the folder already",
                path=folder,
                hint="name another folder, or replace it with overwrite=True (--overwrite)",
            )
        for file in _published_files(folder, container):
            if remains:
                remove(file)
            elif not overwrite:  # other programs use these names, too
                raise DatasetError(
                    "a file in the folder would be replaced, and it belongs to no dataset",
                    path=file,
                    hint="name another folder, or replace such files with overwrite=True (--overwrite)",
                )


def _published_files(folder: Path, container: str) -> list[Path]:
    patterns = published_names(f"shard-*-of-*{find_writing(container).suffix}", container)
    names = (patterns["shard"], *sorted(patterns.values()), INDEX_NAME, SKIPPED_NAME)
    return [file for name in names for file in sorted(folder.glob(name))]
