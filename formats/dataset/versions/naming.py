"""Names of versions: the manifest of each in a dataset's folder, and ``PATH@3`` for users."""

from __future__ import annotations

import os
import re
from pathlib import Path

from stoker.errors import ConfigError

from ...remote.store import is_url

HISTORY_NAME = "versions.jsonl"

_FILES = re.compile(r"index-v\d+\.arrow|dataset-v\d+\.json")
_AT_VERSION = re.compile(r"(.+)@([1-9]\d{0,8})", re.DOTALL)


def retired_manifest(version: int) -> str:
    """Return the name of the manifest of a version that is not the last one."""
    return f"dataset-v{version}.json"


def is_of_version(name: str) -> bool:
    """Return whether a file in a dataset's folder belongs to a version, but is not a shard."""
    return name == HISTORY_NAME or _FILES.fullmatch(name) is not None


def split_version(
    path: str | os.PathLike[str], version: int | None = None
) -> tuple[str | os.PathLike[str], int | None]:
    """Return the path and the version of a dataset; ``PATH@3`` names both, unless a folder has this name."""
    if version is not None and (isinstance(version, bool) or not isinstance(version, int) or version < 1):
        raise ConfigError(f"version must be a whole number from 1, not {version!r}")
    match = _AT_VERSION.fullmatch(os.fspath(path)) if isinstance(path, (str, os.PathLike)) else None
    if match is None or (not is_url(path) and Path(path).exists()):
        return path, version
    named = int(match[2])
    if version not in (None, named):
        raise ConfigError(f"the path names version {named}, and version is {version}", path=path)
    return (match[1] if isinstance(path, str) else Path(match[1])), named
