"""The dataset that is changed: its locked folder, its last version, and a folder for unfinished files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stoker.errors import ConfigError

from ..dataset.consistency import local_folder
from ..dataset.manifest import Manifest
from ..dataset.sha256_file import read_sha256, with_sha256
from ..dataset.versions.naming import split_version
from ..dataset.versions.publishing import remove_remains
from ..files.publishing import folder_lock, os_errors, remove

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
