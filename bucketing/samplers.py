"""Batch samplers: from lengths and rules they make the plan of each epoch."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from stoker.arguments import NamedArguments, one_of, optional_number, whole_number
from stoker.errors import CheckpointError, ConfigError
from stoker.processes import cached_property

from .boundaries import Boundaries, as_edges, as_lengths, assign_buckets, cost_function, round_up
from .groups import Groups, LastGroup, balance_groups, cut_buckets, cut_windows
from .plan import BatchPlan, RankBatches, check_seed, random_order

Int64 = npt.NDArray[np.int64]

Membership = Literal["fresh", "frozen", "ordered"]
"""The order from which batches are cut: "fresh" is random and new each epoch, "frozen" random and the same in
each epoch, "ordered" by row."""

Balance = Literal["tokens", "attention"]

_RECORDED = {"pad_to_multiple_of": "multiple_of"}  # the names in fingerprints, which states hold

_COUNTS = ("batch_size", "window", "pad_to_multiple_of", "max_tokens", "batch_multiple", "max_batch_size")
"""Attributes that are integers from 1, or None."""

_History = tuple[tuple[int, int], ...]


class Draw(NamedTuple):
    """The rows that a sampler cuts into groups, and the keys of their random order."""

    rows: Int64  # (M,), ascending: all samples, or the remaining samples of a resumed epoch
    epoch: int
    stream: int  # Number of the random order that decides the membership, among independent ones
    world_size: int


@dataclass(frozen=True, eq=False)
class BatchSampler(NamedArguments, ABC):
    """Lengths of samples and rules, which give the plan of each epoch.

    Attributes:
        lengths: (N,) int64, the tokens of each sample, or (N, D) for D sequences in each sample.
        seed: From 0 to 2**64 - 1.
        world_size: Number of ranks.
        membership: See :data:`Membership`. Fresh membership costs padding.
        shuffle: Whether each epoch has its own random order of steps, which costs no padding.
        last_batch: See :data:`stoker.bucketing.groups.LastGroup`.
        balance: The cost by which samples of a step are dealt to ranks, for about equal totals: "tokens",
            "attention" (the squares of lengths), or costs, (N,) integers from 0. It is useful where padding
            is not computed, as with variable-length attention.
    """

    equivalents: ClassVar[str] = "bucketing"

    lengths: Int64
    _: KW_ONLY
    seed: int = 0
    world_size: int = 1
    membership: Membership = "fresh"
    shuffle: bool = True
    last_batch: LastGroup = "partial"
    balance: Balance | Int64 | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengths", as_lengths(self.lengths))
        for spec in fields(self):
            if isinstance(value := getattr(self, spec.name), np.integer):
                object.__setattr__(self, spec.name, int(value))  # the fingerprint holds repr(value)
            if spec.name in _COUNTS:
                optional_number(spec.name, value, 1)
        check_seed(self.seed, 0)
        whole_number("world_size", self.world_size, 1)
        one_of("membership", self.membership, get_args(Membership))
        one_of("last_batch", self.last_batch, get_args(LastGroup))
        if not isinstance(self.balance, np.ndarray):
            one_of("balance", self.balance, (None, *get_args(Balance)))
        elif as_lengths(self.balance).shape != (len(self.lengths),):
            raise ConfigError(
                f"balance must have {len(self.lengths)} costs, found shape {self.balance.shape}"
            )

    @property
    def rule(self) -> str:
        """Name of a rule of this sampler that decides plans and is not an attribute; empty without one."""
        return ""

    @abstractmethod
    def cut(self, draw: Draw) -> Groups:
        """Return the rows of a draw, ordered by :meth:`ordered` and cut into groups."""

    @abstractmethod
    def padded(self, groups: Groups) -> Int64:
        """Return (G, D) int64, the padded lengths of each group."""

    def plan(self, epoch: int = 0, history: _History = ()) -> BatchPlan:
        """Return the batches of one epoch, in time and memory linear in the number of samples.

        Args:
            epoch: From 0 to 2**32 - 1.
            history: See :attr:`BatchPlan.history`; :meth:`resume` fills it in.
        """
        epoch = whole_number("epoch", epoch)  # a NumPy integer would overflow in the key of the random order
        check_seed(self.seed, epoch)
        remaining = np.ones(len(self.lengths), np.bool_)
        for stage, (world_size, steps) in enumerate(history):
            earlier = self._plan_rest(np.flatnonzero(remaining), epoch, history[:stage], world_size)
            remaining[earlier.seen(steps)] = False
        return self._plan_rest(np.flatnonzero(remaining), epoch, history, self.world_size)

    def batches(self, rank: int = 0) -> RankBatches:
        """Return the batches of a rank, which PyTorch's ``DataLoader`` takes as its ``batch_sampler``.

        Raises:
            ConfigError: There is no such rank.
        """
        return RankBatches(self.plan, self.world_size, rank)

    def _plan_rest(self, rows: Int64, epoch: int, history: _History, world_size: int) -> BatchPlan:
        stage = len(history)
        groups = self.cut(Draw(rows, epoch, 2 * stage, world_size))
        rows, sizes = groups.rows, groups.sizes
        valid = sizes.copy()
        valid[len(valid) - 1 :] -= groups.repeated
        if self.balance is not None:
            rows = balance_groups(groups, valid == sizes, self._costs)
        lengths = self.padded(groups)
        order = np.arange(len(sizes))
        if self.shuffle:
            order = random_order(len(sizes), self.seed, epoch, 2 * stage + 1)
        return BatchPlan(
            rows=rows,
            starts=groups.starts[order],
            sizes=sizes[order],
            valid=valid[order],
            lengths=lengths[order],
            world_size=world_size,
            seed=self.seed,
            epoch=epoch,
            history=history,
        )

    def ordered(self, draw: Draw, buckets: npt.NDArray[np.uint16] | None = None) -> Int64:
        """Return rows in the order of ``membership``, by bucket first if ``buckets`` are given."""
        if self.membership == "ordered":
            return draw.rows if buckets is None else draw.rows[np.argsort(buckets, kind="stable")]
        epoch = draw.epoch if self.membership == "fresh" else 0
        order = random_order(len(draw.rows), self.seed, epoch, draw.stream, buckets)
        rows: Int64 = draw.rows[order]
        return rows

    def cut_by_bucket(self, draw: Draw, bucket: npt.NDArray[np.uint16], batch_sizes: Int64) -> Groups:
        """Return groups of single buckets; samples that fill no batch of theirs move on to the next one."""
        # bucket (N,), batch_sizes (K,)
        buckets = bucket[draw.rows]
        counts = np.bincount(buckets, minlength=len(batch_sizes))
        return cut_buckets(self.ordered(draw, buckets), counts, batch_sizes, draw.world_size, self.last_batch)

    def group_maxima(self, groups: Groups) -> Int64:
        """Return (G, D) int64, the length of the longest sequence in each group."""
        table = self.lengths.reshape(len(self.lengths), -1)
        if len(groups.starts) == 0:
            return np.zeros((0, table.shape[1]), np.int64)
        end = int(groups.starts[-1] + groups.sizes[-1])
        maxima: Int64 = np.maximum.reduceat(table[groups.rows[:end]], groups.starts, axis=0)
        return maxima

    @cached_property
    def _costs(self) -> Int64:
        """(N,) int64, the cost of each sample."""
        if isinstance(self.balance, np.ndarray):
            return self.balance
        costs = np.asarray(cost_function(self.balance or "tokens")(self.lengths), np.int64)
        totals: Int64 = costs.reshape(len(costs), -1).sum(axis=1)
        return totals

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the lengths and of every rule that decides a plan, except the number of ranks."""
        digest = hashlib.blake2b(type(self).__name__.encode() + self.rule.encode(), digest_size=16)
        for spec in fields(self):
            if spec.name != "world_size":
                value = getattr(self, spec.name)
                content = value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
                name = _RECORDED.get(spec.name, spec.name)
                digest.update(name.encode() + b"=" + content + b";")
        return digest.hexdigest()

    def state(self, plan: BatchPlan, step: int) -> dict[str, Any]:
        """Return the state after ``step`` steps of ``plan``, as values that JSON has."""
        return {
            "epoch": plan.epoch,
            "step": whole_number("step", step),
            "world_size": plan.world_size,
            "history": [list(part) for part in plan.history],
            "fingerprint": self.fingerprint,
        }

    def resume(self, state: Mapping[str, Any]) -> tuple[BatchPlan, int]:
        """Return the plan of the remaining samples, and the step at which to continue.

        On the same number of ranks these are the plan and the step of the state. On another number of ranks
        the plan holds exactly the samples that no rank has received, and the step is 0.

        Raises:
            CheckpointError: The state has other lengths, rules or another seed, or is damaged.
        """
        if state.get("fingerprint") != self.fingerprint:
            raise CheckpointError(
                "the checkpoint was made with other lengths, rules or seed",
                hint="Use the arguments with which the checkpoint was made.",
            )
        try:
            epoch, step, world_size = (int(state[name]) for name in ("epoch", "step", "world_size"))
            history = tuple((int(world), int(done)) for world, done in state["history"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the checkpoint is damaged: {error!r}") from error
        if any(world < 1 or done < 0 for world, done in (*history, (world_size, step))):
            raise CheckpointError("the checkpoint is damaged: a step or a number of ranks is out of range")
        if world_size == self.world_size:
            return self.plan(epoch, history), step
        return self.plan(epoch, (*history, (world_size, step))), 0


class _BoundedSampler(BatchSampler):
    """A sampler with ``boundaries`` of lengths, (K,) or (K, D) int64."""

    boundaries: Any

    @cached_property
    def _edges(self) -> Int64:
        """(K, D), the padded lengths of each bucket."""
        edges: Int64 = self.boundaries.reshape(len(self.boundaries), -1)
        return edges

    @cached_property
    def _bucket(self) -> npt.NDArray[np.uint16]:
        """(N,), the bucket of each sample."""
        return assign_buckets(self.lengths, self.boundaries).astype(np.uint16)


@dataclass(frozen=True, eq=False)
class FixedBucketSampler(_BoundedSampler):
    """Batches from buckets, of one size or larger for shorter sequences (FixedBucketSampler of GluonNLP).

    Attributes:
        boundaries: Result of :func:`bucket_boundaries`, or (K,) or (K, D) int64.
        batch_size: Number of samples in a batch of one rank.
        ratio: A batch of bucket k has ``max(batch_size, int(ratio * batch_size * longest / boundary_k))``
            samples (GluonNLP 0.10). With two lengths in each sample, a boundary is their sum.
        pad_to: "bucket" pads to the boundary, for few shapes; "batch" pads to the longest sequence of the
            step.
        pad_to_multiple_of: With ``pad_to="batch"``, padded lengths are rounded up to a multiple of this.
    """

    boundaries: Boundaries
    batch_size: int
    ratio: float = field(default=0.0, kw_only=True)
    pad_to: Literal["bucket", "batch"] = field(default="bucket", kw_only=True)
    pad_to_multiple_of: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("pad_to", self.pad_to, ("bucket", "batch"))
        if self.ratio < 0:
            raise ConfigError(f"ratio must be at least 0, found {self.ratio}")
        if self.pad_to == "bucket" and self.pad_to_multiple_of != 1:
            raise ConfigError(
                "pad_to_multiple_of has no effect beside pad_to='bucket', which pads to boundaries",
                hint="Give it to bucket_boundaries(), or choose pad_to='batch'.",
            )
        object.__setattr__(self, "boundaries", as_edges(self.boundaries))
        _ = self._bucket  # refuses samples that are too long

    @cached_property
    def batch_sizes(self) -> Int64:
        """(K,) int64, the number of samples in a full batch of each bucket."""
        widths = self._edges.sum(axis=1)
        scaled = widths[-1] / widths * self.ratio * self.batch_size
        sizes: Int64 = np.maximum(scaled.astype(np.int64), self.batch_size)
        return sizes

    def cut(self, draw: Draw) -> Groups:
        """Return groups of single buckets."""
        return self.cut_by_bucket(draw, self._bucket, self.batch_sizes)

    def padded(self, groups: Groups) -> Int64:
        """Return the boundaries of the groups, or the longest lengths in them."""
        if self.pad_to == "bucket":
            return self._edges[groups.runs]
        return round_up(self.group_maxima(groups), self.pad_to_multiple_of)


@dataclass(frozen=True, eq=False)
class SortedBucketSampler(BatchSampler):
    """Batches from windows of random samples, sorted by length (SortedBucketSampler of GluonNLP).

    Samples with several lengths are not sorted, but halved again and again by the length that leaves the
    least padding (k-d split): pairs then need half the padding of sorting by their sum, or less.

    Each step is padded to its longest sequence, so there are many shapes. A window of one step makes random
    batches; ``window=None`` sorts all samples. ``last_batch="drop"`` leaves out the shortest samples of the
    last window.

    Attributes:
        batch_size: Number of samples in a batch of one rank.
        window: Number of steps in a window; None for one window.
        pad_to_multiple_of: Padded lengths are rounded up to a multiple of this.
    """

    batch_size: int
    window: int | None = field(default=100, kw_only=True)
    pad_to_multiple_of: int = field(default=1, kw_only=True)

    @property
    def rule(self) -> str:
        """The rule for samples with several lengths."""
        return "" if self.lengths.ndim == 1 else "k-d split"

    def cut(self, draw: Draw) -> Groups:
        """Return groups of sorted windows."""
        window = self.window * self.batch_size * draw.world_size if self.window else len(self.lengths)
        return cut_windows(
            self.ordered(draw),
            self.lengths,
            window=window,
            batch_size=lambda _: self.batch_size,
            together=self.batch_size,
            world_size=draw.world_size,
            last_batch=self.last_batch,
        )

    def padded(self, groups: Groups) -> Int64:
        """Return the longest lengths in the groups, rounded up."""
        return round_up(self.group_maxima(groups), self.pad_to_multiple_of)


@dataclass(frozen=True, eq=False)
class TokenBudgetSampler(_BoundedSampler):
    """Batches of at most ``max_tokens`` padded tokens on one rank (max_tokens of fairseq).

    With boundaries, a full batch of a bucket has as many samples as fit, so there are few shapes. Without
    boundaries, samples are ordered in windows as by :class:`SortedBucketSampler`, and each batch takes as
    many as fit; one window of all samples gives the least number of batches.

    Attributes:
        max_tokens: Limit of samples times padded length; with two lengths in each sample, of their sum.
        boundaries: As in :class:`FixedBucketSampler`, or None.
        window: Number of samples of one rank in a window, without boundaries; None for one window.
        batch_multiple: Larger batch sizes are rounded down to a multiple of this
            (required_batch_size_multiple of fairseq).
        max_batch_size: Largest number of samples in a batch of one rank, or None.
        pad_to_multiple_of: Padded lengths are rounded up to a multiple of this, without boundaries.
    """

    max_tokens: int
    boundaries: Boundaries | None = None
    window: int | None = field(default=None, kw_only=True)
    batch_multiple: int = field(default=1, kw_only=True)
    max_batch_size: int | None = field(default=None, kw_only=True)
    pad_to_multiple_of: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.boundaries is not None and (self.window is not None or self.pad_to_multiple_of != 1):
            raise ConfigError(
                "window and pad_to_multiple_of have no effect beside boundaries",
                hint="Leave them out, or leave out boundaries.",
            )
        if self.boundaries is None:
            longest = int(round_up(np.atleast_1d(self.lengths.max(axis=0)), self.pad_to_multiple_of).sum())
        else:
            object.__setattr__(self, "boundaries", as_edges(self.boundaries))
            longest = int(self._edges[-1].sum())
        if longest > self.max_tokens:
            raise ConfigError(
                f"max_tokens is {self.max_tokens}, less than one sample padded to {longest}",
                hint="Raise max_tokens, or truncate or leave out longer samples.",
            )

    @cached_property
    def batch_sizes(self) -> Int64:
        """(K,) int64, the number of samples in a full batch of each bucket; only with boundaries."""
        return np.array([self.batch_size(width) for width in self._edges.sum(axis=1).tolist()])

    def batch_size(self, padded_length: int) -> int:
        """Return the number of samples in a full batch of one padded length."""
        return self._allowed(self.max_tokens // padded_length)

    def _allowed(self, size: int) -> int:
        if self.max_batch_size is not None:
            size = min(size, self.max_batch_size)
        return size if size < self.batch_multiple else size // self.batch_multiple * self.batch_multiple

    def cut(self, draw: Draw) -> Groups:
        """Return groups of single buckets, or of sorted windows."""
        if self.boundaries is not None:
            return self.cut_by_bucket(draw, self._bucket, self.batch_sizes)
        return cut_windows(
            self.ordered(draw),
            round_up(self.lengths, self.pad_to_multiple_of),
            window=self.window * draw.world_size if self.window else len(self.lengths),
            batch_size=lambda following: self._fitting(following, draw.world_size),
            together=1,
            world_size=draw.world_size,
            last_batch=self.last_batch,
        )

    def _fitting(self, following: Int64, world_size: int) -> int:
        """Return the samples of a batch of one rank that begins (n, D) padded lengths, in their order."""
        first = int(following[0].sum())
        if following.shape[1] == 1:  # sorted: the first is the longest
            return self.batch_size(first)
        longest = np.maximum.accumulate(following[: self.max_tokens // first * world_size])
        sizes = np.arange(1, -(-len(longest) // world_size) + 1)
        widths = longest[np.minimum(sizes * world_size, len(longest)) - 1].sum(axis=1)
        fitting = int((sizes * widths <= self.max_tokens).sum())
        return self.batch_size(int(widths[-1])) if fitting == len(sizes) else self._allowed(fitting)

    def padded(self, groups: Groups) -> Int64:
        """Return the boundaries of the groups, or the longest lengths in them, rounded up."""
        if self.boundaries is not None:
            return self._edges[groups.runs]
        return round_up(self.group_maxima(groups), self.pad_to_multiple_of)
