"""Versions of a dataset: their names, manifests, history and SHA-256, and the publication of the next one.

Shards never change. Version 2 has an index ``index-v2.arrow`` and its own shards, and ``dataset.json`` is the
manifest of the last version; earlier ones are ``dataset-v1.json`` and so on. ``versions.jsonl`` has
one line for each change. ``sha256.json`` has the SHA-256 of indexes, shards and manifests, which writers
compute. They are not in the manifest, because earlier releases refuse manifests with unknown keys.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path

from stoker._native import crc32c
from stoker.arguments import optional_number
from stoker.errors import ConfigError, DatasetError, LockedError
from stoker.urls import is_url

from ..files import (
    check_named,
    check_resources,
    digest_of,
    folder_for_writing,
    folder_lock,
    move_durably,
    os_errors,
    read_regular,
    remove,
    sync,
    sync_folder,
    write_durably,
)
from .manifest import MANIFEST_NAME, MOST_MANIFEST_BYTES, Manifest, from_document, index_name

HISTORY_NAME = "versions.jsonl"
SHA256_NAME = "sha256.json"
_REMOVE_SHA256 = "Remove this file: the digests are then computed again when they are needed."
STAGING_NAME = ".stoker-change"

_FILES = re.compile(r"index-v\d+\.arrow|dataset-v\d+\.json")
_AT_VERSION = re.compile(r"(.+)@([1-9]\d{0,8})", re.DOTALL)
_TEMPORARY = ".index-"
_SHA256_VERSION = 1
_SHA256 = re.compile(r"[0-9a-f]{64}")


def split_version(
    path: str | os.PathLike[str], version: int | None = None
) -> tuple[str | os.PathLike[str], int | None]:
    """Return the path and the version of a dataset; ``PATH@3`` names both, unless a folder has this name."""
    version = optional_number("version", version, 1)
    match = _AT_VERSION.fullmatch(os.fspath(path)) if isinstance(path, (str, os.PathLike)) else None
    if match is None or (not is_url(path) and Path(path).exists()):
        return path, version
    named = int(match[2])
    if version not in (None, named):
        raise ConfigError(f"the path names version {named}, and version is {version}", path=path)
    return (match[1] if isinstance(path, str) else Path(match[1])), named


def local_folder(path: str | os.PathLike[str]) -> Path:
    """Return a dataset's folder on this machine."""
    check_named(dataset=path)
    if is_url(path):
        raise DatasetError(
            "the dataset is at a URL, not on a disk",
            path=path,
            hint="Copy it to a disk with stoker stage, or open it with a cache: cache=FOLDER.",
        )
    return Path(path)


def retired_manifest(version: int) -> str:
    """Return the name of the manifest of a version that is not the last one."""
    return f"dataset-v{version}.json"


def is_of_version(name: str) -> bool:
    """Return whether a file in a dataset's folder belongs to a version, but is not a shard."""
    return name == HISTORY_NAME or _FILES.fullmatch(name) is not None


def load_version(folder: Path, version: int | None = None) -> Manifest:
    """Return the manifest of a version of the dataset in ``folder``; None for the last one."""
    last = Manifest.load(folder)
    if version in (None, last.dataset_version):
        return last
    if version > last.dataset_version:
        raise no_version(folder, version, last.dataset_version)
    if not (folder / retired_manifest(version)).exists():
        raise DatasetError(
            f"version {version} is not in the folder: {retired_manifest(version)} does not exist",
            path=folder,
            hint="A copy that stoker stage made has one version: stage this one, with @ and its number.",
        )
    return Manifest.load(folder, retired_manifest(version))


def no_version(folder: Path | str, version: int, last: int) -> DatasetError:
    """Return the error for a version that a dataset does not have; ``last`` is its last one."""
    return DatasetError(
        f"the dataset has no version {version}",
        path=folder,
        hint=f"The last one is {last}; stoker info --versions lists them.",
    )


@dataclass(frozen=True)
class Version:
    """One version of a dataset."""

    version: int  # Its number; the first is 1
    time: str | None  # Time when it was made, in UTC as ISO 8601; None if it is not known
    change: str  # What was done, such as ``append photos/new``
    samples: int  # Number of its samples
    added: int  # Number of samples that the version before did not have
    removed: int = 0  # Number of samples of the version before that this one does not have


