"""Grain: ArrayRecord files of token ids, padded by ``batch_fn``, and worker processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grain
import numpy as np
from array_record.python.array_record_module import ArrayRecordWriter

from stoker.benchmarks.peers.base import PeerSettings, PeerSource
from stoker.benchmarks.peers.text.sequences import Sequences, padded


class GrainText:
    """Random batches, padded to their longest sequence."""

    packages: tuple[str, ...] = ("grain", "array_record")
    lead = 0

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        """Write a file of one record a group, which its documentation advises for random access."""
        del settings
        sequences = Sequences(source)
        writer = ArrayRecordWriter(str(source.scratch / "text.arrayrecord"), "group_size:1")
        for i in range(len(sequences)):
            writer.write(sequences.ids(i).tobytes())
        writer.close()

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        """Make the dataset, which starts its processes."""
        records = grain.sources.ArrayRecordDataSource([str(source.scratch / "text.arrayrecord")])
        dataset = (
            grain.MapDataset.source(records)
            .seed(settings.seed)
            .shuffle()
            .map(_ids)
            .repeat()
            .to_iter_dataset()
            .batch(settings.batch_size, drop_remainder=True, batch_fn=padded)
            .mp_prefetch(grain.MultiprocessingOptions(num_workers=settings.num_threads))
        )
        self._steps = source.records // settings.batch_size
        self._batches: Any = iter(dataset)
        return ()

    def epoch(self) -> Iterator[Any]:
        """Yield as many batches as an epoch has; the dataset repeats."""
        for _ in range(self._steps):
            yield next(self._batches)


def _ids(record: bytes) -> Any:
    return np.frombuffer(record, np.uint16)
