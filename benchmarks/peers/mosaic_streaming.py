"""Mosaic Streaming: MDS shards by its writer, and a ``StreamingDataset`` in its loader."""

from __future__ import annotations

from typing import Any

from streaming import MDSWriter, StreamingDataLoader, StreamingDataset
from streaming.base.util import clean_stale_shared_memory

from .base import PeerPayloads, PeerSettings, PeerSource, WithLoaderState, WithTensors, worker_options
from .torchvision import TorchvisionImages


class MosaicImages(StreamingDataset):
    """Images and labels of shards; the class of a user, as its documentation shows it."""

    def __init__(self, local: str, remote: str | None, settings: PeerSettings) -> None:
        super().__init__(
            local=local,
            remote=remote,
            batch_size=settings.batch_size,
            shuffle=True,
            shuffle_seed=settings.seed,
        )
        self._images = TorchvisionImages(settings.size)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        sample = super().__getitem__(index)
        return self._images(sample["image"]), int(sample["label"])


class MosaicStreaming(WithTensors, WithLoaderState):
    """The dataset in a ``StreamingDataLoader`` with worker processes."""

    packages: tuple[str, ...] = ("mosaicml-streaming", "torch", "torchvision")

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        del settings
        payloads = PeerPayloads(source)
        columns = {"image": "ndarray:uint8" if source.raw else "bytes", "label": "int"}
        with MDSWriter(out=str(source.scratch / "mds"), columns=columns) as writer:
            for i in range(len(payloads)):
                writer.write({"image": payloads.payload(i), "label": int(payloads.label[i])})

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        clean_stale_shared_memory()  # of processes that were killed
        remote = f"{source.remote}/mds" if source.remote else None
        local = source.scratch / ("cache" if source.remote else "mds")
        dataset = MosaicImages(str(local), remote, settings)
        self._loader = StreamingDataLoader(dataset, **worker_options(settings))
        return ("shuffles shards and blocks of samples (py1e)",)
