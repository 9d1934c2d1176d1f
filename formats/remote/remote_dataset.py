"""A remote dataset: its manifest and its files, for staging and for a cache."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from stoker.errors import ConfigError, DatasetError, with_details
from stoker.urls import is_url

from ..containers.container import find_container
from ..dataset.manifest import (
    INDEX_NAME,
    MANIFEST_NAME,
    MOST_MANIFEST_BYTES,
    SKIPPED_NAME,
    TOKENIZER_NAME,
    Manifest,
    Shard,
)
from ..dataset.versions import HISTORY_NAME, SHA256_NAME, no_version, retired_manifest
from ..files import check_named
from ..threads import thread_map
from .store import Store

_CONCURRENT = 16
_OPTIONAL = (SKIPPED_NAME, TOKENIZER_NAME, HISTORY_NAME, SHA256_NAME)


@dataclass(frozen=True)
class RemoteFile:
    """A file of a remote dataset, with the size and the digest in the manifest."""

    name: str  # Path in the dataset's folder
    size: int  # Bytes
    digest: str | None  # Digest as in manifests; None if it is not known
    shard: str | None  # Name of its shard; None for the index
    url: str


@dataclass(frozen=True)
class RemoteDataset:
    """A dataset at a URL, or in a folder of a network file system."""

    store: Store  # Its folder
    manifest: Manifest  # The manifest of a copy, which has all shards in its folder
    index: RemoteFile
    shards: tuple[RemoteFile, ...]  # Data file of every shard

    @property
    def size(self) -> int:
        """Bytes of index and shards."""
        return self.index.size + self.manifest.data_bytes

    def small_files(self) -> dict[str, bytes]:
        """Return the contents of the dataset's other files that exist, by name."""
        names = list(_OPTIONAL)
        for sidecar in find_container(self.manifest.container).sidecars:
            shards = self.manifest.shards
            names += [sidecar.name(shard.name, external=shard.path is not None) for shard in shards]
        contents = thread_map(self.store.read_if_there, names, "fetch", _CONCURRENT, 4 * _CONCURRENT)
        return {name: content for name, content in contents if content is not None}


def check_local(**folders: str | os.PathLike[str]) -> None:
    """Check that folders for copies of remote files are paths; the error names the argument."""
    check_named(**folders)
    for name, path in folders.items():
        if is_url(path):
            hint = "Name a folder on a local disk."
            raise ConfigError(f"{name} is a URL, and files are copied to a disk", path=path, hint=hint)


def open_remote(
    url: str | os.PathLike[str], stop: threading.Event, version: int | None = None
) -> RemoteDataset:
    """Read the manifest of a version of a remote dataset, None for the last; ``stop`` ends all reading."""
    store = Store(url, stop)
    manifest = _manifest(store, MANIFEST_NAME)
    if manifest is None:
        raise DatasetError(
            f"not a dataset: {MANIFEST_NAME} does not exist",
            path=store.url,
            hint="Give the address of the folder that stoker convert made.",
        )
    if version not in (None, manifest.dataset_version):
        last = manifest.dataset_version
        earlier = _manifest(store, retired_manifest(version)) if version < last else None
        if earlier is None:
            raise no_version(store.url, version, last)
        manifest = earlier
    if find_container(manifest.container).payload_files is not None:
        raise DatasetError(
            "the dataset is an index of image files, which stay where they are",
            path=store.url,
            hint="Convert the images, which copies them into shards: stoker convert SOURCE TARGET.",
        )
    files = tuple(_data_file(shard, manifest, store) for shard in manifest.shards)
    shards = (replace(shard, path=shard.name) if is_url(shard.path) else shard for shard in manifest.shards)
    index = manifest.index
    return RemoteDataset(
        store=store,
        manifest=replace(manifest, shards=tuple(shards)),
        index=RemoteFile(index.file, index.bytes, index.digest, None, store.at(index.file)),
        shards=files,
    )


def _manifest(store: Store, name: str) -> Manifest | None:
    content = store.read_if_there(name, most=MOST_MANIFEST_BYTES + 1)
    try:
        return None if content is None else Manifest.from_bytes(content)
    except DatasetError as error:
        raise with_details(error, path=store.at(name)) from error


def _data_file(shard: Shard, manifest: Manifest, store: Store) -> RemoteFile:
    """Return the data file of a shard, in the dataset's folder or at another URL."""
    path, is_elsewhere = PurePosixPath(shard.path or shard.name), is_url(shard.path)
    # A remote manifest must not lead out of its folder. A local one may name URLs: its user wrote it.
    if is_url(store.url) if is_elsewhere else path.is_absolute() or ".." in path.parts:
        raise DatasetError(
            "the dataset is an index of shards that lie elsewhere",
            path=store.url,
            shard=shard.name,
            hint="Index the shards in the folder where they lie: stoker index SHARDS --into FOLDER.",
        )
    # A copy has the shard at its path, and at its name where the path is a URL.
    names = {shard.name, *(() if is_elsewhere else (str(path),))}
    if any(name.startswith(".") or name in (INDEX_NAME, MANIFEST_NAME, *_OPTIONAL) for name in names):
        raise DatasetError("a shard has the name of another file", path=store.url, shard=shard.name)
    data_url = find_container(manifest.container).data_url
    name = data_url(shard.name if is_elsewhere else shard.path or shard.name)
    url = data_url(str(shard.path)) if is_elsewhere else store.at(name)
    return RemoteFile(name, shard.bytes, shard.digest, shard.name, url)
