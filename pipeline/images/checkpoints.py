"""The position of an image loader in its epochs: the steps of this rank, and the states of checkpoints.

:class:`stoker.ImageLoader` derives from it, and adds what makes the batches.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from stoker.errors import CheckpointError, ConfigError

from ..adapters.training_loops import lightning
from ..cluster.loader import SharedLoader
from ..execution.ranks import Process
from ..execution.state import History, State, convert_stream_state, resumed
from ..order.exclusions import Fitting
from ..order.orders import Stream
from ..order.schedule import LastBatch, OrderedSteps, Schedule
from .config import ImageLoaderConfig


class CheckpointedImages(SharedLoader):
    """A loader of images whose states count draws, so that they fit any number of ranks and any batch size.

    Args:
        config: What the loader does with samples.
        ranks: This process among those that train together.
        last_batch: What happens to samples that do not fill a last batch.
        prefetch: Batches that may be in flight or ready ahead of the consumer.
    """

    point_numbers = 1
    _warned_of_empty_batch = False

    def __init__(
        self, config: ImageLoaderConfig, ranks: Process, last_batch: LastBatch, prefetch: int
    ) -> None:
        self._plan = config.size_plan
        self._history: tuple[int, History] = (0, ())
        self._last_batch: LastBatch = last_batch
        self._is_stream = isinstance(config.order, Stream)
        super().__init__(ranks, config.identity, config.order.n, prefetch)

    def __iter__(self) -> Iterator[Any]:
        """Start the next pass, and warn once if this rank receives an empty batch at its end."""
        running = super().__iter__()
        schedule = self._progress and self._progress.steps
        if isinstance(schedule, OrderedSteps) and schedule.last_is_empty and not self._warned_of_empty_batch:
            self._warned_of_empty_batch = True
            warnings.warn(
                f"rank {self._ranks.rank} of {self._ranks.world_size} receives an empty last batch, whose "
                "mean loss is NaN: choose last_batch='drop', or 'pad', whose column mask marks repeats",
                stacklevel=2,
            )
        return running

    def __len__(self) -> int:
        """Batches of a whole epoch on this rank.

        With ``pixels_per_batch`` epochs may differ. The number is then that of the running epoch, or else of
        the next one.
        """
        epoch = 0 if self.has_equal_epochs else self._state().epoch
        return len(self._plan.steps(self._samples, self._ranks, self._last_batch, epoch=epoch, start=0))

    @property
    def has_equal_epochs(self) -> bool:
        """Whether all whole epochs have the same number of batches; ``pixels_per_batch`` may vary it."""
        return self._plan.equal_epochs

    def state_dict(self) -> dict[str, Any]:
        """The loader's position, as a small dict that JSON can hold.

        It counts the batches that you have received, not those that are ready. After an epoch that you left
        early it names the next batch of that epoch.
        """
        state = super().state_dict()
        if self._plan.planner:
            history = [list(part) for part in self._history_of(state["epoch"])]
            state |= {"world_size": self._ranks.world_size, "history": history}
        if lightning.is_caller():
            state["global_batch"] = self._global_batch
        return {**state, "samples_per_epoch": self._samples} if self._is_stream else state

    def load_state_dict(self, state: Mapping[str, Any], *, allow: Collection[str] = ()) -> None:
        """Go to a position that :meth:`state_dict` returned; the next batch is the one that followed it.

        The number of ranks, the batch size, the engine and the threads may differ from those of the saved
        loader. With ``steps_per_epoch``, an epoch may then have another number of samples. The stream goes on
        at the same draw, and epochs count by the new length.

        If the dataset has changed since, a loader that was given its path without a version goes back to the
        version of the state.

        Args:
            state: The state.
            allow: ``("weights",)`` lets the weights of a mixture change, at the end of the block of about 64
                samples that was begun. The past stays as it was, and later states hold both weights.

        Raises:
            CheckpointError: The state is of another dataset or configuration; the error says what differs.
        """
        state, ledger = self._prepared(state, allow)
        if isinstance(state, Mapping) and "global_batch" in state:
            state = dict(state)
            lightning.check_resume(state.pop("global_batch"), self._global_batch, "samples")
        if self._plan.planner:
            self._load_planned(state)
        else:
            super().load_state_dict(convert_stream_state(self._samples, state))
        self._use_ledger(ledger)

    def _load_planned(self, state: Mapping[str, Any]) -> None:
        """Go to the position of a state that counts steps, on its number of ranks or on another one."""
        of_planner = {"world_size", "history"}
        if not isinstance(state, Mapping) or not of_planner <= state.keys():
            raise CheckpointError(
                f"the state is not one of a loader with {self._plan.planned_by}",
                hint="Pass what state_dict() returned.",
            )
        super().load_state_dict({name: value for name, value in state.items() if name not in of_planner})
        history, is_new = resumed(state, self._next.position, self._ranks.world_size)
        if is_new:
            self._next = State(self._next.epoch, 0, self._identity)
        self._history = (self._next.epoch, history)

    def set_epoch(self, epoch: int) -> None:
        """Make the next pass run ``epoch`` from its beginning."""
        super().set_epoch(epoch)
        self._history = (0, ())

    @property
    def _fitting(self) -> Fitting:
        return self._plan.planner.fitting if self._plan.planner else super()._fitting

    def _check_exclusion(self) -> None:
        planner = self._plan.patch_planner
        if planner and planner.captions:
            raise ConfigError(
                "exclude has no substitutes for images whose captions are packed beside their patches",
                hint="Leave the samples out of the next training: dataset.select(...), or stoker remove.",
            )

    def _point(self, epoch: int, position: int) -> tuple[int, ...]:
        # Counts draws or steps. An epoch has no more steps than draws, because each step shows a sample.
        before = sum(done for _, done in self._history_of(epoch))
        return (epoch * self._samples + before + position,)

    def _first_draw(self, state: Any) -> int:
        try:
            return int(state["epoch"] * state.get("samples_per_epoch", self._samples) + state["position"])
        except (AttributeError, KeyError, TypeError):  # no state, which is refused later
            return 0

    def _schedule(self, epoch: int, start: int) -> Schedule:
        history = self._history_of(epoch)
        return self._plan.steps(
            self._samples, self._ranks, self._last_batch, epoch=epoch, start=start, history=history
        )

    def _history_of(self, epoch: int) -> History:
        return self._history[1] if self._history[0] == epoch else ()

    @property
    def _global_batch(self) -> int:
        """Samples of a step on all ranks, or pixels if these are fixed."""
        return (self._plan.pixels or self._plan.batch_size) * self._ranks.world_size
