"""What a training step needs of the machines of a Ray cluster, and of the link to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..shared.console import human_bytes
from .step_demand import Advice, Demand

__all__ = ["ClusterDemand", "cluster_demand"]


@dataclass(frozen=True)
class ClusterDemand:
    """What :class:`stoker.RayWorkers` need beside the machine that trains.

    Attributes:
        form: Form of the images whose rate counts.
        cores: Cores of workers besides those of the machine, such as these.
        workers_rate: Images a second that workers make.
        pixel_bytes: Bytes of an image as uint8.
        payload_bytes: Bytes of an image in its form.
        network: Bytes a second of the link.
    """

    form: str
    cores: float
    workers_rate: float
    pixel_bytes: int
    payload_bytes: float
    network: int

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
    """Return what a cluster must add.

    Args:
        best: The form of the images.
        demand: What the steps need.
        pixel_bytes: Bytes of an image as uint8.
        payload_bytes: Bytes of an image in its form.
        network: Bytes a second of the link.
    """
    return ClusterDemand(
        best.form,
        max(0.0, best.cores_needed - demand.cores),
        max(0.0, demand.images_per_second - best.images_per_second),
        pixel_bytes,
        payload_bytes,
        network,
    )
