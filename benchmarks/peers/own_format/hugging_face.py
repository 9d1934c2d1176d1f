"""Hugging Face datasets: Arrow files by ``save_to_disk``, in torch's DataLoader with worker processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import datasets
import torch
from torch.utils.data import DataLoader

from stoker.benchmarks.peers.base import RAW_REASON, PeerPayloads, Unsupported, shard_counts
from stoker.benchmarks.peers.torchvision_images import TorchvisionImages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stoker.benchmarks.peers.base import PeerSettings, PeerSource

__all__ = ["HuggingFaceDatasets"]


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
        """Write Arrow files with a column of images."""
        if source.raw:
            raise Unsupported(RAW_REASON)
        features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
        written = datasets.Dataset.from_generator(
            _samples,
            features=features,
            gen_kwargs={"source": source},
            cache_dir=str(source.scratch / "hf-cache"),
        )
        written.save_to_disk(source.scratch / "hf", num_shards=len(shard_counts(source, settings)))

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        """Open the files; the workers start with the first epoch."""
        opened = datasets.load_from_disk(source.scratch / "hf")
        opened = opened.cast_column("image", datasets.Image(decode=False))
        opened.set_transform(HuggingFaceImages(settings.size))
        torch.manual_seed(settings.seed)
        self._loader: DataLoader[Any] = DataLoader(
            opened,
            batch_size=settings.batch_size,
            shuffle=True,
            drop_last=True,
            num_workers=settings.num_threads,
            persistent_workers=True,
        )
        return ("decodes with torchvision, not with Pillow, its default",)

    def epoch(self) -> Iterator[Any]:
        """Yield the batches of one pass over the loader."""
        for batch in self._loader:
            yield batch["image"].numpy()


def _samples(source: PeerSource) -> Iterator[dict[str, Any]]:
    payloads = PeerPayloads(source)
    for i in range(len(payloads)):
        yield {"image": {"bytes": payloads.read(i), "path": None}, "label": int(payloads.label[i])}
