"""PyTorch's DataLoader and Stoker on loose files, one for each sample, in a folder or in an object store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import stoker
from stoker import convert  # at once: a peer's modules are imported before its conversion is measured
from stoker.benchmarks.peers.base import RAW_REASON, PeerPayloads, PeerSettings, PeerSource, Unsupported
from stoker.benchmarks.peers.stoker_loaders.native import StokerNative

_FOLDER = "files"


class FilePayloads:
    """The part of :class:`PeerPayloads` that a DataLoader needs, with a file for each sample."""

    def __init__(self, source: PeerSource) -> None:
        self.label = PeerPayloads(source).label
        self._folder = f"{source.remote or source.scratch}/{_FOLDER}"
        self._client: Any = None

    def __len__(self) -> int:
        return len(self.label)

    def payload(self, i: int) -> bytes:
        """Return the bytes of sample ``i``."""
        path = f"{self._folder}/{_name(i, int(self.label[i]))}"
        if not path.startswith("s3://"):
            return Path(path).read_bytes()
        if self._client is None:  # made after the fork: processes share no connections
            import boto3

            self._client = boto3.client("s3")
        bucket, _, key = path.removeprefix("s3://").partition("/")
        body: bytes = self._client.get_object(Bucket=bucket, Key=key)["Body"].read()
        return body


def _name(i: int, label: int) -> str:
    return f"{label}/{i:06d}.jpg"


def write_files(source: PeerSource) -> Path:
    """Write a JPEG file for each sample into ``source.scratch``; return the folder of the classes."""
    if source.raw:
        raise Unsupported(RAW_REASON)
    payloads, folder = PeerPayloads(source), source.scratch / _FOLDER
    for i in range(len(payloads)):
        path = folder / _name(i, int(payloads.label[i]))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(payloads.read(i))
    return folder


class StokerFiles(StokerNative):
    """Stoker, which reads files in place."""

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        """Write the files, and index them."""
        del settings
        stoker.open(write_files(source))

    def folder(self, source: PeerSource) -> Any:
        """Return the folder of the files."""
        if source.remote:
            raise Unsupported("it reads shards from an object store, not loose files")
        return source.scratch / _FOLDER


class StokerConversion(StokerNative):
    """Stoker on shards that it converts from a folder of loose files, which is ``source.dataset``."""

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        """Convert the files, without a change of their bytes."""
        convert(source.dataset, self.folder(source), seed=0, num_threads=settings.num_threads)

    def folder(self, source: PeerSource) -> Any:
        """Return the folder of the shards."""
        return source.scratch / "shards"
