"""The history of a dataset: its versions, their manifests, and what each of them changed.

``versions.jsonl`` has one line for each change. It is written before the manifest of its version; a line of a
version that was never published is left out.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

from stoker.errors import DatasetError

from ..manifest import MANIFEST_NAME, Manifest
from .naming import HISTORY_NAME, retired_manifest


@dataclass(frozen=True)
class Version:
    """One version of a dataset."""

    version: int  # Its number; the first is 1
    time: str | None  # Time when it was made, in UTC as ISO 8601; None if it is not known
    change: str  # What was done, such as ``append photos/new``
    samples: int  # Number of its samples
    added: int  # Number of samples that the version before did not have
    removed: int = 0  # Number of samples of the version before that this one does not have


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
            hint="a copy that stoker stage made has one version: stage this one, with @ and its number",
        )
    return Manifest.load(folder, retired_manifest(version))


def no_version(folder: Path | str, version: int, last: int) -> DatasetError:
    """Return the error for a version that a dataset does not have; ``last`` is its last one."""
    return DatasetError(
        f"the dataset has no version {version}",
        path=folder,
        hint=f"the last one is {last}; stoker info --versions lists them",
    )


def read_versions(folder: Path) -> list[Version]:
    """Return the versions whose manifests are in a local folder, the first one first."""
    last = Manifest.load(folder)
    history = _read_history(folder, last.dataset_version)
    versions: list[Version] = []
    for number in range(1, last.dataset_version + 1):
        name = MANIFEST_NAME if number == last.dataset_version else retired_manifest(number)
        if (folder / name).exists():
            before = versions[-1].samples if versions else 0
            versions.append(history.get(number) or _from_manifest(folder, name, before))
    return versions


def _from_manifest(folder: Path, name: str, before: int) -> Version:
    """Return a version as its manifest describes it, if the history has no line."""
    manifest = Manifest.load(folder, name)
    rows, number = manifest.index.rows, manifest.dataset_version
    changed = (folder / name).stat().st_mtime if name == MANIFEST_NAME and number == 1 else None
    time = None if changed is None else _iso(datetime.fromtimestamp(changed, timezone.utc))
    made_by = str(manifest.options.get("made_by", "convert")) if number == 1 else "append"
    return Version(number, time, made_by, rows, max(rows - before, 0), max(before - rows, 0))


def _read_history(folder: Path, last: int) -> dict[int, Version]:
    """Return the versions in the history, without damaged lines and unpublished versions."""
    with suppress(OSError, UnicodeDecodeError):
        lines = (folder / HISTORY_NAME).read_text(encoding="utf-8").splitlines()
        versions = [one for one in map(_parsed, lines) if one is not None and one.version <= last]
        return {one.version: one for one in versions}
    return {}


def _parsed(line: str) -> Version | None:
    try:
        return Version(**json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return None


def history_lines(folder: Path, last: Manifest, grown: Manifest, change: str, added: int) -> bytes:
    """Return the content of ``versions.jsonl`` with a line for the next version, whose manifest is ``grown``.

    The first line describes version 1, so that its time stays when its manifest gets another name.
    """
    versions = read_versions(folder)
    removed = last.index.rows + added - grown.index.rows
    following = Version(grown.dataset_version, _now(), change, grown.index.rows, added, removed)
    return _lines(*(version for version in versions if version.version < following.version), following)


def first_line(manifest: Manifest, change: str) -> bytes:
    """Return the content of ``versions.jsonl`` for a first version, if its change is to be described."""
    rows = manifest.index.rows
    return _lines(Version(1, _now(), change, rows, rows))


def _lines(*versions: Version) -> bytes:
    return "".join(json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in versions).encode()


def _now() -> str:
    return _iso(datetime.now(timezone.utc))


def _iso(time: datetime) -> str:
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")
