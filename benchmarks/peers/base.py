"""The contract of peers: their settings, their source, and their methods."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

# torchvision.transforms.v2.RandomResizedCrop's own defaults, and ImageNet's channel statistics
# (torchvision's reference training scripts), for values in 0..1.
SCALE = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)

Payload: TypeAlias = "bytes | npt.NDArray[np.uint8]"
"""The payload of a sample: the bytes of a JPEG, or (H, W, 3) uint8 raw pixels."""

RAW_REASON = "its columns have no arrays of several heights and widths"
"""The reason why a peer with columns of Arrow has no raw pixels."""


class Unsupported(Exception):  # noqa: N818 - no error: the table shows the reason
    """A peer cannot do this workload; the message is the reason in the table."""


@dataclass(frozen=True)
class PeerSettings:
    """The work, the same for every peer: random resized crop, flip, normalise, float32, NCHW; or a recipe."""

    batch_size: int = 64  # Number of images in a batch; the last, smaller batch of an epoch is dropped
    size: int = 224  # Height and width of the output, pixels
    num_threads: int = 1  # Number of threads or worker processes
    seed: int = 0  # Seed of the order and the crops, for peers that take one
    # Device of the batches, "cpu" or "cuda:N". PyTorch copies the batches that a peer leaves on the CPU
    device: str = "cpu"
    # Whether the state of the loader will be saved; some loaders must know before they start
    resumable: bool = False
    # Name or file of a recipe for images with boxes, in place of the crop; empty for the crop
    recipe: str = ""
    min_visible: float = 0.0  # With a recipe, the share of a box that must be visible
    min_size: float = 0.0  # With a recipe, the least width and height of a box, pixels

    def __post_init__(self) -> None:
        for name in ("batch_size", "size", "num_threads"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, found {getattr(self, name)}")


@dataclass(frozen=True)
class PeerSource:
    """The samples, in the forms that peers read."""

    dataset: Path  # Folder of the Stoker dataset
    container: str  # Container of the dataset, such as ``tfrecord``
    shards: tuple[Path, ...]  # Shards of the dataset, in order
    table: Path  # ``.npz`` file with a row for each sample, see :class:`PeerPayloads`
    records: int  # Number of samples
    raw: bool  # Whether payloads are raw pixels, not encoded images
    scratch: Path  # Folder for files that a peer writes, such as the file of FFCV
    remote: str = ""  # URL of the peer's own files, or of Stoker's dataset, in an object store

    def to_json(self) -> dict[str, Any]:
        """Return the source as values that JSON has, for the process of a peer."""
        paths = {"dataset": str(self.dataset), "table": str(self.table), "scratch": str(self.scratch)}
        return {**asdict(self), **paths, "shards": [str(path) for path in self.shards]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PeerSource:
        """Return the source that :meth:`to_json` described."""
        paths = {name: Path(value[name]) for name in ("dataset", "table", "scratch")}
        return cls(**{**value, **paths, "shards": tuple(Path(path) for path in value["shards"])})


class PeerPayloads:
    """Payloads by index, for peers that cannot read the shards themselves.

    Each sample takes one ``pread`` of an open file, which is at least as fast as opening a file.
    """

    def __init__(self, source: PeerSource) -> None:
        with np.load(source.table) as table:
            self._shard, self._offset, self._length = table["shard"], table["offset"], table["length"]
            self.label: npt.NDArray[np.int64] = table["label"]
            self._shape = np.stack([table["height"], table["width"]], axis=1)
            self._paths = [str(path) for path in table["paths"]]
        self._raw = source.raw
        self._descriptors: list[int] = []

    def __len__(self) -> int:
        return len(self.label)

    @property
    def most_pixels(self) -> int:
        """Number of pixels of the largest image."""
        return int(self._shape.prod(axis=1).max())

    def read(self, i: int) -> bytes:
        """Return the payload of sample ``i``."""
        if not self._descriptors:  # opened after a fork or unpickling: processes share none
            self._descriptors = [os.open(path, os.O_RDONLY) for path in self._paths]
        return os.pread(self._descriptors[self._shard[i]], int(self._length[i]), int(self._offset[i]))

    def payload(self, i: int) -> Payload:
        """Return sample ``i``: the bytes of a JPEG, or (H, W, 3) uint8 raw pixels, writable."""
        return self.pixels(i) if self._raw else self.read(i)

    def pixels(self, i: int) -> npt.NDArray[np.uint8]:
        """Return (H, W, 3) uint8, writable: sample ``i`` of raw pixels."""
        height, width = self._shape[i]
        return np.frombuffer(bytearray(self.read(i)), np.uint8).reshape(height, width, 3)


def shard_counts(source: PeerSource, settings: PeerSettings) -> list[int]:
    """Return the number of samples of each shard that a peer writes.

    There are as many shards as Stoker's, and at least two for each worker, since the workers of some peers
    read whole shards.
    """
    shards = min(max(len(source.shards), 2 * settings.num_threads), source.records)
    return [source.records // shards + (i < source.records % shards) for i in range(shards)]


def worker_options(settings: PeerSettings) -> dict[str, Any]:
    """Return the options of PyTorch's DataLoader, and of loaders like it, for batches made by workers."""
    return {
        "batch_size": settings.batch_size,
        "drop_last": True,
        "num_workers": settings.num_threads,
        "persistent_workers": True,
    }


class Peer(Protocol):
    """A loader that is compared. Its module imports its library, so that the import can be timed."""

    packages: tuple[str, ...]
    """Names of the distributions whose versions are in the result."""

    lead: int
    """Number of untimed batches at the start of a turn.

    A loader that works across the end of an epoch has batches ready when a turn begins. These batches and one
    more are untimed, so that every timed batch is made in the turn.
    """

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        """Make the loader, and return how its work differs from that of the other loaders."""

    def epoch(self) -> Iterator[Any]:
        """Yield the batches of one epoch: ``(batch_size, 3, size, size)`` float32, without an extra copy.

        Arrays of NumPy, or tensors of PyTorch on the device. With a recipe they have its size, and may be a
        list of images of several sizes.
        A peer with ``uint8 = True`` repeats what another project has published, and makes
        ``(batch_size, size, size, 3)`` uint8.
        """


@runtime_checkable
class WritingPeer(Peer, Protocol):
    """A peer that reads its own format."""

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        """Write the samples into ``source.scratch`` with the tools of the peer."""


@runtime_checkable
class ResumablePeer(Peer, Protocol):
    """A peer that saves its state in the middle of an epoch."""

    def state(self, scratch: Path) -> Any:
        """Return the state after the batches so far, as values that JSON has; ``scratch`` is for files."""

    def resume(self, state: Any) -> Iterator[Any]:
        """Return the batches that follow a state; called after ``prepare``, before any epoch."""


class WithTensors:
    """The part of a :class:`Peer` whose loader hands out tuples of PyTorch's tensors, images first."""

    lead = 0
    _loader: Any

    def epoch(self) -> Iterator[Any]:
        for images, _ in self._loader:
            yield images.numpy()


class WithLoaderState:
    """The part of a :class:`ResumablePeer` whose loader has ``state_dict`` and ``load_state_dict``."""

    _loader: Any

    def epoch(self) -> Iterator[Any]:
        raise NotImplementedError

    def state(self, scratch: Path) -> Any:
        del scratch
        return self._loader.state_dict()

    def resume(self, state: Any) -> Iterator[Any]:
        self._loader.load_state_dict(state)
        return self.epoch()
