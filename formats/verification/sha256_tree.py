"""A tree of SHA-256 over the files of a dataset, which certificates of loaders hold.

It is the Merkle tree of RFC 6962, section 2.1. Its leaves are the SHA-256 of the index and of each shard, or
of each image that lies in a file of its own. The first call reads all bytes; the leaves are then kept in the
user's cache folder, and count as long as sizes and times of the files stay.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stoker.cache_folder import cache_folder
from stoker.errors import ConfigError

from ..caching.cached_dataset import CachedDataset
from ..concurrency.cores import check_threads
from ..containers.listing import LISTING
from ..dataset.dataset import Dataset

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["DataTree", "data_tree", "merkle_root"]

_CHUNK = 1 << 20


@dataclass(frozen=True)
class DataTree:
    """The digest of a dataset's data.

    Attributes:
        fingerprint: Fingerprint of the whole dataset, as its manifest has it.
        leaves: Number of leaves.
        bytes: Bytes of the files.
        root: The root of the tree, 64 hexadecimal digits.
    """

    fingerprint: str
    leaves: int
    bytes: int
    root: str


def data_tree(dataset: Dataset, *, anew: bool = False, num_threads: int | None = None) -> DataTree:
    """Return the tree over the files of a dataset; a selection has that of its whole dataset.

    Args:
        dataset: The dataset.
        anew: Whether to read all bytes again, and to leave what was kept out of account.
        num_threads: Threads that read; None for the cores that the process may use.

    Raises:
        ConfigError: The dataset is remote.
        OSError: A file cannot be read.
        SampleError: An image cannot be read.
    """
    if isinstance(dataset, CachedDataset):
        raise ConfigError(
            "the bytes of a remote dataset are not all here",
            hint="Copy it to a local disk first: stoker stage.",
        )
    files = [dataset.path / dataset.manifest.index.file, *dataset.data_files]
    stamps: list[list[str | int]] = [
        [str(file.absolute()), file.stat().st_size, file.stat().st_mtime_ns] for file in files
    ]
    fingerprint = dataset.manifest.fingerprint
    in_files = dataset.manifest.container == LISTING.name
    kept = cache_folder() / "sha256" / f"{fingerprint}.json"
    leaves = None if anew or in_files else _read_kept(kept, stamps)
    if leaves is None:
        with ThreadPoolExecutor(check_threads(num_threads)) as threads:
            leaves = list(threads.map(_file_sha256, files))
            if in_files:
                whole = Dataset(dataset.path, dataset.manifest, dataset.index, dataset.data_files, None)
                leaves += threads.map(lambda i: hashlib.sha256(whole.read(i)).hexdigest(), range(len(whole)))
        if not in_files:
            _keep(kept, stamps, leaves)
    size = sum(stamp[1] for stamp in stamps if isinstance(stamp[1], int))
    return DataTree(fingerprint, len(leaves), size, merkle_root([bytes.fromhex(leaf) for leaf in leaves]))


def merkle_root(leaves: Sequence[bytes]) -> str:
    """The Merkle tree hash of RFC 6962 over at least one leaf, in hexadecimal digits."""

    def tree(first: int, end: int) -> bytes:
        if end - first == 1:
            return hashlib.sha256(b"\x00" + leaves[first]).digest()
        half = 1 << (
            (end - first - 1).bit_length() - 1
        )  # the largest power of two below the number of leaves
        return hashlib.sha256(b"\x01" + tree(first, first + half) + tree(first + half, end)).digest()

    return tree(0, len(leaves)).hex()


def _file_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _read_kept(path: Path, stamps: list[list[str | int]]) -> list[str] | None:
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        found = json.loads(path.read_text("utf-8"))
        if found["files"] == stamps and len(found["leaves"]) == len(stamps):
            return [str(leaf) for leaf in found["leaves"]]
    return None


def _keep(path: Path, stamps: list[list[str | int]], leaves: list[str]) -> None:
    with contextlib.suppress(OSError):  # without a cache folder, the next call reads all bytes again
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.{os.getpid()}")
        new.write_text(json.dumps({"files": stamps, "leaves": leaves}), "utf-8")
        new.replace(path)
