"""The base of batch samplers: randomness, ranks, balance, and resuming."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, fields
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from stoker.errors import CheckpointError, ConfigError

from ..boundaries.lengths import as_lengths, cost_function
from .groups import Groups, LastGroup, balance_groups
from .plan import BatchPlan
from .random_order import check_seed, random_order
from .rank_batches import RankBatches

if TYPE_CHECKING:
    from collections.abc import Mapping

Membership = Literal["fresh", "frozen", "ordered"]
"""The order from which batches are cut: "fresh" is random and new each epoch, "frozen" random and the same in
each epoch, "ordered" by row."""

Balance = Literal["tokens", "attention"]

_RECORDED = {"pad_to_multiple_of": "multiple_of"}  # the names in fingerprints, which states hold

_History = tuple[tuple[int, int], ...]


class Draw(NamedTuple):
    """The rows that a sampler cuts into groups, and the keys of their random order."""

    # (M,) int64, ascending: all samples, or the remaining samples of a resumed epoch
    rows: npt.NDArray[np.int64]
    epoch: int  # Number of the epoch
    stream: int  # Number of the random order that decides the membership, among independent ones
    world_size: int  # Number of ranks


@dataclass(frozen=True, eq=False)
class BatchSampler(ABC):
    """Lengths of samples and rules, which give the plan of each epoch.

    Attributes:
        lengths: (N,) int64, the tokens of each sample, or (N, D) for D sequences in each sample.
        seed: From 0 to 2**64 - 1.
        world_size: Number of ranks.
        membership: See :data:`Membership`. Fresh membership costs padding.
        shuffle: Whether each epoch has its own random order of steps, which costs no padding.
        last_batch: See :data:`stoker.bucketing.samplers.groups.LastGroup`.
        balance: The cost by which samples of a step are dealt to ranks, for about equal totals: "tokens",
            "attention" (the squares of lengths), or costs, (N,) integers from 0. It is useful where padding
            is not computed, as with variable-length attention.
    """

    lengths: npt.NDArray[np.int64]
    _: KW_ONLY
    seed: int = 0
    world_size: int = 1
    membership: Membership = "fresh"
    shuffle: bool = True
    last_batch: LastGroup = "partial"
    balance: Balance | npt.NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengths", as_lengths(self.lengths))
        for spec in fields(self):
            if isinstance(value := getattr(self, spec.name), np.integer):
                object.__setattr__(self, spec.name, int(value))  # the fingerprint holds repr(value)
        check_seed(self.seed, 0)
        if self.world_size < 1:
            raise ConfigError(f"world_size must be at least 1, found {self.world_size}")
        for name, allowed in (("membership", get_args(Membership)), ("last_batch", get_args(LastGroup))):
            if getattr(self, name) not in allowed:
                raise ConfigError(f"{name} must be one of {allowed}, found {getattr(self, name)!r}")
        self._check_balance()

    @property
    def rule(self) -> str:
        """Name of a rule of this sampler that decides plans and is no attribute; empty if there is none."""
        return ""

    @abstractmethod
    def cut(self, draw: Draw) -> Groups:
        """Return the rows of a draw, ordered by :meth:`ordered` and cut into groups."""

    @abstractmethod
    def padded(self, groups: Groups) -> npt.NDArray[np.int64]:
        """Return (G, D) int64, the padded lengths of each group."""

    def plan(self, epoch: int = 0, history: _History = ()) -> BatchPlan:
        """Return the batches of one epoch, in time and memory linear in the number of samples.

        Args:
            epoch: From 0 to 2**32 - 1.
            history: See :attr:`BatchPlan.history`; :meth:`resume` fills it in.
        """
        epoch = index(epoch)  # a NumPy integer would overflow in the key of the random order
        check_seed(self.seed, epoch)
        remaining = np.ones(len(self.lengths), np.bool_)
        for stage, (world_size, steps) in enumerate(history):
            earlier = self._draw(np.flatnonzero(remaining), epoch, history[:stage], world_size)
            remaining[earlier.seen(steps)] = False
        return self._draw(np.flatnonzero(remaining), epoch, history, self.world_size)

    def batches(self, rank: int = 0) -> RankBatches:
        """Return the batches of a rank, which PyTorch's ``DataLoader`` takes as its ``batch_sampler``.

        Raises:
            ConfigError: There is no such rank.
        """
        return RankBatches(self.plan, self.world_size, rank)

    def _draw(self, rows: npt.NDArray[np.int64], epoch: int, history: _History, world_size: int) -> BatchPlan:
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

    def ordered(self, draw: Draw, buckets: npt.NDArray[np.uint16] | None = None) -> npt.NDArray[np.int64]:
        """Return rows in the order of ``membership``, by bucket first if ``buckets`` are given."""
        if self.membership == "ordered":
            return draw.rows if buckets is None else draw.rows[np.argsort(buckets, kind="stable")]
        epoch = draw.epoch if self.membership == "fresh" else 0
        order = random_order(len(draw.rows), self.seed, epoch, draw.stream, buckets)
        rows: npt.NDArray[np.int64] = draw.rows[order]
        return rows

    def group_maxima(self, groups: Groups) -> npt.NDArray[np.int64]:
        """Return (G, D) int64, the length of the longest sequence in each group."""
        table = self.lengths.reshape(len(self.lengths), -1)
        if len(groups.starts) == 0:
            return np.zeros((0, table.shape[1]), np.int64)
        end = int(groups.starts[-1] + groups.sizes[-1])
        maxima: npt.NDArray[np.int64] = np.maximum.reduceat(table[groups.rows[:end]], groups.starts, axis=0)
        return maxima

    def _check_balance(self) -> None:
        if isinstance(self.balance, np.ndarray):
            if as_lengths(self.balance).shape != (len(self.lengths),):
                needed, found = len(self.lengths), self.balance.shape
                raise ConfigError(f"balance must have {needed} costs, found shape {found}")
        elif self.balance not in (None, *get_args(Balance)):
            raise ConfigError(f"balance must be costs or one of {get_args(Balance)}, found {self.balance!r}")

    @cached_property
    def _costs(self) -> npt.NDArray[np.int64]:
        """(N,) int64, the cost of each sample."""
        assert self.balance is not None, "only balanced samplers read it"
        if isinstance(self.balance, np.ndarray):
            return self.balance
        costs = np.asarray(cost_function(self.balance)(self.lengths), np.int64)
        totals: npt.NDArray[np.int64] = costs.reshape(len(costs), -1).sum(axis=1)
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
            "step": index(step),
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
