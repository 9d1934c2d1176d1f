"""Documents end to end in streams: row i of a batch goes on in row i of the next one.

Recurrent models and Transformer-XL (Dai et al., 2019) train on such streams with truncated backpropagation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]


class Pieces(NamedTuple):
    """P pieces of documents in their order."""

    rows: Int64  # (P,) int64, the number of each piece's document
    begins: Int64  # (P,) int64, the first token of each piece in its document
    lengths: Int64  # (P,) int64, tokens of each piece


@dataclass(frozen=True, eq=False)
class TokenStreams:
    """Pieces of T tokens, cut into streams of (T - 1) // streams tokens each, without the rest of T.

    A window is the part of a stream that one row of a batch reads, with the token that follows. Window
    ``step * streams + i`` belongs to stream i.
    """

    pieces: Pieces  # The pieces
    streams: int  # Number of streams: the rows of a batch on all ranks
    window: int  # Tokens that a row takes of its stream at a step
    _offsets: Int64 = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_offsets", np.concatenate(([0], np.cumsum(self.pieces.lengths))))

    @property
    def length(self) -> int:
        """Tokens of a stream."""
        return max(int(self._offsets[-1]) - 1, 0) // self.streams

    def widths(self, *, partial: bool) -> Int64:
        """(steps,) int64, tokens that each step takes of a stream."""
        full, rest = divmod(self.length, self.window)
        return np.array([self.window] * full + [rest] * bool(rest and partial), np.int64)

    def slices(self, windows: Int64) -> tuple[Pieces, Int64, npt.NDArray[np.bool_]]:
        """The tokens of windows, each with the token that follows."""
        # windows (B,) int64
        step, stream = np.divmod(windows, self.streams)
        start = stream * self.length + step * self.window
        end = np.minimum(start + self.window, (stream + 1) * self.length) + 1
        first = np.searchsorted(self._offsets, start, "right") - 1
        counts = np.searchsorted(self._offsets, end, "left") - first
        groups = np.concatenate(([0], np.cumsum(counts)))
        which = np.repeat(first - groups[:-1], counts) + np.arange(groups[-1])
        low = np.maximum(self._offsets[which], np.repeat(start, counts))
        high = np.minimum(self._offsets[which + 1], np.repeat(end, counts))
        begins = self.pieces.begins[which] + low - self._offsets[which]
        opens = low == self._offsets[which]
        opens[groups[:-1]] |= step == 0
        return Pieces(self.pieces.rows[which], begins, high - low), groups, opens

    def rest(self, steps: int) -> Pieces:
        """The pieces that no stream has read after ``steps`` steps, stream after stream."""
        done = min(steps * self.window, self.length)
        ends = (np.arange(self.streams) + 1) * self.length
        starts = np.append(ends - self.length + done, self.streams * self.length)
        ends = np.append(ends, self._offsets[-1])
        cuts = np.unique(np.concatenate((self._offsets, starts, ends)))
        low, high = cuts[:-1], cuts[1:]
        kept = low >= starts[np.searchsorted(ends, low, "right")]
        low, high = low[kept], high[kept]
        which = np.searchsorted(self._offsets, low, "right") - 1
        begins = self.pieces.begins[which] + low - self._offsets[which]
        return Pieces(self.pieces.rows[which], begins, high - low)
