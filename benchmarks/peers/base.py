"""What every peer is given, and the verbs that it answers to."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from stoker.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

__all__ = [
    "JITTER",
    "MEAN",
    "RAND_AUGMENT",
    "RATIO",
    "SCALE",
    "STD",
    "Payloads",
    "Peer",
    "Settings",
    "Source",
    "Unsupported",
]

# torchvision.transforms.v2.RandomResizedCrop's own defaults, and ImageNet's channel statistics
# (torchvision's reference training scripts), for values in 0..1.
SCALE = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)

JITTER = (0.4, 0.4, 0.4, 0.1)
"""Brightness, contrast, saturation and hue of ColorJitter, where a peer has it."""
RAND_AUGMENT = (2, 9)
"""Operations and magnitude of RandAugment, where a peer has it."""


class Unsupported(Exception):  # noqa: N818 - says what a peer cannot do, which is no fault
    """A peer cannot do this workload; the message says why, and stands in the table."""


@dataclass(frozen=True)
class Settings:
    """The work, the same for every peer: random resized crop, flip, normalise, float32, NCHW.

    Attributes:
        batch_size: Images a batch; the last, smaller batch of an epoch is dropped.
        size: Height and width of the output, pixels.
        num_threads: Threads or worker processes, as many as cores are given.
        seed: Of the order and the crops, where the peer takes one.
    """

    batch_size: int = 64
    size: int = 224
    num_threads: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("batch_size", "size", "num_threads"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, found {getattr(self, name)}")


@dataclass(frozen=True)
class Source:
    """The samples, in the forms in which the peers take them.

    Attributes:
        dataset: Folder of the Stoker dataset.
        container: Its container, ``tfrecord`` or ``lmdb``.
        shards: Its shards, in order.
        table: ``.npz`` file with a row a sample, see :class:`Payloads`.
        records: Samples.
        raw: Payloads are raw pixels, not encoded images.
        scratch: Folder for what a peer must write before it can read (FFCV's file).
    """

    dataset: Path
    container: str
    shards: tuple[Path, ...]
    table: Path
    records: int
    raw: bool
    scratch: Path

    def to_json(self) -> dict[str, Any]:
        """What crosses the pipe to a peer's process."""
        return {
            "dataset": str(self.dataset),
            "container": self.container,
            "shards": [str(path) for path in self.shards],
            "table": str(self.table),
            "records": self.records,
            "raw": self.raw,
            "scratch": str(self.scratch),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Source:
        """The inverse of ``to_json``."""
        return cls(
            dataset=Path(value["dataset"]),
            container=value["container"],
            shards=tuple(Path(path) for path in value["shards"]),
            table=Path(value["table"]),
            records=value["records"],
            raw=value["raw"],
            scratch=Path(value["scratch"]),
        )


class Payloads:
    """Indexed access to the payloads for peers that have no reader of their own for the shards.

    One ``pread`` a sample from a file that stays open, which is at least as fast as a file a sample.
    """

    def __init__(self, source: Source) -> None:
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
        """Pixels of the largest image."""
        return int(self._shape.prod(axis=1).max())

    def read(self, i: int) -> bytes:
        """Payload of sample ``i``."""
        if not self._descriptors:  # after a fork or an unpickling, so that no two processes share them
            self._descriptors = [os.open(path, os.O_RDONLY) for path in self._paths]
        return os.pread(self._descriptors[self._shard[i]], int(self._length[i]), int(self._offset[i]))

    def pixels(self, i: int) -> npt.NDArray[np.uint8]:
        """(H, W, 3) uint8: sample ``i`` of raw pixels; may be written to."""
        height, width = self._shape[i]
        return np.frombuffer(bytearray(self.read(i)), np.uint8).reshape(height, width, 3)


class Peer(Protocol):
    """One loader. Its library is imported with its module, so that the import is timed apart."""

    packages: tuple[str, ...]
    """Distributions whose versions stand in the result."""

    lead: int
    """Batches to take before the clock starts.

    A loader that works on across the end of an epoch has batches ready when a turn begins; that many
    and one more are taken untimed, so that each timed batch was also made within the time.
    """

    def prepare(self, source: Source, settings: Settings) -> tuple[str, ...]:
        """Write what the peer needs on disk, make the loader; return where it departs from the others.

        Raises:
            Unsupported: The peer cannot do this workload.
        """

    def epoch(self) -> Iterator[npt.NDArray[np.float32]]:
        """Yield ``(batch_size, 3, size, size)`` float32 batches of one epoch, without a copy for this."""
