"""What training steps need of a machine and of a Ray cluster, and whether a form of the images meets it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..description.conversion_gain import Gain
from ..shared.console import human_bytes

TRAINING_FORMS: Mapping[str, Mapping[str, Any]] = {
    "stoker convert --restarts": {"restarts": True},
    "stoker convert --resize shorter=256": {"resize": "shorter=256"},
    "stoker convert --resize shorter=256 --encoding raw": {"resize": "shorter=256", "encoding": "raw"},
}
"""Options of a conversion by the command, from the one that changes images least."""

_PREFETCH = 4
"""Batches that a loader makes ahead by default."""

_MORE_BATCHES = 2  # the one that the loop holds, and one whose memory is used next
_OF_A_THREAD = 1 << 20
LIBRARY_BYTES = 40 << 20  # PyArrow, and the C++ module


@dataclass(frozen=True)
class MemoryDemand:
    """The most memory that a rank needs, besides the program that trains.

    Shards and index are mapped: the operating system keeps their bytes while it has room, and they do not
    count.
    """

    batch_bytes: int  # Bytes of a batch
    decoder_bytes: int  # The most that decoding an image takes
    threads: int  # Threads of the engine
    prefetch: int = _PREFETCH  # Batches that are made ahead

    @property
    def batches(self) -> int:
        """Bytes of the batches that are in flight, ready, and in the loop."""
        return (self.prefetch + _MORE_BATCHES) * self.batch_bytes

    @property
    def decoders(self) -> int:
        """Bytes of the decoders of all threads, each with the largest image."""
        return self.threads * (_OF_A_THREAD + self.decoder_bytes)

    @property
    def total(self) -> int:
        """Bytes of all."""
        return self.batches + self.decoders + LIBRARY_BYTES

    @property
    def sentence(self) -> str:
        """The bytes, and what they are for."""
        return (
            f"A rank needs up to {human_bytes(self.total)} of memory: {human_bytes(self.batches)} for "
            f"{self.prefetch + _MORE_BATCHES} batches of {human_bytes(self.batch_bytes)} each, as float32, "
            f"{human_bytes(self.decoders)} for the decoders of {self.threads} "
            f"thread{'s' * (self.threads > 1)}, and {human_bytes(LIBRARY_BYTES)} for libraries."
        )


@dataclass(frozen=True)
class Demand:
    """What the steps of all ranks of a machine need."""

    images_per_second: float  # Images that the steps take if they never wait
    cores: int  # Cores of the machine
    measured_cores: int  # Cores with which rates were measured
    bandwidth: int | None = None  # Bytes a second from the storage; None for no limit
    ranks: int = 1  # Ranks of the machine
    batch_bytes: int = 0  # Bytes of a batch of one rank


@dataclass(frozen=True)
class Advice:
    """A form of the images, and how it meets a :class:`Demand`."""

    form: str  # The command that makes the form
    images_per_second: float  # Rate of all cores of the machine: their number times the rate of one core
    cores_needed: float  # Cores that together reach the rate of the demand
    bytes_per_second: float  # Bytes from the storage at the rate that the step needs
    waits: float  # Share of the time for which the step waits, 0 to 1
    bytes: int  # Bytes of all images in this form
    threads: int  # Threads of a rank with which its step does not wait; at most its share of the cores
    memory: MemoryDemand  # The memory that a rank needs with these threads


def advise_on(gains: Sequence[Gain], demand: Demand, images: int) -> list[Advice]:
    """Return how each measured form meets the demand."""
    return [_advise(gain, demand, gain.bytes / images) for gain in gains]


def _advise(gain: Gain, demand: Demand, bytes_per_image: float) -> Advice:
    of_a_core = gain.images_per_second / demand.measured_cores
    rate = of_a_core * demand.cores
    needed = demand.images_per_second / of_a_core
    threads = max(1, min(math.ceil(needed / demand.ranks), demand.cores // demand.ranks))
    from_storage = float("inf") if demand.bandwidth is None else demand.bandwidth / bytes_per_image
    return Advice(
        form=gain.form,
        images_per_second=rate,
        cores_needed=needed,
        bytes_per_second=demand.images_per_second * bytes_per_image,
        waits=max(0.0, 1 - min(rate, from_storage) / demand.images_per_second),
        bytes=gain.bytes,
        threads=threads,
        memory=MemoryDemand(demand.batch_bytes, gain.decoder_bytes, threads),
    )


@dataclass(frozen=True)
class ClusterDemand:
    """What :class:`stoker.RayWorkers` need beside the machine that trains."""

    form: str  # Form of the images whose rate counts
    cores: float  # Cores that workers must have, if they are as fast as those of this machine
    workers_rate: float  # Images a second that workers make
    pixel_bytes: int  # Bytes of an image as uint8
    payload_bytes: float  # Bytes of an image in its form
    network: int  # Bytes a second of the link

    @property
    def sentences(self) -> Iterator[str]:
        """What the figures mean."""
        if not self.cores:
            yield "The cores of this machine are enough, so workers on a cluster would not help."
            return
        carried = self.network / self.pixel_bytes
        yield (
            f"With workers on a cluster ({self.form}): {self.cores:,.1f} more cores such as these make "
            f"{self.workers_rate:,.0f} images/s. A link of {human_bytes(self.network)}/s carries "
            f"{carried:,.0f} images/s of uint8, as workers send them ({human_bytes(self.pixel_bytes)} each)."
        )
        if carried < self.workers_rate:
            share = carried / self.workers_rate
            yield f"The link is too slow: it carries {share:.0%} of what the workers would make."
        if self.payload_bytes < self.pixel_bytes:
            yield (
                f"An encoded image takes {human_bytes(self.payload_bytes)} of the link, less than its "
                "pixels: if the machine that trains has the cores, let it read the shards over the link."
            )


def cluster_demand(
    best: Advice, demand: Demand, pixel_bytes: int, payload_bytes: float, network: int
) -> ClusterDemand:
    """Return what a cluster must add."""
    return ClusterDemand(
        best.form,
        max(0.0, best.cores_needed - demand.cores),
        max(0.0, demand.images_per_second - best.images_per_second),
        pixel_bytes,
        payload_bytes,
        network,
    )
