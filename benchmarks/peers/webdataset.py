"""WebDataset: tar archives by its writer, its pipeline, and its loader with worker processes."""

from __future__ import annotations

import os
from pathlib import Path

import webdataset as wds

from .base import PeerPayloads, PeerSettings, PeerSource, WithTensors, shard_counts
from .torchvision import TorchvisionImages

_BUFFER = 1000
"""Samples in the buffer of the shuffle, the number of its documentation."""


class WebDataset(WithTensors):
    """A ``WebDataset`` of shuffled archives, batched in the workers of a ``WebLoader``."""

    packages: tuple[str, ...] = ("webdataset", "torch", "torchvision")

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        payloads, suffix = PeerPayloads(source), "npy" if source.raw else "jpg"
        largest = max(shard_counts(source, settings))
        with wds.ShardWriter(str(source.scratch / "web-%06d.tar"), maxcount=largest, verbose=0) as writer:
            for i in range(len(payloads)):
                writer.write(
                    {"__key__": f"{i:08d}", suffix: payloads.payload(i), "cls": int(payloads.label[i])}
                )

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        archives = sorted(map(str, source.scratch.glob("web-*.tar")))
        if source.remote:  # its documentation reads URLs of http with curl
            folder = source.remote.replace("s3:/", os.environ["AWS_ENDPOINT_URL"])
            archives = [f"{folder}/{Path(archive).name}" for archive in archives]
        dataset = wds.WebDataset(archives, shardshuffle=len(archives), seed=settings.seed).shuffle(_BUFFER)
        if source.raw:
            dataset = dataset.decode()
        dataset = dataset.to_tuple("npy" if source.raw else "jpg", "cls")
        dataset = dataset.map_tuple(TorchvisionImages(settings.size), int)
        self._loader = wds.WebLoader(
            dataset.batched(settings.batch_size, partial=False),
            batch_size=None,
            num_workers=settings.num_threads,
            persistent_workers=True,
        )
        return (
            f"shuffles archives, and samples in a buffer of {_BUFFER:,}",
            "each worker drops its last batch",
        )
