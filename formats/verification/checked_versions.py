"""The versions of a dataset that are checked, the parts of each that no later version has, and problems.

:mod:`.verify` checks all of the last version. Of each earlier version it checks the manifest, the index, and
the samples and shards that later versions lack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stoker.errors import DatasetError

from ..dataset.consistency import open_index
from ..dataset.data_files import IndexFile, Shard
from ..dataset.index import Index
from ..dataset.manifest import Manifest
from ..dataset.sha256_file import read_sha256, with_sha256
from ..dataset.versions.naming import retired_manifest
from ..files.reading import file_digest, file_digests


@dataclass(frozen=True)
class Problem:
    """One problem, and the shard, record and sample that have it."""

    message: str  # The problem
    shard: str | None = None  # Name of the shard; None for a problem of the index or the manifest
    record: int | None = None  # Number of the record in the shard, from 0
    key: str | None = None  # The sample's name in its source

    def __str__(self) -> str:
        location = [
            f"{name} {value}" for name, value in vars(self).items() if name != "message" and value is not None
        ]
        return f"{', '.join(location)}: {self.message}" if location else self.message


@dataclass(frozen=True)
class CheckedVersion:
    """A version of a dataset, and the parts of it that are checked."""

    folder: Path  # The dataset's folder
    manifest: Manifest  # The manifest of the version
    files: list[Path]  # Data file of every shard
    index: Index | None  # Its index; None if it cannot be used
    problems: list[Problem]  # Problems of manifest and index
    rows: Sequence[range] = ()  # Rows of the index to check, as ranges
    shards: Sequence[int] = ()  # Numbers of the shards to check


def checked_versions(
    folder: Path, last: Manifest, *, earlier: bool
) -> tuple[list[CheckedVersion], list[Problem]]:
    """Return ``last`` and, if ``earlier``, the versions before it, and problems of unreadable manifests."""
    unreadable: list[Problem] = []
    kept = read_sha256(folder)
    try:
        last = with_sha256(last, kept, folder)
    except DatasetError as error:
        kept, unreadable = None, [Problem(error.message)]
    versions = [_version(folder, last, [], "")]
    for number in range(last.dataset_version - 1 if earlier else 0, 0, -1):
        if not (folder / retired_manifest(number)).exists():
            continue  # stoker stage copies only one version
        try:
            manifest = with_sha256(Manifest.load(folder, retired_manifest(number)), kept)
            versions.append(_version(folder, manifest, versions, f"version {number}: "))
        except DatasetError as error:
            unreadable.append(Problem(f"version {number}: {error.message}"))
    return versions, unreadable


def _version(folder: Path, manifest: Manifest, later: list[CheckedVersion], words: str) -> CheckedVersion:
    """Return a version with the rows and shards that no later one has; its problems start with ``words``."""
    index, problems = _open_index(folder, manifest, words)
    later_shards = {shard for version in later for shard in version.manifest.shards}
    shards = [number for number, shard in enumerate(manifest.shards) if shard not in later_shards]
    rows: list[range] = []
    if index is not None:
        later_ids = [_record_ids(version.index) for version in later if version.index is not None]
        ids = np.concatenate([np.empty(0, np.int64), *later_ids])
        new = np.isin(_record_ids(index), ids, invert=True)
        edges = np.flatnonzero(np.diff(np.concatenate(([False], new, [False]))))
        rows = [range(start, stop) for start, stop in edges.reshape(-1, 2).tolist()]
    return CheckedVersion(folder, manifest, manifest.data_files(folder), index, problems, rows, shards)


def _record_ids(index: Index) -> npt.NDArray[np.int64]:
    """Return (N,) int64, a number for shard and record of each row, the same in all versions."""
    shard, record = index.column("shard"), index.column("record")
    return np.asarray((shard.astype(np.int64) << 40) + record)


def _open_index(folder: Path, manifest: Manifest, words: str) -> tuple[Index | None, list[Problem]]:
    try:
        index = open_index(folder, manifest)
        if manifest.sample_type == "image":
            index.check_sizes()
        differing = differing_digest(folder / manifest.index.file, manifest.index)
        message = f"{words}the index is not the one of the manifest: its {differing} differs"
        return index, [Problem(message)] if differing else []
    except OSError as error:
        return None, [Problem(f"{words}the index cannot be read: {error}")]
    except DatasetError as error:
        return None, [Problem(f"{words}{error.message}")]


def differing_digest(path: Path, stated: Shard | IndexFile) -> str:
    """Return the name of a digest of a file that differs, "digest" or "SHA-256"; empty if none does."""
    if stated.sha256 is None:
        return "digest" if stated.digest not in (None, file_digest(path)) else ""
    digests = file_digests(path)
    if digests.crc != stated.digest:
        return "digest"
    return "SHA-256" if digests.sha256 != stated.sha256 else ""
