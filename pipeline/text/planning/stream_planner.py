"""The planner of streams of text: row i of a batch goes on in row i of the next one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.bucketing import BatchPlan
from stoker.bucketing.packing.token_streams import Pieces, TokenStreams
from stoker.bucketing.samplers.random_order import narrowed
from stoker.errors import ConfigError

from ...execution.epochs.epoch_cache import SharedEpochs
from ...execution.epochs.history import History
from ...order.epoch_order import Order
from .batching_config import BatchingConfig
from .epoch import TokenSlices
from .planner import Begun, TextPlanner, drawn_positions

Int64 = npt.NDArray[np.int64]


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
        self._streams: SharedEpochs[tuple[int, History], StreamEpoch] = SharedEpochs()
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
        return int(self.order.n * max(int(self._lengths.max()), 1))

    def _rows(self, world_size: int) -> int:
        assert self.batching.batch_size is not None, "checked by BatchingConfig"
        return self.batching.batch_size * world_size

    def _make_plan(self, epoch: int, history: History, begun: Begun | None) -> BatchPlan:
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
        lengths = self._lengths[drawn, 0].astype(np.int64)
        pieces, done = Pieces(np.arange(len(drawn)), np.zeros(len(drawn), np.int64), lengths), 0
        assert self.batching.stream is not None, "only streams have this planner"
        streams: TokenStreams | None = None
        for world_size, steps in (*history, (self._world_size, 0)):
            rows = self._rows(world_size)
            if streams is None or streams.streams != rows:
                rest = pieces if streams is None else streams.rest(done)
                streams, done = TokenStreams(rest, rows, self.batching.stream), 0
            done += steps
        assert streams is not None, "the loop has made it"
        return StreamEpoch(streams, drawn, done)
