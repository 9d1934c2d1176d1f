"""Stoker with its C++ engine in workers of a local Ray, which have all cores; this process makes no batch."""

from __future__ import annotations

import logging

import ray

from stoker import RayWorkers
from stoker.benchmarks.peers.base import PeerSettings, PeerSource
from stoker.benchmarks.peers.stoker_loaders.native import StokerNative


class StokerRay(StokerNative):
    """The same loader, whose batches come through Ray's object store."""

    packages = ("stoker", "numpy", "ray")
    workers = RayWorkers(local=False)

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        """Start Ray with a core for each thread, and one worker on them."""
        ray.init(
            "local",
            num_cpus=settings.num_threads,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
        return super().prepare(source, settings)
