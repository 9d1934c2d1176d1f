"""Which sequences form a batch of text, decided from lengths alone: buckets, a token budget, packed rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from stoker.bucketing import (
    FixedBucketSampler,
    SortedBucketSampler,
    TokenBudgetSampler,
    assign_buckets,
    bucket_boundaries,
    pack,
)
from stoker.bucketing.sampler import as_edges
from stoker.errors import ConfigError

if TYPE_CHECKING:
    import numpy.typing as npt

    from stoker.bucketing import Batch, BatchPlan, BucketBoundaries, PackingPlan
    from stoker.bucketing.base import Sampler

    Int64 = npt.NDArray[np.int64]

__all__ = ["Pieces", "TextPlanner", "TextRules", "TextSchedule"]

LastBatch = Literal["drop", "pad", "partial"]
TooLong = Literal["error", "truncate", "split"]


class Pieces(NamedTuple):
    """The sequences of one batch.

    Attributes:
        positions: (P,) int64, the sample of each, in the dataset.
        begins: (P,) int64, its first token; 0 but for a sequence that was split.
        lengths: (P, D) int64, its tokens, in each of D fields.
        groups: (rows + 1,) int64, the first piece of each packed row, and P; None where none are packed.
    """

    positions: Int64
    begins: Int64
    lengths: Int64
    groups: Int64 | None


@dataclass(frozen=True)
class TextSchedule:
    """The steps of one epoch that are left, on one rank (see :class:`stoker.pipeline.passes.Steps`).

    Attributes:
        plan: Batches of the epoch.
        rank: This rank.
        start: Steps of the plan that are done.
    """

    plan: BatchPlan
    rank: int = 0
    start: int = 0

    def __len__(self) -> int:
        return len(self.plan) - self.start

    def consumed(self, steps: int) -> int:
        """Steps of the plan that are done after ``steps`` more."""
        return self.start + steps

    def batch(self, step: int) -> tuple[Batch, npt.NDArray[np.bool_]]:
        """The rows and shape of this rank's batch, and which rows are not there to fill it, (n,) bool."""
        at = self.start + step
        return self.plan.batch(at, self.rank), self.plan.mask(at, self.rank)


