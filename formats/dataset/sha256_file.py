"""``sha256.json``: the SHA-256 of a dataset's indexes and shards, which their writers compute.

Certificates of loaders hold a tree over them. They are not in the manifest, because earlier releases refuse
manifests with unknown keys. Each entry also has the CRC32C in the manifest: if they differ, because a file
was replaced, the entry does not count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from stoker.errors import DatasetError

from ..files.reading import open_regular, read_at
from .json_documents import from_document
from .manifest import MOST_MANIFEST_BYTES, Manifest

SHA256_NAME = "sha256.json"

_VERSION = 1
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class _Digests:
    """The content of the file: by name of the index or shard, its digest in the manifest and its SHA-256."""

    version: int
    files: Mapping[str, tuple[str, str]]


def sha256_content(manifest: Manifest, before: bytes | None = None, folder: object = None) -> bytes:
    """Return the content of the file for a version, whose manifest has the SHA-256 of its new files.

    ``before`` is the content for the version before, whose entries stay.
    """
    files = dict(_files(before, folder))
    if manifest.index.sha256 is not None:
        files[manifest.index.file] = (manifest.index.digest, manifest.index.sha256)
    for shard in manifest.shards:
        if shard.sha256 is not None:
            files[shard.name] = (str(shard.digest), shard.sha256)
    return (json.dumps({"version": _VERSION, "files": files}, indent=1) + "\n").encode()


def with_sha256(manifest: Manifest, content: bytes | None, folder: object = None) -> Manifest:
    """Return a manifest with the SHA-256 in the content of ``sha256.json``, which may be None."""
    sha256_of = {(name, digest): sha256 for name, (digest, sha256) in _files(content, folder).items()}
    index = manifest.index
    shards = (
        replace(shard, sha256=sha256_of.get((shard.name, shard.digest or ""))) for shard in manifest.shards
    )
    index_sha256 = sha256_of.get((index.file, index.digest))
    return replace(manifest, index=replace(index, sha256=index_sha256), shards=tuple(shards))


def _files(content: bytes | None, folder: object) -> Mapping[str, tuple[str, str]]:
    if content is None:
        return {}
    try:
        digests = from_document(_Digests, json.loads(content), SHA256_NAME)
        if digests.version != _VERSION or not all(
            _SHA256.fullmatch(one) for _, one in digests.files.values()
        ):
            raise DatasetError(f"{SHA256_NAME} has another version, or a value that is no SHA-256")
    except (ValueError, RecursionError) as error:
        raise DatasetError(
            f"{SHA256_NAME} is damaged: {error}",
            path=folder,
            hint="remove this file: the digests are then computed again when they are needed",
        ) from error
    return digests.files


def read_sha256(folder: Path) -> bytes | None:
    """Return the content of the file in a dataset's folder; None if there is none."""
    try:
        with open_regular(folder / SHA256_NAME) as (descriptor, size):
            return read_at(descriptor, 0, min(size, MOST_MANIFEST_BYTES))
    except FileNotFoundError:
        return None
