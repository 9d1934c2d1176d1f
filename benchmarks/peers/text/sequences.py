"""Sequences of token ids, which loaders of text read, or write into files of their formats."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stoker.benchmarks.peers.base import PeerSource

PAD = 256
"""The id of padding; those of tokens are bytes."""


class Sequences:
    """Token ids by the number of a sequence; ``lengths`` is (N,) int64."""

    def __init__(self, source: PeerSource) -> None:
        with np.load(source.table) as table:
            self._ids, self.lengths = table["ids"], table["lengths"]
        self._ends = np.cumsum(self.lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def ids(self, i: int) -> npt.NDArray[np.uint16]:
        """Return the ids of sequence ``i``, (L,) uint16."""
        end = self._ends[i]
        ids: npt.NDArray[np.uint16] = self._ids[end - self.lengths[i] : end]
        return ids


def padded(sequences: list[npt.NDArray[np.uint16]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the ids of sequences, (N, L) int64, padded to the longest, and their mask, (N, L) bool."""
    lengths = np.array([len(one) for one in sequences])
    ids = np.full((len(sequences), int(lengths.max())), PAD, np.int64)
    for row, one in zip(ids, sequences, strict=True):
        row[: len(one)] = one
    return ids, np.arange(ids.shape[1]) < lengths[:, None]