def read_versions(folder: Path) -> list[Version]:
    """Return the versions whose manifests are in a local folder, the first one first."""
    last = Manifest.load(folder)
    history: dict[int, Version] = {}
    with suppress(OSError, UnicodeDecodeError):
        for line in read_regular(folder / HISTORY_NAME).decode().splitlines():
            with suppress(ValueError, TypeError, RecursionError):  # a damaged line
                version = Version(**json.loads(line))
                history[version.version] = version
    versions: list[Version] = []
    for number in range(1, last.dataset_version + 1):
        name = MANIFEST_NAME if number == last.dataset_version else retired_manifest(number)
        if (folder / name).exists():
            before = versions[-1].samples if versions else 0
            versions.append(history.get(number) or _from_manifest(folder, name, before))
    return versions


def _from_manifest(folder: Path, name: str, before: int) -> Version:
    manifest = Manifest.load(folder, name)
    rows, number, time = manifest.index.rows, manifest.dataset_version, None
    if name == MANIFEST_NAME and number == 1:
        time = _iso(datetime.fromtimestamp((folder / name).stat().st_mtime, timezone.utc))
    made_by = str(manifest.options.get("made_by", "convert")) if number == 1 else "append"
    return Version(number, time, made_by, rows, max(rows - before, 0), max(before - rows, 0))


def history_content(manifest: Manifest, change: str, added: int, before: Sequence[Version] = ()) -> bytes:
    """Return the content of ``versions.jsonl``: the versions before, and the one of a manifest."""
    rows = manifest.index.rows
    removed = (before[-1].samples if before else 0) + added - rows
    time = _iso(datetime.now(timezone.utc))
    versions = (*before, Version(manifest.dataset_version, time, change, rows, added, removed))
    return "".join(json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in versions).encode()


def _iso(time: datetime) -> str:
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class _Digests:
    """The content of ``sha256.json``."""

    version: int
    # CRC32C and SHA-256 of each index and shard, and of the manifest of each version N, as dataset-vN.json
    files: Mapping[str, tuple[str, str]]


def sha256_content(manifest: Manifest, before: bytes | None = None, folder: object = None) -> bytes:
    """Return the content of ``sha256.json`` for a manifest that has the SHA-256 of its new files."""
    # ``before`` is the content for the version before, whose entries stay.
    files = dict(_sha256_files(before, folder))
    if manifest.index.sha256 is not None:
        files[manifest.index.file] = (manifest.index.digest, manifest.index.sha256)
    for shard in manifest.shards:
        if shard.sha256 is not None:
            files[shard.name] = (str(shard.digest), shard.sha256)
    files[retired_manifest(manifest.dataset_version)] = _manifest_digests(manifest)
    return (json.dumps({"version": _SHA256_VERSION, "files": files}, indent=1) + "\n").encode()


def _manifest_digests(manifest: Manifest) -> tuple[str, str]:
    # Without the paths of shards, which a copy changes.
    shards = tuple(replace(shard, path=None) for shard in manifest.shards)
    content = replace(manifest, shards=shards).to_json().encode("utf-8", "surrogatepass")
    return digest_of(crc32c(content)), hashlib.sha256(content).hexdigest()


def is_as_written(manifest: Manifest, content: bytes | None) -> bool:
    """Return whether a manifest has the digests in ``sha256.json``; earlier releases wrote none for it."""
    found = _manifest_digests(manifest)
    return _sha256_files(content, None).get(retired_manifest(manifest.dataset_version), found) == found


def with_sha256(manifest: Manifest, content: bytes | None, folder: object = None) -> Manifest:
    """Return a manifest with the SHA-256 in the content of ``sha256.json``, which may be None."""
    # An entry does not count if its digest differs from the manifest, because the file was replaced.
    sha256_of = {(name, digest): sha256 for name, (digest, sha256) in _sha256_files(content, folder).items()}
    index = manifest.index
    shards = (
        replace(shard, sha256=sha256_of.get((shard.name, shard.digest or ""))) for shard in manifest.shards
    )
    index_sha256 = sha256_of.get((index.file, index.digest))
    return replace(manifest, index=replace(index, sha256=index_sha256), shards=tuple(shards))


