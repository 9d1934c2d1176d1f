"""Mosaic Streaming: MDS shards of token ids, padded by the collate function of its loader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from streaming import MDSWriter, StreamingDataLoader, StreamingDataset
from streaming.base.util import clean_stale_shared_memory

from stoker.benchmarks.peers.base import PeerSettings, PeerSource
from stoker.benchmarks.peers.text.sequences import Sequences
from stoker.benchmarks.peers.text.torch_text import pad_tensors


class MosaicText:
    """Random batches, padded to their longest sequence."""

    packages: tuple[str, ...] = ("mosaicml-streaming", "torch")
    lead = 0

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        """Write shards with a column of ids, as its example of pretokenised text does."""
        del settings
        sequences = Sequences(source)
        with MDSWriter(out=str(source.scratch / "mds"), columns={"tokens": "ndarray:uint16"}) as writer:
            for i in range(len(sequences)):
                writer.write({"tokens": sequences.ids(i)})

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        """Open the shards; the workers start with the first epoch."""
        clean_stale_shared_memory()  # of processes that were killed
        self._loader = StreamingDataLoader(
            StreamingDataset(
                local=str(source.scratch / "mds"),
                batch_size=settings.batch_size,
                shuffle=True,
                shuffle_seed=settings.seed,
            ),
            batch_size=settings.batch_size,
            num_workers=settings.num_threads,
            drop_last=True,
            persistent_workers=True,
            collate_fn=_padded,
        )
        return ("shuffles shards and blocks of samples (py1e)",)

    def epoch(self) -> Iterator[Any]:
        """Yield the batches of one pass over the loader."""
        for ids, mask in self._loader:
            yield ids.numpy(), mask.numpy()


def _padded(samples: list[dict[str, Any]]) -> tuple[torch.Tensor, torch.Tensor]:
    return pad_tensors([torch.from_numpy(sample["tokens"].astype("int64")) for sample in samples])
