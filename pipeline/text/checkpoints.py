"""The base of :class:`stoker.TextLoader`: facts about its batches, its steps, and states of checkpoints."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.bucketing import BatchPlan
from stoker.errors import CheckpointError, ConfigError

from ..adapters import framework_of
from ..adapters.training_loops import lightning
from ..cluster.loader import SharedLoader
from ..execution.batch import ColumnSpec
from ..execution.ranks import Process
from ..execution.state import History, State, checked_history, resumed
from ..order.exclusions import Exclusions, groups_of
from ..order.orders import Order
from ..order.sample_source import SampleSource
from .config import TextLoaderConfig, ids_dtype
from .planner import Begun
from .schedule import Leaving, TextSchedule

_WHOLE: tuple[int, History, Begun | None] = (0, (), None)


class CheckpointedText(SharedLoader):
    """A loader of text. Its states count steps, and name the parts of an epoch that other ranks have run.

    Args:
        config: Config of the loader.
        ranks: This process among those that train together.
        prefetch: Batches that may be in flight or ready ahead of the consumer.
    """

    point_numbers = 3

    def __init__(self, config: TextLoaderConfig, ranks: Process, prefetch: int) -> None:
        self._config = config
        self._planner = config.planner
        self._history: tuple[int, History, Begun | None] = _WHOLE
        self._steps = len(self._planner.plan(0))
        super().__init__(ranks, config.identity, self._planner.most_steps, prefetch)

    @property
    def dataset(self) -> SampleSource:
        """The dataset or mixture whose samples are drawn."""
        return self._config.dataset

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of a batch, in their order."""
        return self._config.columns

    @property
    def boundaries(self) -> npt.NDArray[np.int64] | None:
        """(K, D) int64, the padded lengths of each field; None if each batch has its own."""
        return self._planner.boundaries

    @property
    def pad_id(self) -> int:
        """Token id of padding. Texts may contain it, too, so only masks show what is padding."""
        return self._config.reader.pad_id

    def shapes(self) -> list[tuple[int, ...]]:
        """The distinct shapes of batches, ascending: (samples, padded length), with a length for each field.

        A compiler can be shown all of them before the first batch. With buckets or packing they are the
        shapes of every epoch, and of the rest of an epoch that is resumed; otherwise those of the next epoch.
        If epochs draw different samples, ``last_batch="partial"`` makes smaller batches; the list has only
        those of the next epoch. With ``context`` they are the shapes of whole rows.
        """
        shapes = self._planner.common_shapes  # first, so that the next epoch's plan is kept
        return sorted({*shapes, *self._plan(self._next.epoch).shapes()})

    def element_spec(self) -> tuple[ColumnSpec, ...]:
        """Dtype and shape of each column of a batch, without the batch axis; None for lengths that differ."""
        return tuple(self._config.spec(name) for name in self._config.columns)

    def __len__(self) -> int:
        """Batches of a whole epoch on this rank.

        Epochs that draw different samples may differ by a few batches. The number is then that of the running
        or the next epoch.
        """
        if self.has_equal_epochs:
            return self._steps
        return len(self._planner.plan(self._state().epoch))

    @property
    def has_equal_epochs(self) -> bool:
        """Whether all epochs have the same number of batches.

        If a sampler, a mixture or a stream draws different samples in each epoch, that needs ``batch_size``,
        no ``pack``, and a ``last_batch`` of "drop" or "pad". Otherwise it is always so.
        """
        return self._planner.has_equal_epochs

    def set_epoch(self, epoch: int) -> None:
        """Run this epoch next, from its beginning."""
        super().set_epoch(epoch)
        self._history = _WHOLE

    def state_dict(self) -> dict[str, Any]:
        """Return the loader's position as a small dict of JSON data.

        It counts the batches that the consumer has received, not those that are ready.
        """
        state = super().state_dict()
        parts, begun = self._history_of(state["epoch"])
        history = [list(part) for part in parts]
        if begun is None:
            return {**state, "world_size": self._ranks.world_size, "history": history}
        identity = {**state["identity"], "batch_size": begun.batch_size}
        return {**state, "identity": identity, "world_size": begun.world_size, "history": history}

    def load_state_dict(self, state: Mapping[str, Any], *, allow: Collection[str] = ()) -> None:
        """Continue from a position that :meth:`state_dict` returned, with the batch that followed it.

        On another number of ranks, the rest of the epoch holds exactly the samples that no rank has received.
        The batch size may differ if the product of ranks and batch size stays the same; then the remaining
        global batches stay the same, too. With a ``last_batch`` of "drop" or "pad", and without buckets, it
        may be any number that divides the product of the state. A loader of several fields without
        ``buckets`` uses those of a state of release 0.1. If the dataset has changed since, a loader that was
        given its path without a version goes back to the version of the state.

        Args:
            state: The state.
            allow: ``("weights",)`` lets the weights of a mixture change from the next epoch on. Later states
                hold both weights.

        Raises:
            CheckpointError: The state is of another dataset or configuration; the error names what differs.
        """
        state, ledger = self._prepared(state, allow)
        text_entries = {"world_size", "history"}
        if not isinstance(state, Mapping) or not text_entries <= state.keys():
            raise CheckpointError(
                "the state is not one of a TextLoader", hint="Pass what state_dict() returned."
            )
        self._keep_buckets(state["identity"])
        state, begun = self._with_batch_size(state)
        world_size = begun.world_size if begun else self._ranks.world_size
        lightning.check_resume(state["world_size"], world_size, "batches")
        super().load_state_dict({name: value for name, value in state.items() if name not in text_entries})
        history, is_new = resumed(state, self._next.position, world_size)
        if is_new:
            self._next = State(self._next.epoch, 0, self._identity)
        self._history = (self._next.epoch, history, begun if self._next.position or history else None)
        self._use_ledger(ledger)

    def _keep_buckets(self, saved: Any) -> None:
        """Begin anew with the buckets of a state from the time before a k-d split became the default."""
        if not (self._planner.splits and self._knows_arguments and isinstance(saved, Mapping)):
            return
        may_differ = {"boundaries": None, "method": None, "batch_size": None}
        if saved.get("boundaries") and {**saved, **may_differ} == {**self._identity, **may_differ}:
            self._begin_anew(self.dataset, buckets=np.array(saved["boundaries"]))

    def _with_batch_size(self, state: Mapping[str, Any]) -> tuple[Mapping[str, Any], Begun | None]:
        """Return a state with this loader's batch size, and the ranks and batch size that began its epoch.

        If only the global batch decides a plan, W ranks with batches of B samples have the plan of W B / C
        ranks with batches of C. Otherwise the epoch goes on as it was begun.
        """
        known, current = state["identity"], self._identity["batch_size"]
        saved = known.get("batch_size") if isinstance(known, Mapping) else None
        if saved == current or type(saved) is not int or type(current) is not int or saved < 1:
            return state, None
        identity = {**known, "batch_size": current}
        if identity != self._identity:
            return state, None  # the check of the state then names what differs
        parts = checked_history([*state["history"], [state["world_size"], 0]])
        whole = parts[-1][0] * saved
        if self._planner.depends_on_ranks:
            if whole != self._ranks.world_size * current:
                raise CheckpointError(
                    f"batch_size was {saved} and is {current}, which changes the last batch of each bucket",
                    hint=f"Resume with batch_size={saved}, or with {whole} samples of all ranks at a step. "
                    'To change it otherwise, begin with last_batch="drop" or "pad".',
                )
            return {**state, "identity": identity}, Begun(parts[-1][0], saved)
        if wrong := [world for world, _ in parts if world * saved % current]:
            raise CheckpointError(
                f"batch_size was {saved} and is {current}, and a step of {wrong[0]} ranks had "
                f"{wrong[0] * saved} samples, which are no whole number of batches",
                hint=f"Resume with a batch_size that divides {wrong[0] * saved}.",
            )
        ranks = [world * saved // current for world, _ in parts]
        history = [[world, part[1]] for world, part in zip(ranks, state["history"], strict=False)]
        return {**state, "identity": identity, "world_size": ranks[-1], "history": history}, None

    def _history_of(self, epoch: int) -> tuple[History, Begun | None]:
        return self._history[1:] if self._history[0] == epoch else _WHOLE[1:]

    def _plan(self, epoch: int) -> BatchPlan:
        """The remaining batches of an epoch."""
        return self._planner.plan(epoch, *self._history_of(epoch))

    def _schedule(self, epoch: int, start: int) -> TextSchedule:
        plan = self._plan(epoch)
        if start > len(plan):
            raise CheckpointError(
                f"the state is at step {start}, beyond the end of its epoch (steps: {len(plan)})"
            )
        if not self._ledger:
            return TextSchedule(plan, self._ranks.rank, start)
        part, seed = len(self._history_of(epoch)[0]), self._planner.batching.seed
        leaving = Leaving(self._ledger, epoch, part, seed, groups_of(self._drawn_order))
        return TextSchedule(plan, self._ranks.rank, start, leaving)

    def _check_exclusion(self) -> None:
        if self._planner.batching.stream is not None:
            raise ConfigError(
                "exclude needs batches of samples, and stream joins the samples of an epoch",
                hint="Choose samples before the training with dataset.select().",
            )

    def _first_draw(self, state: Any) -> int:
        try:  # the batches of a begun epoch are planned
            begun = state["position"] > 0 or len(state["history"]) > 0
            return int((state["epoch"] + begun) * self._planner.order.n)
        except (KeyError, TypeError):  # no state; load_state_dict refuses it later
            return 0

    @property
    def _drawn_order(self) -> Order:
        return self._planner.order

    def _point(self, epoch: int, position: int) -> tuple[int, ...]:
        return epoch, len(self._history_of(epoch)[0]), position

    def _use_ledger(self, ledger: Exclusions) -> None:
        self._ledger = ledger

    def _batches_to_json(self) -> dict[str, Any]:
        batching = self._planner.batching
        size = batching.batch_size or batching.max_tokens  # neither with a batch_sampler
        return {"global_batch": size and size * self._ranks.world_size, "last_batch": batching.last_batch}

    def _options_elsewhere(self) -> dict[str, Any]:
        given_options = self._given_options
        framework = framework_of(given_options.get("output", "numpy"))
        options: dict[str, Any] = {"dtype": ids_dtype(given_options.get("dtype"), framework.ids_dtype)}
        if slices := self._config.maker.slices:
            options["context"] = slices.rank, slices.size
            options["context_slices"] = slices.form
        return options
