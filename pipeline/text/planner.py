"""The planner of text: which sequences form each batch of an epoch, decided from lengths alone.

A ``TextLoader`` has one. It makes the plan of an epoch, and finds the tokens of a batch of the plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.bucketing import (
    BatchPlan,
    BatchSampler,
    FixedBucketSampler,
    PackingPlan,
    TokenBudgetSampler,
    bucket_boundaries,
    pack,
)
from stoker.bucketing.boundaries import cost_function
from stoker.bucketing.plan import narrowed
from stoker.bucketing.samplers import Balance
from stoker.processes import cached_property

from ..execution.state import History, OldRanks
from ..order.orders import Order, Stream, without_interleaving
from ..order.schedule import EpochCache
from .batching import (
    FEW_BUCKETS,
    BatchingConfig,
    flat_lengths,
    length_table,
    limited_lengths,
    make_batch_sampler,
    row_capacity,
)

Int64 = npt.NDArray[np.int64]

_CHUNK = 1 << 16  # draws that are ordered at once; more would not stay in the processor's cache


class TokenSlices(NamedTuple):
    """The P sequences of one batch: each is a slice of the tokens of a sample."""

    positions: Int64  # (P,), positions of the samples in the dataset
    begins: Int64  # (P,), first token of each slice; above 0 only if a sample was split
    lengths: Int64  # (P, D), tokens of each slice in each of D fields
    groups: Int64 | None  # (rows + 1,), first slice of each packed row, and P; None without packing
    draws: Int64  # (P,), number of each slice's draw in the epoch
    # (P,), whether a document begins with each slice of streams; None for other batches
    opens: npt.NDArray[np.bool_] | None = None

    def part(self, each: slice) -> TokenSlices:
        """Some of the sequences, of rows that are not packed."""
        lengths, draws = self.lengths[each], self.draws[each]
        return TokenSlices(self.positions[each], self.begins[each], lengths, None, draws)


@dataclass(frozen=True, eq=False)
class TextEpoch:
    """The draws of one epoch, and how they form batches."""

    sampler: BatchSampler  # Groups draws, or packed rows of draws, into batches
    lengths: npt.NDArray[Any]  # (n, D) integers, tokens that are read of each draw in each of D fields
    # (n,) int32 or int64, position in the dataset of each draw; None if draw i is sample i
    drawn: npt.NDArray[Any] | None
    packing: PackingPlan | None  # The draws of each packed row; None without packing
    # (n, E) integers, the lengths by which batches are planned; None if they are ``lengths``
    planned: npt.NDArray[Any] | None = None

    def token_slices(self, rows: Int64) -> TokenSlices:
        """The sequences of a batch of ``rows``, (n,) int64: its packed rows, or its draws without packing."""
        packing = self.packing
        if packing is None:
            lengths = self.lengths[rows].astype(np.int64, copy=False)
            return TokenSlices(self.samples(rows), np.zeros_like(rows), lengths, None, rows)
        counts = packing.offsets[rows + 1] - packing.offsets[rows]
        groups = np.concatenate(([0], np.cumsum(counts)))
        which = np.repeat(packing.offsets[rows] - groups[:-1], counts) + np.arange(groups[-1])
        draws = packing.rows[which].astype(np.int64, copy=False)
        begins, lengths = packing.begins[which], packing.lengths[which].reshape(len(which), -1)
        if self.planned is not None:
            lengths = self.lengths[draws]
        begins, lengths = begins.astype(np.int64), lengths.astype(np.int64)
        return TokenSlices(self.samples(draws), begins, lengths, groups, draws)

    def samples(self, draws: npt.NDArray[Any]) -> Int64:
        """Positions in the dataset of draws, (n,) each."""
        return (draws if self.drawn is None else self.drawn[draws]).astype(np.int64, copy=False)


class TextPlanner:
    """Plans the batches of epochs. It keeps the latest plan, and those that passes use.

    ``lengths`` are (N, D), tokens of each sample in each of D fields. ``planned_lengths`` makes others of
    them if batches are planned by the tokens that a mask or preference pairs make. ``keeps`` says of the
    lengths that are read which samples are drawn; None draws all.
    """

    def __init__(
        self,
        batching: BatchingConfig,
        lengths: npt.NDArray[Any],
        order: Order,
        world_size: int,
        *,
        special_tokens: int = 0,
        planned_lengths: Callable[[npt.NDArray[Any]], Int64] | None = None,
        keeps: Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_] | None] | None = None,
    ) -> None:
        self.batching = batching
        self.order = order
        self._draws = without_interleaving(order) if batching.shuffle else order
        self._read_lengths = limited_lengths(
            lengths, batching, special_tokens, are_planned=planned_lengths is None
        )
        self.keeps = None if keeps is None else keeps(self._read_lengths)
        draws_all = _takes_all(order, len(lengths))
        self.takes_all = draws_all and self.keeps is None
        self._varies = not draws_all and self.keeps is not None  # in the number of draws
        self._planned_lengths = (
            self._read_lengths if planned_lengths is None else planned_lengths(self._read_lengths)
        )
        self._capacity = row_capacity(batching, self._planned_lengths.shape[1])
        self._world_size = world_size
        self._drawn: EpochCache[int, Int64] = EpochCache()
        self._epochs: EpochCache[int, TextEpoch] = EpochCache()
        self._plans: EpochCache[tuple[int, History, OldRanks | None], BatchPlan] = EpochCache()

    def plan(self, epoch: int, history: History = (), begun: OldRanks | None = None) -> BatchPlan:
        """The batches of an epoch, or of its rest after ``history``, in the form that ``begun`` gave them."""
        return self._plans.get((epoch, history, begun), lambda _: self._make_plan(epoch, history, begun))

    def epoch(self, epoch: int) -> TextEpoch:
        """The draws of an epoch, and how they form batches."""
        same = self.takes_all and (self.batching.pack is None or not self.batching.shuffle)
        return self._epochs.get(0 if same else epoch, self._make_epoch)

    def epoch_of(self, plan: BatchPlan) -> TextEpoch:
        """The draws of a plan's epoch."""
        return self.epoch(plan.epoch)

    @cached_property
    def boundaries(self) -> Int64 | None:
        """(K, D), largest length of each bucket in each field; None if there are no buckets."""
        batching = self.batching
        if self._capacity is not None:
            return np.array([self._capacity], np.int64)
        if batching.buckets is None or batching.batch_sampler is not None or self.splits:
            return None
        if batching.boundaries is not None:
            return length_table(batching.boundaries)
        number = batching.buckets if isinstance(batching.buckets, int) else FEW_BUCKETS
        method: Any = "optimal" if self._planned_lengths.shape[1] <= 2 else "tokens"
        lengths = flat_lengths(self._usual_lengths())
        buckets = bucket_boundaries(lengths, number, method, pad_to_multiple_of=batching.pad_to_multiple_of)
        return length_table(buckets.boundaries)

    @property
    def splits(self) -> bool:
        """Whether a k-d split makes the batches, the default for several fields with separate padding."""
        return (
            self.batching.is_auto
            and self._read_lengths is self._planned_lengths
            and self._planned_lengths.shape[1] > 1
        )

    @cached_property
    def max_sequences(self) -> int:
        """Largest number of sequences in a packed row, in any epoch."""
        if self.batching.max_sequences is not None:
            return self.batching.max_sequences
        packing = self.epoch(0).packing
        assert packing is not None, "called only with packing"
        return int(np.diff(packing.offsets).max())

    @property
    def planned_fields(self) -> int:
        """Number of the lengths of each sample by which batches are planned."""
        return int(self._planned_lengths.shape[1])

    @property
    def depends_on_ranks(self) -> bool:
        """Whether batches depend on the number of ranks, which share the last batch of each bucket."""
        edges = self.boundaries
        return self.batching.last_batch == "partial" and edges is not None and len(edges) > 1

    @property
    def has_equal_epochs(self) -> bool:
        """Whether all epochs have the same number of batches."""
        batching = self.batching
        if batching.batch_sampler is not None or self._varies:
            return False  # the number of batches may depend on the draws
        by_size = batching.pack is None and batching.max_tokens is None
        return self.takes_all or (by_size and (self.boundaries is None or batching.last_batch != "partial"))

    @property
    def most_steps(self) -> int:
        """Upper bound of the steps of an epoch: each takes at least one draw, or a slice of a split one."""
        slices = 1
        if self.batching.too_long == "split":
            slices = -(-int(self._read_lengths.max()) // (1 if self._capacity is None else self._capacity[0]))
        return self.order.n * slices

    @cached_property
    def common_shapes(self) -> list[tuple[int, ...]]:
        """Shapes of every epoch, but for smaller last batches."""
        if self.boundaries is None:
            return []
        if self.takes_all:
            return self.plan(0).shapes()
        sampler = self.epoch(0).sampler
        assert isinstance(sampler, (FixedBucketSampler, TokenBudgetSampler)), "samplers with boundaries"
        sizes = sampler.batch_sizes.tolist()
        return [(size, *edge) for size, edge in zip(sizes, self.boundaries.tolist(), strict=True)]

    def _make_plan(self, epoch: int, history: History, begun: OldRanks | None) -> BatchPlan:
        sampler = self.epoch(epoch).sampler
        if begun is None:
            plan = sampler.plan(epoch, history)
        else:
            assert isinstance(sampler, FixedBucketSampler), "others depend on the global batch alone"
            plan = replace(sampler, **begun._asdict()).plan(epoch, history).dealt(self._world_size)
        return replace(plan, rows=narrowed(plan.rows, len(sampler.lengths)))

    def _make_epoch(self, epoch: int) -> TextEpoch:
        drawn = None if self.takes_all else self._drawn_in(epoch)
        lengths = self._planned_lengths if drawn is None else self._planned_lengths[drawn]
        read, planned = lengths, None
        if self._read_lengths is not self._planned_lengths:
            read, planned = self._read_lengths if drawn is None else self._read_lengths[drawn], lengths
        if self.batching.pack is None:
            return TextEpoch(self._sampler(lengths, self.batching.balance), read, drawn, None, planned)
        packing = self._pack(lengths, epoch)
        full = np.tile(np.atleast_1d(packing.capacity), (len(packing), 1))
        return TextEpoch(self._sampler(full, self._costs(packing)), read, drawn, packing, planned)

    def _drawn_in(self, epoch: int) -> Int64:
        return self._drawn.get(epoch, lambda _: self._kept(drawn_positions(self._draws, epoch)))

    def _kept(self, positions: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return positions if self.keeps is None else positions[self.keeps[positions]]

    def _pack(self, lengths: Int64, epoch: int) -> PackingPlan:
        batching = self.batching
        assert self._capacity is not None, "called only with packing"
        # Later epochs may draw shorter samples, but arrays have room only for as many as in the first epoch.
        most = batching.max_sequences if self.takes_all or epoch == 0 else self.max_sequences
        seed = batching.seed if batching.shuffle else None
        options: Any = {"max_sequences": most, "too_long": batching.too_long, "seed": seed, "epoch": epoch}
        packing = pack(flat_lengths(lengths), self._capacity, **options)
        return replace(
            packing,
            rows=narrowed(packing.rows, len(lengths)),
            begins=narrowed(packing.begins, int(lengths.max())),
            lengths=narrowed(packing.lengths, max(self._capacity) + 1),
        )

    def _costs(self, packing: PackingPlan) -> Int64 | None:
        """(rows,), cost of each packed row for ``balance``; None if nothing is balanced."""
        if self.batching.balance is None:
            return None
        each = cost_function(self.batching.balance)(packing.lengths.astype(np.int64))
        return np.add.reduceat(each.reshape(len(each), -1).sum(axis=1), packing.offsets[:-1])

    def _sampler(self, lengths: npt.NDArray[Any], balance: Balance | Int64 | None) -> BatchSampler:
        return make_batch_sampler(self.batching, lengths, self.boundaries, balance, self._world_size)

    def _usual_lengths(self) -> Int64:
        """(M, D), lengths of epoch 0, plus one row with the largest lengths of the dataset."""
        order = self.order.order if isinstance(self.order, Stream) else self.order
        if _takes_all(order, len(self._planned_lengths)):
            return self._planned_lengths
        drawn = self._drawn_in(0) if order is self.order else drawn_positions(without_interleaving(order), 0)
        return np.concatenate(
            [self._planned_lengths[drawn], self._planned_lengths.max(axis=0, keepdims=True)]
        )


def _takes_all(order: Order, samples: int) -> bool:
    return order.distinct and order.n == samples


def drawn_positions(order: Order, epoch: int) -> npt.NDArray[Any]:
    """The positions that an epoch draws, (n,) int32, or int64 if they need it."""
    positions = np.empty(order.n, np.int64)
    for start in range(0, order.n, _CHUNK):
        chunk = positions[start : start + _CHUNK]
        chunk[:] = order.positions(epoch, np.arange(start, start + len(chunk)))
    return narrowed(positions, int(positions.max(initial=0)) + 1)
