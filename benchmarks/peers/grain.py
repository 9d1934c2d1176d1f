"""Grain: ArrayRecord files, a ``MapDataset``, and worker processes."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grain
import numpy as np
from array_record.python.array_record_module import ArrayRecordWriter

from .base import PeerPayloads, PeerSettings, PeerSource, Unsupported, shard_counts
from .torchvision import TorchvisionImages


class GrainImages:
    """A function from a record to an image and a label."""

    def __init__(self, size: int) -> None:
        self._images = TorchvisionImages(size)

    def __call__(self, record: bytes) -> tuple[Any, int]:
        payload, label = pickle.loads(record)  # noqa: S301 - this program wrote it
        return self._images(payload).numpy(), label


class Grain:
    """A shuffled ``MapDataset`` in batches, prefetched by processes."""

    packages: tuple[str, ...] = ("grain", "array_record", "torchvision")
    lead = 0

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        payloads, first = PeerPayloads(source), 0
        for number, count in enumerate(shard_counts(source, settings)):
            writer = ArrayRecordWriter(
                str(source.scratch / f"grain-{number:05d}.arrayrecord"), "group_size:1"
            )
            for i in range(first, first + count):
                writer.write(pickle.dumps((payloads.payload(i), int(payloads.label[i]))))
            writer.close()
            first += count

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        if source.remote:
            raise Unsupported("ArrayRecord files are read from local disks")
        files = sorted(map(str, source.scratch.glob("grain-*.arrayrecord")))
        self._dataset = (
            grain.MapDataset.source(grain.sources.ArrayRecordDataSource(files))
            .seed(settings.seed)
            .shuffle()
            .map(GrainImages(settings.size))
            .repeat()
            .to_iter_dataset()
            .batch(settings.batch_size, drop_remainder=True)
            .mp_prefetch(grain.MultiprocessingOptions(num_workers=settings.num_threads))
        )
        self._steps = source.records // settings.batch_size
        self._batches: Any = iter(self._dataset)
        return ()

    def epoch(self) -> Iterator[Any]:
        for _ in range(self._steps):
            images, _ = next(self._batches)
            yield np.ascontiguousarray(images)

    def state(self, scratch: Path) -> Any:
        del scratch
        return json.dumps(self._batches.get_state())

    def resume(self, state: Any) -> Iterator[Any]:
        self._batches.set_state(json.loads(state))
        return self.epoch()
