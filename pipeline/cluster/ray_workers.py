"""The option ``workers`` of :class:`stoker.Reading`: which part of a Ray cluster makes batches."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.arguments import optional_number
from stoker.errors import ConfigError


@dataclass(frozen=True)
class RayWorkers:
    """The part of a Ray cluster that makes batches for a loader.

    Each machine of the cluster gets one process with a copy of the loader, whose engine has that machine's
    share of ``num_cpus`` threads. The batches are those that the loader makes without workers. Each machine
    needs this release of Stoker, and the dataset at the same path or URL.

    A machine takes part with the CPUs that Ray knows of it: ``ray start --num-cpus=0`` keeps those of the
    trainer's machine for the loader's own engine. If a worker dies, others make its batches; if the whole
    cluster is lost, the loader goes on alone.

    If images are floats, workers send them as uint8, a quarter of the bytes of float32. This process then
    does the last steps: colours such as normalisation, the dtype, the layout, and erased boxes.

    Attributes:
        address: Address of the cluster, as ``ray.init`` takes it; "auto" finds the cluster of this machine.
            A program that has called ``ray.init`` before keeps its connection.
        num_cpus: Cores of the cluster that make batches for all ranks together, which share them equally.
            None takes all.
        local: Whether this process makes batches, too. False leaves its cores to the training while there
            are workers.
        in_flight: Batches that may be asked for and not received, from 1. They bound the memory on both
            sides. None is 3 for each machine that the cluster has when the loader is made, and 4 more. Small
            batches are asked for together and count as one: up to 8 of images that have 48 MiB as they are
            sent, and up to 131,072 tokens of text.
        whole: Whether workers always send finished images, for a trainer with a fast link and few free cores.
            Workers always finish images of several samples, images with other channels than RGB, and images
            from which a mean image is subtracted.

    Raises:
        ConfigError: An argument is wrong.
    """

    address: str = "auto"
    num_cpus: int | None = None
    local: bool = True
    in_flight: int | None = None
    whole: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.address, str) or not self.address:
            raise ConfigError(f"address must be the address of a Ray cluster, found {self.address!r}")
        for name in ("num_cpus", "in_flight"):
            object.__setattr__(self, name, optional_number(name, getattr(self, name), 1))
