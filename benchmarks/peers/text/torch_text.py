"""PyTorch's DataLoader with worker processes and ``pad_sequence``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

from stoker.benchmarks.peers.base import PeerSettings, PeerSource
from stoker.benchmarks.peers.text.sequences import PAD, Sequences


class _Tensors(Dataset[torch.Tensor]):
    """Sequences as tensors of int64."""

    def __init__(self, sequences: Sequences) -> None:
        self._sequences = sequences

    def __len__(self) -> int:
        return len(self._sequences)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(self._sequences.ids(index).astype("int64"))


def pad_tensors(sequences: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the ids of a batch, (N, L) int64, padded to the longest, and their mask, (N, L) bool."""
    ids = pad_sequence(sequences, batch_first=True, padding_value=PAD)
    lengths = torch.tensor([len(one) for one in sequences])
    return ids, torch.arange(ids.shape[1]) < lengths[:, None]


class TorchText:
    """Random batches of sequences in memory, padded by the workers."""

    packages: tuple[str, ...] = ("torch",)
    lead = 0

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        """Make the loader; the workers start with the first epoch."""
        torch.manual_seed(settings.seed)
        self._loader: DataLoader[Any] = DataLoader(
            _Tensors(Sequences(source)),
            batch_size=settings.batch_size,
            shuffle=True,
            drop_last=True,
            num_workers=settings.num_threads,
            persistent_workers=True,
            collate_fn=pad_tensors,
        )
        return ("reads sequences that lie in memory",)

    def epoch(self) -> Iterator[Any]:
        """Yield the batches of one pass over the loader."""
        for ids, mask in self._loader:
            yield ids.numpy(), mask.numpy()
