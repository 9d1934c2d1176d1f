"""What a training step needs a second, and whether a form of the images meets it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..description.conversion_gain import Gain
from .memory_demand import MemoryDemand

__all__ = ["TRAINING_FORMS", "Advice", "Demand", "advise_on"]

TRAINING_FORMS: Mapping[str, Mapping[str, Any]] = {
    "stoker convert --restarts": {"restarts": True},
    "stoker convert --resize shorter=256": {"resize": "shorter=256"},
    "stoker convert --resize shorter=256 --encoding raw": {"resize": "shorter=256", "encoding": "raw"},
}
"""Options of a conversion by the command, from the one that changes images least."""


@dataclass(frozen=True)
class Demand:
    """What the steps of all ranks of a machine need.

    Attributes:
        images_per_second: Images that the steps take if they never wait.
        cores: Cores of the machine.
        measured_cores: Cores with which rates were measured.
        bandwidth: Bytes a second from the storage; None for no limit.
        ranks: Ranks of the machine.
        batch_bytes: Bytes of a batch of one rank.
    """

    images_per_second: float
    cores: int
    measured_cores: int
    bandwidth: int | None = None
    ranks: int = 1
    batch_bytes: int = 0


@dataclass(frozen=True)
class Advice:
    """A form of the images on the machine of a :class:`Demand`.

    Attributes:
        form: The command that makes the form.
        images_per_second: Rate of all cores of the machine, as many times that of a core.
        cores_needed: Cores whose rate is what the step needs.
        bytes_per_second: Bytes from the storage at the rate that the step needs.
        waits: Share of the time for which the step waits, 0 to 1.
        bytes: Bytes of all images in this form.
        threads: Threads for each rank that need not wait, at most its share of the cores of the machine.
        memory: What a rank needs of memory with as many.
    """

    form: str
    images_per_second: float
    cores_needed: float
    bytes_per_second: float
    waits: float
    bytes: int
    threads: int
    memory: MemoryDemand


def advise_on(gains: Sequence[Gain], demand: Demand, images: int) -> list[Advice]:
    """Return how each measured form meets the demand.

    Args:
        gains: Rate and bytes of each form.
        demand: What the steps need.
        images: Number of images in the dataset.
    """
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
