"""The publication of an index as a dataset, and of a dataset's next version, each by one last rename."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stoker.errors import DatasetError, LockedError

from ...files.publishing import (
    folder_for_writing,
    folder_lock,
    move_durably,
    remove,
    sync,
    sync_folder,
    write_durably,
)
from ..manifest import MANIFEST_NAME, Manifest, index_name
from ..sha256_file import SHA256_NAME, read_sha256, sha256_content
from .history import history_lines
from .naming import HISTORY_NAME, retired_manifest

_TEMPORARY = ".index-"


def publish_index(folder: Path, make: Callable[[Path], Manifest]) -> Manifest:
    """Make a dataset of an index in a folder, which is made if missing, and return its manifest.

    ``make`` writes all files except the manifest into a temporary folder, and returns the manifest.
    """
    with folder_for_writing(folder), folder_lock(folder):
        if (folder / MANIFEST_NAME).exists():
            raise DatasetError(
                "the folder is a dataset already", path=folder, hint="name another folder, or remove it"
            )
        for left in folder.glob(f"{_TEMPORARY}*"):
            remove(left)
        with tempfile.TemporaryDirectory(dir=folder, prefix=_TEMPORARY) as temporary:
            manifest = make(Path(temporary))
            sync(Path(temporary))
            for file in Path(temporary).iterdir():
                move_durably(file, folder / file.name)
        sync_folder(folder)
        # Last: without the manifest the folder is not a dataset.
        write_durably(folder / MANIFEST_NAME, manifest.to_json().encode())
    return manifest


@dataclass(frozen=True)
class NextVersion:
    """A version of a dataset that is about to be published."""

    manifest: Manifest  # Its manifest
    index: Path  # Its index, synced, on the file system of the dataset
    change: str  # What was done, for people: ``append photos/new``
    added: int = 0  # Number of samples that were added


def publish_version(folder: Path, last: Manifest, following: NextVersion, staging: Path) -> None:
    """Make the next version of a dataset, whose lock the caller holds; its shards are in place already.

    A process that is killed at any point leaves the last version or the new one. ``staging`` is a folder on
    the same file system for unfinished files.
    """
    grown = following.manifest
    contents = {
        HISTORY_NAME: history_lines(folder, last, grown, following.change, following.added),
        SHA256_NAME: sha256_content(grown, read_sha256(folder), folder),
        retired_manifest(last.dataset_version): last.to_json().encode(),
        MANIFEST_NAME: grown.to_json().encode(),
    }
    move_durably(following.index, folder / index_name(grown.dataset_version))
    for name, content in contents.items():
        write_durably(staging / name, content)
        move_durably(staging / name, folder / name)
        sync_folder(folder)


def check_unchanged(folder: Path, last: Manifest) -> None:
    """Raise LockedError if another process has made a version before this one had the lock."""
    if Manifest.load(folder).fingerprint != last.fingerprint:
        raise LockedError("another process has just changed the dataset", path=folder, hint="try again")


def remove_remains(folder: Path, last: Manifest) -> None:
    """Remove the files of a next version whose process was killed before the manifest was written."""
    version = last.dataset_version + 1
    for pattern in (f"shard-v{version}-*", index_name(version)):
        for file in folder.glob(pattern):
            remove(file)
