"""Hugging Face datasets: Arrow files by ``save_to_disk``, or a stream of Parquet, in torch's DataLoader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import datasets
import torch
from torch.utils.data import DataLoader

from .base import (
    RAW_REASON,
    PeerPayloads,
    PeerSettings,
    PeerSource,
    Unsupported,
    shard_counts,
    worker_options,
)
from .torchvision import TorchvisionImages

_BUFFER = 1000
"""Samples in the buffer of a stream's shuffle, the default of its documentation."""


class HuggingFaceImages:
    """A transform of ``set_transform``: columns of stored samples to images and labels."""

    def __init__(self, size: int) -> None:
        self._images = TorchvisionImages(size)

    def __call__(self, columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return {
            "image": [self._images(image["bytes"]) for image in columns["image"]],
            "label": columns["label"],
        }


class HuggingFaceDatasets:
    """A ``Dataset`` with a transform on the fly."""

    packages: tuple[str, ...] = ("datasets", "torch", "torchvision")
    lead = 0

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        _dataset(source).save_to_disk(source.scratch / "hf", num_shards=len(shard_counts(source, settings)))

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        if source.remote:
            raise Unsupported("load_from_disk copies all files first; see the streamed dataset")
        opened = datasets.load_from_disk(source.scratch / "hf")
        opened = opened.cast_column("image", datasets.Image(decode=False))
        opened.set_transform(HuggingFaceImages(settings.size))
        torch.manual_seed(settings.seed)
        self._loader: DataLoader[Any] = DataLoader(opened, shuffle=True, **worker_options(settings))
        return ("decodes with torchvision, not with Pillow, its default",)

    def epoch(self) -> Iterator[Any]:
        for batch in self._loader:
            yield batch["image"].numpy()


class HuggingFaceStreaming(HuggingFaceDatasets):
    """An ``IterableDataset`` of Parquet files with a transform."""

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        written, shards = _dataset(source), len(shard_counts(source, settings))
        for i in range(shards):
            part = written.shard(shards, i, contiguous=True)
            part.to_parquet(source.scratch / f"part-{i:05d}.parquet")

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        names = sorted(path.name for path in source.scratch.glob("part-*.parquet"))
        files = [f"{source.remote or source.scratch}/{name}" for name in names]
        stream = datasets.load_dataset("parquet", data_files={"train": files}, split="train", streaming=True)
        stream = stream.cast_column("image", datasets.Image(decode=False))
        stream = stream.shuffle(seed=settings.seed, buffer_size=_BUFFER)
        stream = stream.map(HuggingFaceImages(settings.size), batched=True, batch_size=settings.batch_size)
        self._loader = DataLoader(stream, **worker_options(settings))
        return (f"shuffles files, and samples in a buffer of {_BUFFER:,}", "each worker drops its last batch")


def _dataset(source: PeerSource) -> Any:
    if source.raw:
        raise Unsupported(RAW_REASON)
    return datasets.Dataset.from_generator(
        _samples,
        features=datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")}),
        gen_kwargs={"source": source},
        cache_dir=str(source.scratch / "hf-cache"),
    )


def _samples(source: PeerSource) -> Iterator[dict[str, Any]]:
    payloads = PeerPayloads(source)
    for i in range(len(payloads)):
        yield {"image": {"bytes": payloads.read(i), "path": None}, "label": int(payloads.label[i])}
