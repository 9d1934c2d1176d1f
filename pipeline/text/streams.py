"""Documents end to end in streams: row i of a batch goes on in row i of the next one.

Recurrent models and Transformer-XL (Dai et al., 2019) train on such streams with truncated backpropagation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.bucketing import BatchPlan
from stoker.bucketing.layout import Packed
from stoker.bucketing.plan import narrowed
from stoker.errors import ConfigError
from stoker.processes import cached_property

from ..execution.state import History, OldRanks
from ..order.orders import Order
from ..order.schedule import EpochCache
from .batching import BatchingConfig
from .planner import TextPlanner, TokenSlices, drawn_positions

Int64 = npt.NDArray[np.int64]


class Pieces(NamedTuple):
    """P pieces of documents in their order."""

    rows: Int64  # (P,), the number of each piece's document
    begins: Int64  # (P,), the first token of each piece in its document
    lengths: Int64  # (P,), tokens of each piece


@dataclass(frozen=True, eq=False)
class TokenStreams:
    """Pieces of T tokens, cut into streams of (T - 1) // streams tokens each, without the rest of T.

    A window is the part of a stream that one row of a batch reads, with the token that follows. Window
    ``step * streams + i`` belongs to stream i.
    """

    pieces: Pieces
    streams: int  # Number of streams: the rows of a batch on all ranks
    window: int  # Tokens that a row takes of its stream at a step

    @cached_property
    def _offsets(self) -> Int64:
        return np.concatenate(([0], np.cumsum(self.pieces.lengths)))

    @property
    def length(self) -> int:
        """Tokens of a stream."""
        return max(int(self._offsets[-1]) - 1, 0) // self.streams

    def widths(self, *, partial: bool) -> Int64:
        """(steps,), tokens that each step takes of a stream."""
        full, rest = divmod(self.length, self.window)
        return np.array([self.window] * full + [rest] * bool(rest and partial), np.int64)

    def slices(self, windows: Int64) -> tuple[Pieces, Int64, npt.NDArray[np.bool_]]:
        """The tokens of windows, each with the token that follows."""
        # windows (B,)
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


@dataclass(frozen=True, eq=False)
class StreamEpoch:
    """The streams of one epoch, or of its rest; it stands for a ``TextEpoch``."""

    streams: TokenStreams  # Pieces of draws
    drawn: npt.NDArray[Any]  # (n,) integers, position in the dataset of each draw
    done: int  # Steps of these streams that came before a change of ranks

    def token_slices(self, rows: Int64) -> TokenSlices:
        """The slices of the windows ``rows``, (B,) int64, each with the next token of its stream."""
        pieces, groups, opens = self.streams.slices(rows)
        positions, lengths = self.drawn[pieces.rows].astype(np.int64, copy=False), pieces.lengths[:, None]
        return TokenSlices(positions, pieces.begins, lengths, groups, pieces.rows, opens)


class StreamPlanner(TextPlanner):
    """Plans streams; see :class:`TextPlanner` for the arguments.

    The draws of an epoch are joined in their order, and cut into one stream for each row of the global batch.
    The last tokens of an epoch, fewer than there are streams, are left out.
    """

    def __init__(
        self, batching: BatchingConfig, lengths: npt.NDArray[Any], order: Order, world_size: int
    ) -> None:
        if lengths.shape[1] > 1:
            raise ConfigError("stream takes one field", hint="Choose one: fields=('answer',)")
        super().__init__(batching, lengths, order, world_size)
        self._streams: EpochCache[tuple[int, History], StreamEpoch] = EpochCache()
        if not len(self.plan(0)):
            raise ConfigError(
                f"an epoch of {int(lengths.sum())} tokens has no batch of {self._rows(world_size)} streams",
                hint="Take fewer ranks, a smaller batch_size or a shorter stream.",
            )

    def epoch_of(self, plan: BatchPlan) -> StreamEpoch:  # type: ignore[override]  # has all that is used of one
        """The streams of a plan."""
        return self._streams.get((plan.epoch, plan.history), self._make_streams)

    @cached_property
    def boundaries(self) -> Int64 | None:
        """None, since all steps but the last have the same length."""
        return None

    @property
    def has_equal_epochs(self) -> bool:
        """Whether all epochs have the same number of tokens."""
        return self.takes_all

    @property
    def most_steps(self) -> int:
        """Upper bound of the steps of an epoch."""
        return int(self.order.n * max(int(self._planned_lengths.max()), 1))

    def _rows(self, world_size: int) -> int:
        assert self.batching.batch_size is not None, "checked by BatchingConfig"
        return self.batching.batch_size * world_size

    def _make_plan(self, epoch: int, history: History, begun: OldRanks | None) -> BatchPlan:
        cached = self._streams.get((epoch, history), self._make_streams)
        widths = cached.streams.widths(partial=self.batching.last_batch == "partial")[cached.done :]
        rows = self._rows(self._world_size)
        sizes = np.full(len(widths), rows, np.int64)
        first, last = cached.done * rows, (cached.done + len(widths)) * rows
        return BatchPlan(
            rows=narrowed(np.arange(first, last), last),
            starts=np.arange(len(widths)) * rows,
            sizes=sizes,
            valid=sizes,
            lengths=widths[:, None],
            world_size=self._world_size,
            seed=self.batching.seed,
            epoch=epoch,
            history=history,
        )

    def _make_streams(self, key: tuple[int, History]) -> StreamEpoch:
        epoch, history = key
        drawn = drawn_positions(self.order, epoch)
        lengths = self._planned_lengths[drawn, 0].astype(np.int64)
        pieces, done = Pieces(np.arange(len(drawn)), np.zeros(len(drawn), np.int64), lengths), 0
        worlds = [*history, (self._world_size, 0)]
        streams = TokenStreams(pieces, self._rows(worlds[0][0]), self.batching.stream or 0)
        for world_size, steps in worlds:
            if streams.streams != self._rows(world_size):
                streams, done = replace(streams, pieces=streams.rest(done), streams=self._rows(world_size)), 0
            done += steps
        return StreamEpoch(streams, drawn, done)


@dataclass(frozen=True)
class StreamWindows:
    """Makes the arrays of a step of ``TextLoader(stream=...)``."""

    ignore_index: int = -100  # Target or label where a model is not trained

    def __call__(self, samples: Packed, length: Any = None) -> dict[str, Any]:
        """Return "input_ids" and "targets", the tokens that follow, (B, L) each."""
        # If tokens are masked, return "labels", the tokens that were hidden, instead of "targets".
        sequences = samples.sequences
        ids = sequences.values.reshape(len(samples.groups) - 1, -1)
        masked = sequences.targets is not None
        each = slice(0, -1) if masked else slice(1, None)
        trained = sequences.values if sequences.targets is None else sequences.targets
        targets = trained.reshape(ids.shape)[:, each].copy()
        if sequences.trained is not None:
            targets[~sequences.trained.reshape(ids.shape)[:, each]] = self.ignore_index
        name = "labels" if masked else "targets"
        return {"input_ids": np.ascontiguousarray(ids[:, :-1]), name: targets}
