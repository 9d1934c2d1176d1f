"""Stoker with DALI as its engine."""

from __future__ import annotations

import nvidia.dali  # noqa: F401 - its time counts as import

from stoker.benchmarks.peers.stoker_loaders.native import StokerNative


class StokerDali(StokerNative):
    """The same loader with ``engine="dali"``."""

    packages = ("stoker", "nvidia-dali-cuda120", "nvidia-dali-cuda130")
    engine = "dali"
