"""A tree of SHA-256 over the files of a dataset, which certificates of loaders hold.

It is the Merkle tree of RFC 6962, section 2.1. Its leaves are the SHA-256 of the index and of each shard, or
of each image that is a separate file. Conversions keep the leaves in ``sha256.json``. Without that file, the
first call reads all bytes and keeps the leaves in the user's cache folder; they are valid as long as sizes
and times of the files stay.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from stoker.errors import ConfigError

from .containers.listing import LISTING
from .dataset.dataset import Dataset
from .dataset.versions import SHA256_NAME, read_sha256, with_sha256
from .files import cache_folder, file_digests, write_durably
from .remote.cached_dataset import CachedDataset
from .threads import check_threads


@dataclass(frozen=True)
class DataTree:
    """The digest of a dataset's data."""

    fingerprint: str  # Fingerprint of the whole dataset, as its manifest has it
    leaves: int  # Number of leaves
    bytes: int  # Bytes of the files
    root: str  # The root of the tree, 64 hexadecimal digits


def data_tree(dataset: Dataset, *, again: bool = False, num_threads: int | None = None) -> DataTree:
    """Return the tree over the files of a dataset; a selection has the tree of its whole dataset."""
    # With ``again``, all bytes are read again, and leaves that were kept are ignored.
    manifest = dataset.manifest
    leaves = None if again else _leaves_of_conversion(dataset)
    if leaves is None and isinstance(dataset, CachedDataset):
        raise ConfigError(
            "the bytes of a remote dataset are not all here"
            + ("" if again else f", and {SHA256_NAME} does not have the SHA-256 of each shard"),
            hint="Copy it to a local disk first: stoker stage.",
        )
    if leaves is None:
        leaves = _computed_leaves(dataset, check_threads(num_threads), again=again)
    size = manifest.index.bytes + manifest.data_bytes
    root = merkle_root([bytes.fromhex(leaf) for leaf in leaves])
    return DataTree(manifest.fingerprint, len(leaves), size, root)


def _leaves_of_conversion(dataset: Dataset) -> list[str] | None:
    if isinstance(dataset, CachedDataset):
        location, content = dataset.remote.store.url, dataset.remote.store.read_if_there(SHA256_NAME)
    else:
        location, content = str(dataset.path), read_sha256(dataset.path)
    manifest = with_sha256(dataset.manifest, content, location)
    digests = [manifest.index.sha256, *(shard.sha256 for shard in manifest.shards)]
    leaves = [digest for digest in digests if digest is not None]
    return leaves if len(leaves) == len(digests) else None


def _computed_leaves(dataset: Dataset, num_threads: int, *, again: bool) -> list[str]:
    files = [dataset.path / dataset.manifest.index.file, *dataset.data_files]
    stamps: list[list[str | int]] = [
        [str(file.absolute()), file.stat().st_size, file.stat().st_mtime_ns] for file in files
    ]
    in_files = dataset.manifest.container == LISTING.name
    kept = cache_folder() / "sha256" / f"{dataset.manifest.fingerprint}.json"
    if not again and not in_files:
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            stored = json.loads(kept.read_text("utf-8"))
            if stored["files"] == stamps and len(stored["leaves"]) == len(stamps):
                return [str(leaf) for leaf in stored["leaves"]]
    with ThreadPoolExecutor(num_threads) as threads:
        leaves = [digests.sha256 for digests in threads.map(file_digests, files)]
        if in_files:
            whole = Dataset(dataset.path, dataset.manifest, dataset.index, dataset.data_files)
            leaves += threads.map(lambda i: hashlib.sha256(whole.read(i)).hexdigest(), range(len(whole)))
    if not in_files:
        with contextlib.suppress(OSError):  # without a cache folder, the next call reads all bytes again
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_durably(kept, json.dumps({"files": stamps, "leaves": leaves}).encode())
    return leaves


def merkle_root(leaves: Sequence[bytes]) -> str:
    """Return the Merkle tree hash of RFC 6962 over at least one leaf, in hexadecimal digits."""

    def tree(first: int, end: int) -> bytes:
        if end - first == 1:
            return hashlib.sha256(b"\x00" + leaves[first]).digest()
        half = 1 << ((end - first - 1).bit_length() - 1)  # largest power of two below the number of leaves
        return hashlib.sha256(b"\x01" + tree(first, first + half) + tree(first + half, end)).digest()

    return tree(0, len(leaves)).hex()