@dataclass(frozen=True)
class TextRules:
    """How sequences are put together; see :class:`stoker.pipeline.text_loader.TextLoader`.

    Attributes:
        batch_size: Samples, or packed rows, of a batch on one rank; None with ``max_tokens``.
        max_tokens: Tokens of a batch, padding included; None with ``batch_size``.
        buckets: Number of buckets, or their boundaries; None pads each batch to its longest.
        pad_multiple: Padded lengths are multiples.
        pack: Tokens of a packed row; None does not pack.
        max_length: Tokens of a sequence at most; None for any number.
        too_long: What becomes of a longer sequence.
        shuffle: Whether batches are drawn anew each epoch, or come in the order of the dataset.
        seed: Decides what is drawn.
        last_batch: What becomes of the samples that fill no batch.
    """

    batch_size: int | None
    max_tokens: int | None
    buckets: int | BucketBoundaries | Int64 | None
    pad_multiple: int
    pack: int | None
    max_length: int | None
    too_long: TooLong
    shuffle: bool
    seed: int
    last_batch: LastBatch

    def __post_init__(self) -> None:
        if (self.batch_size is None) == (self.max_tokens is None):
            raise ConfigError("give either batch_size or max_tokens, which decides the size of a batch")
        for name in ("batch_size", "max_tokens", "pad_multiple", "pack", "max_length"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, found {value}")
        if not isinstance(self.shuffle, bool):
            raise ConfigError(f"shuffle must be True or False, found {self.shuffle!r}")
        if self.too_long not in get_args(TooLong):
            raise ConfigError(f"too_long must be one of {get_args(TooLong)}, found {self.too_long!r}")
        if self.pack is None and self.too_long == "split":
            raise ConfigError("too_long='split' needs pack, whose rows the pieces are for")
        if self.pack is not None and self.max_length is not None:
            raise ConfigError("pack is itself the longest that a sequence may be; leave out max_length")
        if self.pack is None and self.buckets is None and self.max_tokens is not None:
            raise ConfigError("max_tokens needs buckets: a batch that is padded to its longest has no budget")


class TextPlanner:
    """Plans epochs.

    Args:
        rules: How.
        lengths: (N, D) integers, tokens of each sample in each of D fields.
        world_size: Number of ranks.

    Raises:
        ConfigError: The rules do not fit the lengths.
    """

    def __init__(self, rules: TextRules, lengths: npt.NDArray[Any], world_size: int) -> None:
        if rules.pack is not None and lengths.shape[1] > 1:
            raise ConfigError("packing takes one field", hint="Choose one: fields=('answer',)")
        self.rules = rules
        self._lengths = lengths
        self._world_size = world_size

    @cached_property
    def boundaries(self) -> Int64 | None:
        """(K, D) int64, where buckets end; None where there are none."""
        rules = self.rules
        if rules.pack is not None:
            return np.array([[rules.pack]], np.int64)
        if rules.buckets is None:
            return None
        if isinstance(rules.buckets, int):
            method: Any = "optimal" if self._lengths.shape[1] <= 2 else "tokens"
            made = bucket_boundaries(
                _flat(self._limited), rules.buckets, method, multiple_of=rules.pad_multiple
            )
            return _table(made.boundaries)
        return _table(as_edges(rules.buckets))

    @cached_property
    def sampler(self) -> Sampler:
        """What draws batches, of samples or of packed rows."""
        rules = self.rules
        shared: dict[str, Any] = {
            "seed": rules.seed,
            "world_size": self._world_size,
            "membership": "fresh" if rules.shuffle else "ordered",
            "shuffle": rules.shuffle,
            "last_batch": rules.last_batch,
        }
        if self.boundaries is None:
            assert rules.batch_size is not None, "a budget has buckets"
            shared["multiple_of"] = rules.pad_multiple
            return SortedBucketSampler(_flat(self._drawn), rules.batch_size, window=1, **shared)
        lengths, edges = _flat(self._drawn), _flat(self.boundaries)
        if rules.max_tokens is not None:
            return TokenBudgetSampler(lengths, rules.max_tokens, edges, **shared)
        assert rules.batch_size is not None, "one of the two is given"
        return FixedBucketSampler(lengths, edges, rules.batch_size, **shared)

    @property
    def num_drawn(self) -> int:
        """What there is to draw batches from: samples, or packed rows."""
        return len(self._drawn)

    @cached_property
    def max_sequences(self) -> int:
        """Pieces of the packed row that has most; the same in every epoch."""
        return int(np.diff(self._first_packing.offsets).max())

    def packing(self, epoch: int) -> PackingPlan | None:
        """Which pieces share a packed row; equal ones change places from epoch to epoch."""
        if self.rules.pack is None:
            return None
        if epoch == 0 or not self.rules.shuffle:
            return self._first_packing
        return self._pack(epoch)

    def pieces(self, rows: Int64, packing: PackingPlan | None) -> Pieces:
        """The sequences of one batch.

        Args:
            rows: (n,) int64, samples; packed rows where there is a packing.
            packing: Of the epoch.
        """
        if packing is None:
            return Pieces(rows, np.zeros_like(rows), self._limit(self._lengths[rows]), None)
        counts = np.diff(packing.offsets)[rows]
        groups = np.concatenate(([0], np.cumsum(counts)))
        which = np.repeat(packing.offsets[rows] - groups[:-1], counts) + np.arange(groups[-1])
        return Pieces(packing.rows[which], packing.begins[which], packing.lengths[which, None], groups)

    @cached_property
    def _first_packing(self) -> PackingPlan:
        return self._pack(0)

    def _pack(self, epoch: int) -> PackingPlan:
        rules = self.rules
        assert rules.pack is not None, "asked for only where rows are packed"
        seed = rules.seed if rules.shuffle else None
        return pack(self._lengths[:, 0], rules.pack, too_long=rules.too_long, seed=seed, epoch=epoch)

    @cached_property
    def _drawn(self) -> npt.NDArray[Any]:
        """(M, D), what the sampler draws from; packed rows all count as full."""
        if self.rules.pack is not None:
            return np.full((len(self._first_packing), 1), self.rules.pack, np.int64)
        return self._limited

    @cached_property
    def _limited(self) -> npt.NDArray[Any]:
        """(N, D), lengths after truncation."""
        limit = self._longest
        if limit is None:
            return self._lengths
        if self.rules.too_long == "error":
            assign_buckets(_flat(self._lengths), _flat(limit[None]))  # refuses what is longer, and names it
            return self._lengths
        return self._limit(self._lengths)

    def _limit(self, lengths: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return lengths if self._longest is None else np.minimum(lengths, self._longest)

    @cached_property
    def _longest(self) -> Int64 | None:
        """(D,) int64, the most tokens a sequence may have."""
        rules = self.rules
        if rules.max_length is not None:
            return np.full(self._lengths.shape[1], rules.max_length)
        if rules.buckets is None or isinstance(rules.buckets, int):
            return None
        longest: Int64 = _table(as_edges(rules.buckets))[-1]
        return longest


def _table(edges: Int64) -> Int64:
    return edges.reshape(len(edges), -1)


def _flat(table: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """One length a sample as (N,), which the samplers tell from (N, D)."""
    return table[:, 0] if table.shape[1] == 1 else table
