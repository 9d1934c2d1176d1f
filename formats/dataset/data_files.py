"""The entries of shards and index in a manifest, with checks of their values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from stoker.errors import DatasetError

from ..files.reading import file_digests

INDEX_NAME = "index.arrow"

_MOST_SHARD_BYTES = 1 << 44  # 16 TiB, the longest file of ext4
_DIGEST = re.compile(r"crc32c:[0-9a-f]{8}")
_INDEX_VERSION = re.compile(r"index-v([1-9]\d{0,8})\.arrow")


def index_name(version: int) -> str:
    """Return the name of the index of a version from 2; the index of the first is :data:`INDEX_NAME`."""
    return f"index-v{version}.arrow"


@dataclass(frozen=True)
class Shard:
    """One shard."""

    name: str  # Name of its file or folder in the dataset's folder
    bytes: int  # Size of its data file
    records: int  # Number of records in it
    # CRC32C of its data file, ``crc32c:%08x``; None for a file at a URL that was not read whole
    digest: str | None
    # Its path if it is not in the dataset's folder: absolute, relative to that folder, or a URL
    path: str | None = field(default=None, metadata={"optional": True})
    # SHA-256 of its data file if it is known; not in the manifest, see :mod:`.sha256_file`
    sha256: str | None = field(default=None, compare=False, metadata={"elsewhere": True})

    def __post_init__(self) -> None:
        _check_name("the name of a shard", self.name)
        check_count(f"bytes of shard {self.name!r}", self.bytes, _MOST_SHARD_BYTES)
        check_count(f"records of shard {self.name!r}", self.records, self.bytes)
        if self.digest is not None:
            _check_digest(f"digest of shard {self.name!r}", self.digest)
        if self.path is not None and (not self.path or _has_no_file(self.path)):
            raise DatasetError(f"path of shard {self.name!r} must name a file, not {self.path!r}")


@dataclass(frozen=True)
class IndexFile:
    """The number of rows of the index, and its size and digests as for a shard.

    ``name`` is the name of its file if the dataset has changed since its conversion; otherwise the name is
    :data:`INDEX_NAME`.
    """

    rows: int
    bytes: int
    digest: str
    name: str | None = field(default=None, metadata={"optional": True})
    sha256: str | None = field(default=None, compare=False, metadata={"elsewhere": True})

    @classmethod
    def of(cls, path: Path, rows: int, name: str | None = None) -> IndexFile:
        """Return the entry of an index, whose file is read."""
        digests = file_digests(path)
        return cls(rows, path.stat().st_size, digests.crc, name, digests.sha256)

    @property
    def file(self) -> str:
        """Name of the file in the dataset's folder."""
        return self.name or INDEX_NAME

    @property
    def version(self) -> int:
        """Version of the dataset with this index, from 1."""
        match = _INDEX_VERSION.fullmatch(self.file)
        return int(match[1]) if match else 1

    def __post_init__(self) -> None:
        if self.name is not None and not _INDEX_VERSION.fullmatch(self.name):
            raise DatasetError(f"name of the index must be such as index-v2.arrow, not {self.name!r}")
        check_count("bytes of the index", self.bytes, _MOST_SHARD_BYTES)
        check_count("rows of the index", self.rows, self.bytes)
        _check_digest("digest of the index", self.digest)


def _check_name(what: str, name: str) -> None:
    if not name or name in (".", "..") or any(c in name for c in "/\\") or _has_no_file(name):
        raise DatasetError(f"{what} must be a plain file name, not {name!r}")


def _has_no_file(path: str) -> bool:
    """Return whether no file can have this path: it has a zero, or half of a surrogate pair from JSON."""
    try:
        return b"\0" in path.encode()
    except UnicodeEncodeError:
        return True


def check_count(what: str, value: int, most: int = (1 << 63) - 1) -> None:
    """Raise DatasetError unless a number of a manifest is a count."""
    if not 0 <= value <= most:
        raise DatasetError(f"{what} must be a count, from 0 to {most}, not {value!r}")


def _check_digest(what: str, digest: str) -> None:
    if not _DIGEST.fullmatch(digest):
        raise DatasetError(f"{what} must be crc32c: and eight hexadecimal digits, not {digest!r}")
