"""LitData: chunks by ``optimize``, a ``StreamingDataset`` and its loader with worker processes."""

from __future__ import annotations

from typing import Any

import litdata
from litdata.streaming import downloader

from .base import PeerPayloads, PeerSettings, PeerSource, WithLoaderState, WithTensors, worker_options
from .torchvision import TorchvisionImages

# The object store of the comparison has no TLS. Workers that do not fork import this module, too.
downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = "true"


class LitDataSample:
    """A function from the number of a sample to what LitData stores."""

    def __init__(self, source: PeerSource) -> None:
        self._payloads = PeerPayloads(source)

    def __call__(self, i: int) -> dict[str, Any]:
        return {"image": self._payloads.payload(i), "label": int(self._payloads.label[i])}


class LitDataImages:
    """A function from a stored sample to an image and a label."""

    def __init__(self, size: int) -> None:
        self._images = TorchvisionImages(size)

    def __call__(self, sample: dict[str, Any]) -> tuple[Any, int]:
        return self._images(sample["image"]), sample["label"]


class LitData(WithTensors, WithLoaderState):
    """A ``StreamingDataset`` of local chunks in a ``StreamingDataLoader``."""

    packages: tuple[str, ...] = ("litdata", "torch", "torchvision")

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        litdata.optimize(
            fn=LitDataSample(source),
            inputs=list(range(source.records)),
            output_dir=str(source.scratch / "litdata"),
            chunk_bytes="64MB",
            num_workers=settings.num_threads,
            verbose=False,
        )

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        dataset = litdata.StreamingDataset(
            f"{source.remote or source.scratch}/litdata",
            cache_dir=str(source.scratch / "cache") if source.remote else None,
            shuffle=True,
            drop_last=True,
            seed=settings.seed,
            transform=LitDataImages(settings.size),
        )
        self._loader = litdata.StreamingDataLoader(dataset, **worker_options(settings))
        return ("shuffles chunks, and the samples within a chunk",)
