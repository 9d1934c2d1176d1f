"""Ray Data: Parquet files, read and mapped by tasks of a local Ray."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray
import ray.data

from .base import RAW_REASON, PeerPayloads, PeerSettings, PeerSource, Unsupported, shard_counts
from .torchvision import TorchvisionImages

_BUFFER = 250
"""Samples in the buffer of the local shuffle, the number of its documentation; they are decoded images."""


class RayImages:
    """A function from columns of stored samples to columns of images and labels."""

    def __init__(self, size: int) -> None:
        self._images = TorchvisionImages(size)

    def __call__(self, columns: dict[str, Any]) -> dict[str, Any]:
        images = np.stack([self._images(payload).numpy() for payload in columns["image"]])
        return {"image": images, "label": columns["label"]}


class RayData:
    """A dataset of Parquet files, mapped by tasks and handed out as tensors."""

    packages: tuple[str, ...] = ("ray", "torch", "torchvision")
    lead = 0

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        if source.raw:
            raise Unsupported(RAW_REASON)
        payloads, first = PeerPayloads(source), 0
        folder = source.scratch / "parquet"
        folder.mkdir()
        for number, count in enumerate(shard_counts(source, settings)):
            rows = range(first, first + count)
            table = pa.table(
                {"image": [payloads.payload(i) for i in rows], "label": payloads.label[first : first + count]}
            )
            pq.write_table(table, folder / f"{number:05d}.parquet")
            first += count

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        ray.init("local", num_cpus=settings.num_threads, include_dashboard=False, log_to_driver=False)
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        self._dataset = ray.data.read_parquet(
            f"{source.remote}/parquet" if source.remote else str(source.scratch / "parquet"), shuffle="files"
        ).map_batches(RayImages(settings.size), batch_size=settings.batch_size)
        self._settings = settings
        return (f"shuffles files, and samples in a buffer of {_BUFFER:,}",)

    def epoch(self) -> Iterator[Any]:
        batches = self._dataset.iter_torch_batches(
            batch_size=self._settings.batch_size,
            drop_last=True,
            local_shuffle_buffer_size=_BUFFER,
            local_shuffle_seed=self._settings.seed,
            prefetch_batches=4,
        )
        for batch in batches:
            yield batch["image"].contiguous().numpy()
