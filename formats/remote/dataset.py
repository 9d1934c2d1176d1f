"""A dataset that lies elsewhere: its manifest, and which files it consists of."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from stoker.errors import DatasetError
from stoker.formats.manifest import INDEX_NAME, MANIFEST_NAME, Manifest
from stoker.formats.remote.store import Store

if TYPE_CHECKING:
    import os
    import threading

    from stoker.formats.manifest import Shard

__all__ = ["RemoteDataset", "RemoteFile", "open_remote"]

_AT_ONCE = 16
_OPTIONAL = ("skipped.jsonl", "tokenizer.json")


@dataclass(frozen=True)
class RemoteFile:
    """A file of a dataset, whose size and digest the manifest states.

    Attributes:
        name: Path in the dataset's folder.
        size: Bytes.
        digest: As manifests write it.
        shard: Name of the shard that it belongs to; None for the index.
    """

    name: str
    size: int
    digest: str
    shard: str | None


@dataclass(frozen=True)
class RemoteDataset:
    """A dataset at a URL, or in a folder of a network file system.

    Attributes:
        store: Its folder.
        manifest: Its manifest, whose shards lie in the dataset's folder.
        index: Its index.
        shards: Data file of every shard.
    """

    store: Store
    manifest: Manifest
    index: RemoteFile
    shards: tuple[RemoteFile, ...]

    @property
    def size(self) -> int:
        """Bytes of index and shards."""
        return sum(file.size for file in (self.index, *self.shards))

    def small_files(self) -> dict[str, bytes]:
        """What belongs to the dataset beside index and shards, by name, as far as it is there."""
        names = list(_OPTIONAL)
        if self.manifest.container == "tfrecord":
            names += [_text_index(shard) for shard in self.manifest.shards]
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="stoker-fetch") as pool:
            found = zip(names, pool.map(self.store.read_if_there, names), strict=True)
            return {name: content for name, content in found if content is not None}


def open_remote(url: str | os.PathLike[str], stop: threading.Event | None = None) -> RemoteDataset:
    """Read the manifest of a dataset that lies elsewhere.

    Args:
        url: Of its folder, or path of one on a network file system.
        stop: Ends all reading when it is set.

    Raises:
        DatasetError: There is no dataset, or its shards lie outside of its folder.
        StorageError: It cannot be read.
    """
    store = Store(url, stop)
    content = store.read_if_there(MANIFEST_NAME)
    if content is None:
        raise DatasetError(
            f"not a dataset: {MANIFEST_NAME} does not exist",
            path=store.url,
            hint="give the address of the folder that stoker convert made",
        )
    try:
        manifest = Manifest.from_json(content.decode())
    except UnicodeDecodeError as error:
        raise DatasetError("the manifest is not UTF-8", path=store.at(MANIFEST_NAME)) from error
    except DatasetError as error:
        raise DatasetError(error.message, path=store.at(MANIFEST_NAME), hint=error.hint) from error
    for shard in manifest.shards:
        _check(shard, store)
    return RemoteDataset(
        store=store,
        manifest=manifest,
        index=RemoteFile(INDEX_NAME, manifest.index.bytes, manifest.index.digest, None),
        shards=tuple(
            RemoteFile(_place(shard, manifest), shard.bytes, shard.digest, shard.name)
            for shard in manifest.shards
        ),
    )


def _text_index(shard: Shard) -> str:
    """Name of DALI's index: beside shards of others their whole names stand in it."""
    return f"{shard.name.removesuffix('.tfrecord') if shard.path is None else shard.name}.idx"


def _place(shard: Shard, manifest: Manifest) -> str:
    """Path of a shard's data file in the dataset's folder."""
    path = shard.path or shard.name
    # LMDB's environments are folders; others name the file in one, or a file without one.
    return f"{path}/data.mdb" if manifest.container == "lmdb" and not path.endswith(".mdb") else path


def _check(shard: Shard, store: Store) -> None:
    path = PurePosixPath(shard.path or shard.name)
    if path.is_absolute() or ".." in path.parts:
        raise DatasetError(
            "the dataset is an index of shards that lie elsewhere",
            path=store.url,
            shard=shard.name,
            hint="index the shards in the folder where they lie: stoker index SHARDS --into FOLDER",
        )
    if str(path).startswith(".") or str(path) in (INDEX_NAME, MANIFEST_NAME, *_OPTIONAL):
        raise DatasetError("a shard has the name of another file", path=store.url, shard=shard.name)
