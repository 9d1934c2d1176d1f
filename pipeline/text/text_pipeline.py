"""How a batch of text comes to be: every stage in order, and the pipeline that runs them.

:func:`started_batches` starts batches: the rows of the plan, their sequences, and the bytes of these. Then
:func:`_made` reads the sequences and makes arrays, and :meth:`TextPipeline.complete` makes the columns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.bucketing import Batch, BatchContext, BatchPlan
from stoker.bucketing.layout import Padded
from stoker.errors import CheckpointError, ConfigError, SampleError

from ..adapters import Adapter
from ..execution.pipeline import ColumnSpec, FinishedBatch, Pipeline, Producer, Started
from ..execution.ranks import Process
from ..execution.state import EpochParts, OldRanks, checked_history
from ..execution.stats import Counters, StatsTotals
from ..options import Buckets, Ranks
from ..order.orders import Order
from ..order.sampling import batched_values, is_remote
from ..order.schedule import PlannedSteps
from .arrays import document_begins, rows_of_segments, rows_of_tokens
from .config import TextLoaderConfig
from .planner import TextEpoch, TokenSlices
from .token_reader import PayloadLocations

if TYPE_CHECKING:
    from ..caching.read_ahead import CachedEpoch
    from ..order.exclusions import Exclusions, Point
    from .cached_text import CachedText

_IGNORED = -100  # the label of tokens that are not trained
_TOGETHER = 1 << 17  # tokens of batches that start together: Python takes about as long for one as for many


class MadeText(NamedTuple):
    """A batch in arrays of NumPy, before the arrays of the framework."""

    arrays: Mapping[str, Any]  # Arrays of its sequences, by their columns
    mask: npt.NDArray[np.bool_]  # (n,) bool, False for repeated samples
    slices: TokenSlices  # The sequences
    samples: int  # Number of samples

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(getattr(array, "nbytes", 0) for array in self.arrays.values())


class TextPipeline(Pipeline):
    """The stages of the batches of one text loader, and what they share: reader, planner, adapter."""

    loader = "TextLoader"
    described = "TextLoader"
    point_numbers = 3
    counts_steps = True

    def __init__(
        self, config: TextLoaderConfig, process: Process, adapter: Adapter, totals: StatsTotals
    ) -> None:
        self.config = config
        self.source = config.dataset
        self.identity = config.identity
        self.columns = config.columns
        self.largest_position = config.planner.most_steps
        self._exclusions: Exclusions | None = None
        self._process = process
        self._adapter = adapter
        self._totals = totals
        self.cached: CachedText | None = None
        if is_remote(self.source):
            from .cached_text import CachedText

            self.cached = CachedText(config)

    @property
    def order(self) -> Order:
        return self.config.planner.order

    @property
    def has_equal_epochs(self) -> bool:
        return self.config.planner.has_equal_epochs

    def plan(self, epoch: int, parts: EpochParts) -> BatchPlan:
        """The remaining batches of an epoch."""
        return self.config.planner.plan(epoch, parts.history, parts.begun)

    def steps(self, epoch: int, position: int, parts: EpochParts) -> PlannedSteps:
        plan = self.plan(epoch, parts)
        if position > len(plan):
            raise CheckpointError(
                f"the state is at step {position}, beyond the end of its epoch (steps: {len(plan)})"
            )
        return PlannedSteps(plan, self._process.rank, position)

    def producer(self, steps: Any, epoch: int) -> Producer:
        return self._producer(steps, self._totals, self.cached)

    @contextmanager
    def single_producer(self, steps: Any, epoch: int) -> Iterator[Producer]:
        if not self.cached:
            yield self._producer(steps, StatsTotals(), None)
            return
        from .cached_text import CachedText

        with contextlib.closing(CachedText(self.config, plans=False)) as cached:
            yield self._producer(steps, StatsTotals(), cached)

    def _producer(self, steps: PlannedSteps, totals: StatsTotals, cached: CachedText | None) -> Producer:
        # Two starts, so that the kernel reads the next batch while one is made.
        starts = started_batches(self, steps, cached, totals)
        return Producer(starts, lambda made: self.complete(made, totals), totals, max_in_flight=2)

    def slices(
        self, epoch: TextEpoch, steps: PlannedSteps, batches: Sequence[Batch], step: int
    ) -> TokenSlices:
        """The sequences of ``batches`` at the steps from ``step`` on, one batch after the other."""
        rows = batches[0].rows if len(batches) == 1 else np.concatenate([part.rows for part in batches])
        slices = epoch.token_slices(rows)
        if not self._exclusions:
            return slices
        from ..order.exclusions import groups_of
        from .replacements import with_replacements

        plan, seed = steps.plan, self.config.planner.batching.seed
        excluded = self._exclusions.at((plan.epoch, len(plan.history), steps.start + step))
        groups = groups_of(self.order)
        return with_replacements(epoch, batches[0], slices, excluded, groups=groups, key=(seed, plan.epoch))

    def complete(self, made: MadeText, totals: StatsTotals) -> FinishedBatch:
        """The batch of what was made, in the framework's arrays."""
        labels = [array for name, array in made.arrays.items() if name.endswith(("labels", "targets"))]
        if labels and not self.config.maker.slices and all(np.all(array == _IGNORED) for array in labels):
            from ..execution.passes import EVENTS

            EVENTS.warning(
                "no labels", "a batch has no token that a model is trained on: its mean loss is NaN"
            )
        stream, stages = self._adapter.copy_stream, totals.worker
        with stages.stage("handing over"), stream or contextlib.nullcontext():
            values = []
            for name in self.columns:
                value = self._value(made, name)
                if not isinstance(value, int):  # a number such as max_seqlen is an argument of a GPU kernel
                    with stages.stage("copying"):
                        value = self._adapter.column(value)
                values.append(value)
            batch = self.config.batch_type(*values)
        return FinishedBatch(batch, made.samples, ready=stream.ready(batch) if stream else None)

    def _value(self, made: MadeText, name: str) -> Any:
        slices = made.slices
        if name in made.arrays:
            return made.arrays[name]
        if name == "mask":
            return made.mask
        if name == "begins" and slices.opens is not None:
            return document_begins(slices)
        if name != "row":
            return batched_values(self.source, name, slices.positions)
        if slices.groups is None:
            return slices.positions
        return (
            rows_of_segments(slices, self.config.segments) if slices.opens is None else rows_of_tokens(slices)
        )

    def spec(self, name: str) -> ColumnSpec:
        return self.config.spec(name)

    def check_exclusion(self) -> None:
        if self.config.planner.batching.stream is not None:
            raise ConfigError(
                "exclude needs batches of samples, and Streams joins the samples of an epoch",
                hint="Choose samples before the training with dataset.select().",
            )

    def point(self, epoch: int, position: int, parts: EpochParts) -> Point:
        return epoch, len(parts.history), position

    def first_draw(self, state: Mapping[str, Any]) -> int:
        """That of the next epoch once one has started, since its batches are planned as a whole."""
        try:
            begun = state["position"] > 0 or len(state["history"]) > 0
            return int((state["epoch"] + begun) * self.order.n)
        except (KeyError, TypeError):  # not a state; it is refused later
            return 0

    def exclude(self, exclusions: Exclusions | None) -> None:
        self._exclusions = exclusions

    def former_options(self, identity: Mapping[str, Any]) -> dict[str, Any]:
        """The buckets of release 0.1, where a k-d split was not the default."""
        may_differ = {"boundaries": None, "method": None, "batch_size": None}
        edges, batching = identity.get("boundaries"), self.config.planner.batching
        same = {**identity, **may_differ} == {**self.identity, **may_differ}
        if not (self.config.planner.splits and edges and same):
            return {}
        return {"buckets": Buckets(np.array(edges), batching.pad_to_multiple_of)}

    def rebatched(self, state: Mapping[str, Any]) -> tuple[Mapping[str, Any], OldRanks | None]:
        """See :class:`Pipeline`."""
        # If only the global batch decides a plan, W ranks with batches of B samples have the plan of W B / C
        # ranks with batches of C. Otherwise the epoch goes on as it started.
        known, current = state["identity"], self.identity["batch_size"]
        saved = known.get("batch_size")
        if saved == current or type(saved) is not int or type(current) is not int or saved < 1:
            return state, None
        identity = {**known, "batch_size": current}
        if identity != self.identity:
            return state, None  # the check of the state then names what differs
        parts = checked_history([*state["history"], [state["world_size"], 0]])
        whole = parts[-1][0] * saved
        if self.config.planner.depends_on_ranks:
            if whole != self._process.world_size * current:
                raise CheckpointError(
                    f"batch_size was {saved} and is {current}, which changes the last batch of each bucket",
                    hint=f"Resume with batch_size={saved}, or with {whole} samples of all ranks at a step. "
                    'To change it otherwise, begin with last_batch="drop" or "pad".',
                )
            return {**state, "identity": identity}, OldRanks(parts[-1][0], saved)
        if wrong := [world for world, _ in parts if world * saved % current]:
            raise CheckpointError(
                f"batch_size was {saved} and is {current}, and a step of {wrong[0]} ranks had "
                f"{wrong[0] * saved} samples, which are not a whole number of batches",
                hint=f"Resume with a batch_size that divides {wrong[0] * saved}.",
            )
        ranks = [world * saved // current for world, _ in parts]
        history = [[world, part[1]] for world, part in zip(ranks, state["history"], strict=False)]
        return {**state, "identity": identity, "world_size": ranks[-1], "history": history}, None

    def batches_to_json(self) -> dict[str, Any]:
        batching = self.config.planner.batching
        size = batching.batch_size or batching.max_tokens  # neither with a batch_sampler
        return {"global_batch": size and size * self._process.world_size, "last_batch": batching.last_batch}

    def options_elsewhere(self) -> dict[str, Any]:
        shared: dict[str, Any] = {"balance": self.config.planner.batching.balance}
        if slices := self.config.maker.slices:
            shared |= {"context": (slices.rank, slices.size), "context_slices": slices.form}
        ranks = Ranks(self._process.rank, self._process.world_size, **shared)
        return {"dtype": np.dtype(self.config.reader.dtype).name, "ranks": ranks}

    def together(self, steps: Any, *, unfinished: bool) -> Callable[[int], int]:
        """As many as have at most 131,072 tokens with padding, and at least one."""
        if self._exclusions:
            return lambda _: 1
        plan = steps.plan
        tokens = plan.sizes // plan.world_size * plan.lengths.sum(axis=1)
        ends: npt.NDArray[np.int64] = tokens[steps.start :].cumsum()

        def count(step: int) -> int:
            before = int(ends[step - 1]) if step else 0
            return max(1, int(ends.searchsorted(before + _TOGETHER, side="right")) - step)

        return count

    def counters(self) -> Counters:
        return self.cached.counters() if self.cached else Counters()

    def close(self) -> None:
        if self.cached:
            self.cached.close()
        self.config.reader.close()


class _Start(NamedTuple):
    """Batches of consecutive steps that were started together; one batch of packed rows or of streams.

    ``slices`` has the sequences of all batches, one batch after the other, and ``locations`` their payloads.
    """

    steps: range
    batches: Sequence[Batch]
    slices: TokenSlices
    locations: PayloadLocations

    def alone(self) -> Iterator[_Start]:
        """Yield each batch alone."""
        if len(self.steps) == 1:
            yield self
            return
        first = 0
        for step, batch in zip(self.steps, self.batches, strict=True):
            each = slice(first, first := first + len(batch.rows))
            steps = range(step, step + 1)
            yield _Start(steps, [batch], self.slices.part(each), self.locations.part(each))


def started_batches(
    pipeline: TextPipeline, steps: PlannedSteps, remote: CachedText | None, totals: StatsTotals
) -> Iterator[Started]:
    """Start the batches of these steps, small ones together; ``TextPipeline.complete`` ends them."""
    config, cached_epoch, step = pipeline.config, None, 0
    # The draws of the epoch, and how they form batches of similar lengths or packed rows.
    epoch = config.planner.epoch_of(steps.plan)
    alone = remote is not None or not config.reads_padded
    count = (lambda _: 1) if alone else pipeline.together(steps, unfinished=False)
    while step < len(steps):
        # This rank's batches at the next steps, and the slices of the samples that they hold.
        taken = range(step, min(step + count(step), len(steps)))
        batches = [steps.batch(one) for one in taken]
        slices = pipeline.slices(epoch, steps, batches, step)
        # Their bytes, which come from a storage, or which the operating system reads ahead.
        if remote:
            cached_epoch = cached_epoch or remote.begin_epoch(pipeline, steps)
            with totals.worker.stage("fetching"):
                cached_epoch.wait()
        locations = config.reader.locate(slices.positions)
        config.reader.will_need(slices, locations)
        yield Started(
            len(taken), _made(config, steps, _Start(taken, batches, slices, locations), cached_epoch)
        )
        step = taken.stop


def _made(
    config: TextLoaderConfig, steps: PlannedSteps, start: _Start, cached: CachedEpoch | None
) -> Iterator[MadeText]:
    """Read the sequences of batches that were started together, and yield the arrays of each batch."""
    reader, maker = config.reader, config.maker
    padded = _read_padded(config, start)
    if padded is not None and cached:
        cached.release()
    for number, one in enumerate(start.alone()):
        step, batch = one.steps[0], one.batches[0]
        if padded is not None:
            arrays = maker.of_padded(padded[number])
        else:
            sequences = reader.read(one.slices, one.locations)
            if cached:
                cached.release()
            context = BatchContext(
                steps.plan.epoch,
                steps.number(step),
                rows=one.slices.positions,
                begins=one.slices.begins,
                draws=one.slices.draws,
                seed=config.planner.batching.seed,
            )
            arrays = maker(sequences, one.slices.groups, batch.shape, context)
        yield MadeText(arrays, steps.mask(step), one.slices, len(batch.rows))


def _read_padded(config: TextLoaderConfig, start: _Start) -> Sequence[list[Padded]] | None:
    """Read all batches at once as padded rows of each field; None if each batch is to be read alone."""
    fill, slices = config.maker.fill, start.slices
    shapes = [batch.shape for batch in start.batches]
    if fill is None or not config.reads_padded or len(shapes[0]) != 1 + slices.lengths.shape[1]:
        return None
    first = np.cumsum([0, *(shape[0] for shape in shapes[:-1])])
    if (np.maximum.reduceat(slices.lengths, first) > np.array(shapes)[:, 1:]).any():
        return None
    try:
        return config.reader.read_padded(slices, start.locations, shapes, fill)
    except SampleError:
        if len(shapes) == 1:
            raise
        return None  # the batches before the bad one are good