def _sha256_files(content: bytes | None, folder: object) -> Mapping[str, tuple[str, str]]:
    if content is None:
        return {}
    try:
        digests = from_document(_Digests, json.loads(content), SHA256_NAME)
        are_sha256 = all(_SHA256.fullmatch(one) for _, one in digests.files.values())
        if digests.version != _SHA256_VERSION or not are_sha256:
            raise DatasetError(f"{SHA256_NAME} has another version, or a value that is not a SHA-256")
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{SHA256_NAME} is damaged: {error}", path=folder, hint=_REMOVE_SHA256) from error
    return digests.files


def read_sha256(folder: Path) -> bytes | None:
    """Return the content of ``sha256.json`` in a dataset's folder; None if there is none."""
    try:
        return read_regular(folder / SHA256_NAME, MOST_MANIFEST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        check_resources(error, folder / SHA256_NAME)
        message = f"{SHA256_NAME} cannot be read: {error.strerror}"
        raise DatasetError(message, path=folder, hint=_REMOVE_SHA256) from error


def publish_index(folder: Path, make: Callable[[Path], Manifest]) -> Manifest:
    """Make a dataset of an index in a folder, which is made if missing, and return its manifest."""
    # ``make`` writes all files except the manifest into a temporary folder, and returns the manifest.
    with folder_for_writing(folder), folder_lock(folder):
        if (folder / MANIFEST_NAME).exists():
            hint = "Name another folder, or remove it."
            raise DatasetError("the folder is a dataset already", path=folder, hint=hint)
        for left in folder.glob(f"{_TEMPORARY}*"):
            remove(left)
        with tempfile.TemporaryDirectory(dir=folder, prefix=_TEMPORARY) as temporary:
            manifest = make(Path(temporary))
            sync(Path(temporary))
            for file in Path(temporary).iterdir():
                move_durably(file, folder / file.name)
        write_durably(folder / SHA256_NAME, sha256_content(manifest))
        sync_folder(folder)
        # Last: without the manifest the folder is not a dataset.
        write_durably(folder / MANIFEST_NAME, manifest.to_json().encode())
    return manifest


def publish_version(
    folder: Path, last: Manifest, grown: Manifest, *, index: Path, change: str, added: int, staging: Path
) -> None:
    """Make the next version of a dataset, whose lock the caller holds; its shards are in place already."""
    # A process that is killed at any point leaves the last version or the new one. ``index`` is synced, and
    # ``staging`` is a folder on the same file system for unfinished files.
    contents = {
        # The first line describes version 1, so that its time stays when its manifest gets another name.
        HISTORY_NAME: history_content(grown, change, added, read_versions(folder)),
        SHA256_NAME: sha256_content(grown, read_sha256(folder), folder),
        retired_manifest(last.dataset_version): last.to_json().encode(),
        MANIFEST_NAME: grown.to_json().encode(),
    }
    move_durably(index, folder / index_name(grown.dataset_version))
    for name, content in contents.items():
        write_durably(staging / name, content)
        move_durably(staging / name, folder / name)
        sync_folder(folder)


def check_unchanged(folder: Path, last: Manifest) -> None:
    """Raise LockedError if another process has made a version before this one had the lock."""
    if Manifest.load(folder).fingerprint != last.fingerprint:
        raise LockedError("another process has just changed the dataset", path=folder, hint="Try again.")


def remove_remains(folder: Path, last: Manifest) -> None:
    """Remove the files of a next version whose process was killed before the manifest was written."""
    version = last.dataset_version + 1
    for pattern in (f"shard-v{version}-*", index_name(version)):
        for file in folder.glob(pattern):
            remove(file)


@contextmanager
def locked_dataset(path: str | os.PathLike[str], *, resumes: bool = False) -> Iterator[tuple[Path, Manifest]]:
    """Hold the lock of a dataset's folder; yield the folder and the manifest of the last version."""
    # The files of a killed change are removed, but not the files of a conversion that resumes.
    path, version = split_version(path)
    if version is not None:
        raise ConfigError(
            f"the path names version {version}, and changes are made to the last version",
            path=path,
            hint=f"Leave out @{version}.",
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
    """The result of :func:`stoker.append`, :func:`stoker.merge` or :func:`stoker.remove`."""

    path: Path  # The dataset's folder
    version: int  # Its last version now
    samples: int  # Samples of this version
    added: int = 0  # Number of samples that the version before lacks
    removed: int = 0  # Number of samples of the version before that this one lacks
    skipped: Mapping[str, int] = field(default_factory=dict)  # Number of samples left out, by reason
    already: bool = False  # Whether the dataset had all samples before, so that no version was made
