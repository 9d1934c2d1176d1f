"""The base of both loaders: passes over a pipeline, their state, statistics, exclusions and closing."""

from __future__ import annotations

import json
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, TypeVar

from stoker.arguments import NamedArguments, whole_number
from stoker.errors import ConfigError, LoaderClosedError
from stoker.processes import OwnerProcess, PerProcess

from .execution.passes import EVENTS, EpochIterator, FirstSteps, Prefetcher, Progress, following_producers
from .execution.pipeline import ColumnSpec, Pipeline, Producer
from .execution.ranks import Process, check_ranks
from .execution.state import EpochParts, State
from .execution.stats import Stats, StatsTotals
from .execution.threads import WorkerThread, check_owner
from .order.orders import Stream
from .order.sampling import SampleSource, version_of

if TYPE_CHECKING:
    from .cluster.workers import Workers
    from .order.exclusions import Exclusions

L = TypeVar("L", bound="Loader")

_ENDED_WITH_EPOCH_0: dict[str, bool] = {}
"""Whether the last whole epoch of the loaders of some order and rank was their first."""


def given_arguments(loader_class: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a loader's arguments, the locals of its constructor, that differ from their defaults."""
    defaults = loader_class.__init__.__kwdefaults__  # type: ignore[misc]  # of this very class
    names = [name for name in values if name not in ("self", "__class__")]
    return {
        name: values[name] for name in names if name not in defaults or values[name] is not defaults[name]
    }


class LoaderSampler:
    """What trainers ask of ``loader.sampler`` and ``loader.batch_sampler``: lengths, ranks and the epoch.

    It draws nothing, because the loader knows its rank and its order.
    """

    def __init__(self, loader: Loader, length: int) -> None:
        self.num_replicas, self.rank = loader.process.world_size, loader.process.rank
        self.batch_size, self.drop_last = loader.batch_size, loader.drop_last
        self.set_epoch = loader.set_epoch
        self._length = length

    @property
    def sampler(self) -> LoaderSampler:
        return self

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> NoReturn:
        raise ConfigError(
            "the sampler of a loader has no indices: the loader makes whole batches",
            hint="Iterate over the loader. To go on inside an epoch, keep loader.state_dict() and call "
            "loader.load_state_dict(state), in place of skip_first_batches.",
        )


class Loader(NamedArguments):
    """A loader: each pass over it is one epoch, and the next pass is the next epoch.

    It has a pipeline, which makes batches, and adds passes, their state, and what is made ahead. The rest
    of the package uses ``pipeline``, ``process``, ``dataset_argument``, ``arguments``, ``position``,
    :meth:`steps` and :meth:`first_batch`.
    """

    equivalents: ClassVar[str] = "loader"
    pipeline: Pipeline

    def __init__(
        self,
        make: Callable[..., Pipeline],
        source: SampleSource,
        arguments: Mapping[str, Any],
        *,
        process: Process,
        totals: StatsTotals,
        prefetch: int,
    ) -> None:
        """Run the pipeline that ``make`` makes of ``source``; ``arguments`` are those that the user gave."""
        self.arguments = dict(arguments)
        self.dataset_argument = self.arguments.pop("dataset")
        self.process = process
        self._make = make
        self._totals = totals
        self._prefetch = prefetch
        self._exclusions: Exclusions | None = None
        self._parts = EpochParts()
        self._pass: weakref.ref[EpochIterator] | None = None
        self._progress: Progress | None = None
        self._ahead: Prefetcher | None = None  # makes the pass of self.position
        self._thread: WorkerThread | None = None  # one at a time: two would mix their batches
        self._workers: Workers | None = None
        self._closed = self._warned_of_empty_batch = False
        self._may_look = True  # until a pass has gone on, a look at the first batch begins no epoch
        self._owner = OwnerProcess()
        # Held to begin, move or end a pass, since two threads would take each other's thread.
        self._lock = PerProcess(threading.RLock)
        self._lock.get()
        self._use(make(source))
        self.position = State(0, 0, self.pipeline.identity)  # of the next pass

    def _use(self, pipeline: Pipeline) -> None:
        """Run another pipeline from now on."""
        self.pipeline = pipeline
        steps = len(pipeline.steps(0, 0, EpochParts()))
        if not steps:
            pipeline.close()
            raise ConfigError(
                "an epoch has no batch: last_batch='drop' leaves out draws that fill no batch on every rank",
                hint="Take smaller batches, or last_batch='partial' or 'pad'.",
            )
        self._epoch_steps = steps if pipeline.has_equal_epochs else None
        self._form = None
        if (batch_as := self.arguments.get("batch_as")) is not None:
            from .batch_forms import batch_form

            self._form = batch_form(batch_as, pipeline.columns)
        if self._workers:
            self._workers.close()
            self._workers = None
        reading = self.arguments.get("reading")
        if (workers := reading and reading.workers) is not None:
            from .cluster.workers import Workers

            self._workers = Workers(self, workers, self._totals)

    # What a batch holds

    @property
    def dataset(self) -> SampleSource:
        """The dataset or mixture whose samples are drawn."""
        return self.pipeline.source

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of a batch, in their order."""
        return self.pipeline.columns

    def element_spec(self) -> tuple[ColumnSpec, ...]:
        """Dtype and shape of each column of a batch, without the batch axis; None for sizes that differ.

        Your functions at the end of the transforms may change the shape and dtype of images. They are called
        once, with a batch of zeros, to find out.
        """
        return tuple(self.pipeline.spec(name) for name in self.pipeline.columns)

    # What trainers ask of a DataLoader

    num_workers = 0
    prefetch_factor = None

    @property
    def batch_size(self) -> int | None:
        """Samples of a batch on this rank, or rows; None if batches differ."""
        size = self.arguments.get("batch_size")
        return size if isinstance(size, int) else None

    @property
    def drop_last(self) -> bool:
        """Whether samples that do not fill a last batch are left out."""
        return bool(self.arguments.get("last_batch") == "drop")

    @property
    def sampler(self) -> LoaderSampler:
        """As a DistributedSampler: its length is that of this rank's draws, and it has ``set_epoch``."""
        draws = -(-self.pipeline.order.n // self.process.world_size)
        if self.drop_last and self.batch_size and self.has_equal_epochs:
            draws = min(draws, len(self) * self.batch_size)
        return LoaderSampler(self, draws)

    @property
    def batch_sampler(self) -> LoaderSampler:
        """The same, with the number of batches as its length."""
        return LoaderSampler(self, len(self))

    # Passes

    def __iter__(self) -> Iterator[Any]:
        """Start the next pass."""
        # A running pass is ended, and starts again if it has returned no batch. A pass that an error has
        # stopped goes on with the batch that was not received.
        check_owner(self._owner)
        with self._lock.get():
            running = self._begin_pass()
        steps = running.progress.steps
        if steps and steps.last_is_empty and not self._warned_of_empty_batch:
            self._warned_of_empty_batch = True
            warnings.warn(
                f"rank {self.process.rank} of {self.process.world_size} receives an empty last batch, whose "
                "mean loss is NaN: choose last_batch='drop', or 'pad', whose column mask marks repeats",
                stacklevel=2,
            )
        if "accelerate.state" in sys.modules:
            from .adapters.accelerate import announce

            announce(running)
        return running

    def _begin_pass(self) -> EpochIterator:
        self._end_pass()
        self._check_open()
        check_ranks(self.process)
        last = self._progress
        if last is None:
            self._warn_of_repeated_epoch()
        if last and last.failed:
            self.position = last.state(self.pipeline.identity)
        elif last and self._was_look(last):
            self.position = State(last.epoch, last.start, self.pipeline.identity)
        self._may_look = self._may_look and not (last and last.received)
        state = self.position
        progress = Progress(state.epoch, self.steps(state.epoch, state.position), state.position)
        self._totals.begin(self.pipeline.counters())
        batches, self._ahead = self._ahead, None
        if batches is None:
            batches = self._make_batches(progress.steps, state.epoch)
        running = EpochIterator(self._keep, batches, progress, self._totals, self._form)
        self._pass = weakref.ref(running)
        # Last: after an error or an interrupt the next pass is still this one.
        self.position, self._progress = State(state.epoch + 1, 0, self.pipeline.identity), progress
        return running

    def _warn_of_repeated_epoch(self) -> None:
        """Warn where a loop makes a shuffled loader for each of its epochs."""
        key = self._order_key()
        if key and self.position.epoch == self.position.position == 0 and _ENDED_WITH_EPOCH_0.get(key):
            EVENTS.warning(
                "repeated",
                "this loader repeats epoch 0 of an earlier one with the same arguments, in the same order: "
                "keep one loader for all epochs, or call loader.set_epoch(epoch)",
            )

    def _order_key(self) -> str | None:
        """What decides the order of this rank, if it is random."""
        if not (self.arguments.get("shuffle") or self.arguments.get("sampler")):
            return None
        ranks = self.process.rank, self.process.world_size
        return json.dumps([self.pipeline.identity, ranks], sort_keys=True)

    def _was_look(self, last: Progress) -> bool:
        """Whether a pass was begun only to see a batch: such a pass is begun again, and no epoch is lost."""
        # Once: a loop that takes one batch of each pass goes on with the next epoch.
        is_first = self._may_look and last.received == 1 < len(last.steps)
        return not last.failed and (not last.received or is_first)

    def steps(self, epoch: int, position: int) -> Any:
        """This rank's steps of an epoch from a checkpoint's ``position`` on."""
        return self.pipeline.steps(epoch, position, self._parts.of(epoch))

    def producer(self, steps: Any, epoch: int) -> Producer:
        """The producer that a pass runs."""
        producer = self.pipeline.producer(steps, epoch)
        return self._workers.shared(producer, steps, epoch) if self._workers else producer

    def _make_batches(self, steps: Any, epoch: int) -> Prefetcher:
        """Start a thread that makes the batches of these steps and of the following epochs."""
        self._end_thread()
        producers = following_producers(self.producer(steps, epoch), weakref.ref(self), epoch)
        depth = self._prefetch + (self._workers.in_flight if self._workers else 0)
        batches = Prefetcher(producers, depth, self._totals)
        self._thread = batches.worker  # first: an interrupt may come during the start
        self._thread.start()
        return batches

    def __len__(self) -> int:
        """Batches of a whole epoch on this rank."""
        # Epochs may differ: with ``batch_size=Pixels(...)``, and by a few batches where text draws different
        # samples. The number is then that of the running epoch, or else of the next one.
        if self._epoch_steps is not None:
            return self._epoch_steps
        return len(self.pipeline.steps(self._state().epoch, 0, EpochParts()))

    @property
    def steps_left(self) -> int:
        """Batches from the position of :meth:`state_dict` to the end of its epoch, on this rank."""
        state = self._state()
        return len(self.steps(state.epoch, state.position))

    @property
    def has_equal_epochs(self) -> bool:
        """Whether all whole epochs have the same number of batches.

        Images: always, but with ``batch_size=Pixels(...)`` or packed captions. Text: if all epochs draw the
        same samples; or with a ``batch_size`` of samples, no ``pack``, and a ``last_batch`` of "drop" or
        "pad".
        """
        return self.pipeline.has_equal_epochs

    def batch(self, epoch: int, step: int, *, rank: int | None = None) -> Any:
        """Return any batch, one that was received or one to come, beside a running pass.

        A whole pass over the epoch returns the same batch at this step. The call does not move the loader's
        position or count in its statistics. It takes longer than a batch of a pass, because nothing is read
        or made ahead.

        Args:
            epoch: Number of the epoch, from 0.
            step: Number of the step in the epoch, from 0.
            rank: Rank that receives the batch; None is the rank of this process.

        Raises:
            ConfigError: There is no such epoch, step or rank.
            SampleError: A sample is bad, as in a pass.
        """
        check_owner(self._owner)
        self._check_open()
        epoch, step = whole_number("epoch", epoch, 0), whole_number("step", step, 0)
        whole = self.steps(epoch, 0)
        if step >= len(whole):
            raise ConfigError(f"epoch {epoch} has no step {step}: its steps are 0 to {len(whole) - 1}")
        steps = self.steps(epoch, whole.consumed(step))
        if rank is not None:
            if whole_number("rank", rank, 0) >= self.process.world_size:
                raise ConfigError(f"there is no rank {rank}: the loader has {self.process.world_size} ranks")
            steps = replace(steps, rank=rank)
        return self.first_batch(steps, epoch)

    def first_batch(self, steps: Any, epoch: int) -> Any:
        """The batch of the first of some steps, beside a running pass."""
        with self.pipeline.single_producer(FirstSteps(steps, 1), epoch) as producer:
            producer.start()
            finished = producer.finish()
        if finished.ready:
            finished.ready()
        return self._form(finished.batch) if self._form else finished.batch

    # State

    def set_epoch(self, epoch: int) -> None:
        """Make the next pass run ``epoch``, from its beginning or from where a loaded state stands in it.

        A pass that has begun and returned no batch yet runs ``epoch``, too.
        """
        state = State(whole_number("epoch", epoch, 0), 0, self.pipeline.identity)
        running = self._pass() if self._pass else None
        with running.paused() if running else nullcontext(), self._lock.get():
            last, runs = self._progress, running is not None and running.runs
            stands = self.position.epoch if last is None else None
            if last and self._was_look(last) and not (runs and last.received):
                stands = last.epoch
            if stands == epoch:
                return
            if state != self.position:
                self._forget_ahead()
            self._parts, self._may_look = EpochParts(), True
            if running and last and runs and not last.received:
                self._end_thread()
                last.epoch, last.steps, last.start = epoch, self.steps(epoch, 0), 0
                running.exchange(self._make_batches(last.steps, epoch))
                self.position = replace(state, epoch=epoch + 1)
            else:
                self.position, self._progress = state, None

    def state_dict(self) -> dict[str, Any]:
        """Return the loader's position as a small dict of JSON data.

        It counts the batches that you have received, not those that are ready. After an epoch that you left
        early it names the next batch of that epoch.
        """
        pipeline, current = self.pipeline, self._state()
        self._may_look = self._may_look and not (self._progress and self._progress.received)
        state = current.to_dict()
        if (version := version_of(pipeline.source)) != 1:  # states of version 1 name none
            state["dataset_version"] = version
        if self._exclusions:
            state["excluded"] = self._exclusions.to_json()
        if pipeline.counts_steps:
            _, history, begun = self._parts.of(current.epoch)
            if begun:
                state["identity"] = {**state["identity"], "batch_size": begun.batch_size}
            world_size = begun.world_size if begun else self.process.world_size
            state |= {"world_size": world_size, "history": [list(part) for part in history]}
        elif isinstance(pipeline.order, Stream):
            state["samples_per_epoch"] = pipeline.order.n
        return state

    def load_state_dict(self, state: Mapping[str, Any], *, allow: Collection[str] = ()) -> None:
        """Continue from a position that :meth:`state_dict` returned, with the batch that followed it.

        Engine and threads may differ from those of the saved loader. Image batches may also have another
        size, and any number of ranks may go on. With ``steps_per_epoch``, an epoch may then have another
        number of samples: the stream goes on at the same draw, and epochs count by the new length.

        On another number of ranks, text goes on with exactly the samples of the epoch that no rank has
        received. Its batch size may differ if the product of ranks and batch size stays the same; then the
        remaining global batches stay the same, too. With a ``last_batch`` of "drop" or "pad", and without
        buckets, it may be any number that divides the product of the state. A loader of several fields
        without ``buckets`` uses those of a state of release 0.1.

        If the dataset has changed since, a loader that was given its path without a version goes back to the
        version of the state.

        Args:
            state: The state.
            allow: ``("weights",)`` lets the weights of a mixture change: for images at the end of the block
                of about 64 samples that has started, for text from the next epoch on. The past stays as it
                was, and later states hold both weights.

        Raises:
            CheckpointError: The state is of another dataset or configuration; the error names what differs.
        """
        from .resuming import resume

        with self._lock.get():
            resumed = resume(self, self._make, state, allow)
            self._end_pass()
            self._forget_ahead()
            if resumed.pipeline is not self.pipeline:
                self._end_thread()
                self.pipeline.close()
                self.dataset_argument = resumed.dataset_argument
                self.arguments |= resumed.options
                self._use(resumed.pipeline)
            self.position, self._progress, self._parts = resumed.position, None, resumed.parts
            self._may_look = True
            self._exclude(resumed.exclusions)

    def exclude(self, keys: str | int | Iterable[str | int], *, from_step: int | None = None) -> int:
        """Leave samples out of all batches to come; all other samples stay where they are.

        Another sample of the epoch replaces each of them: one of the same dataset of a mixture, and with
        :class:`stoker.ClassBalanced` of the same class. Only the seed and the number of the draw decide
        which. A replacement of text fits into the row of the sequence that it replaces. If the sizes of
        images plan the batches, the replacement has the same shape of ``AspectBuckets`` or group of aspect
        ratios, and with ``Patches`` at most as many patches. Padding and the partners of combined images,
        such as those of ``Mosaic``, are replaced, too. Batches that were made ahead are made again. Past
        batches stay as they were, also for :meth:`batch`.

        Call it on all ranks between the same two batches, or agree on ``from_step``. States hold the list of
        these samples, so the same samples are left out after a resume, on any number of ranks.

        Args:
            keys: Keys of samples, as the column "key" has them, or their positions, as "row" has them.
            from_step: Number of the first batch without them, as ``enumerate(loader)`` counts in the running
                pass. None is the batch that comes next. After a resume on another number of ranks, text
                leaves the samples out at once.

        Returns:
            The number of that batch.

        Raises:
            ConfigError: There is no such sample, a key names several, the batch was received already, no
                replacement would be left, or captions are packed beside patches.
        """
        check_owner(self._owner)
        from .order.exclusions import Exclusions, positions_of

        positions = positions_of(self.dataset, [keys] if isinstance(keys, (str, int)) else keys)
        if not len(positions):
            raise ConfigError("exclude needs the key of a sample, found none")
        self.pipeline.check_exclusion()
        exclusions = self._exclusions or Exclusions()
        self.pipeline.fitting.check_rest(exclusions.after((), positions).positions)
        running = self._pass() if self._pass else None
        with running.paused() if running else nullcontext(), self._lock.get():
            self._forget_ahead()
            self._end_thread()
            first, epoch, position = self._first_batch(from_step)
            point = self.pipeline.point(epoch, position, self._parts.of(epoch))
            self._exclude(exclusions.after(point, positions))
            if running and running.runs and self._progress:
                done = self._progress
                rest = self.steps(done.epoch, done.steps.consumed(done.received))
                running.exchange(self._make_batches(rest, done.epoch))
        return first

    def _exclude(self, exclusions: Exclusions | None) -> None:
        self._exclusions = exclusions
        self.pipeline.exclude(exclusions)

    def _first_batch(self, from_step: int | None) -> tuple[int, int, int]:
        """The number of a batch in its pass, its epoch, and the checkpoint's position before it."""
        progress = self._progress
        if progress is None or progress.received == len(progress.steps):
            state = self._state()
            epoch, steps, received = state.epoch, self.steps(state.epoch, state.position), 0
        else:
            epoch, steps, received = progress.epoch, progress.steps, progress.received
        first = received if from_step is None else whole_number("from_step", from_step, 0)
        if not received <= first < len(steps):
            raise ConfigError(
                f"from_step must be from {received}, the next batch of the pass, to {len(steps) - 1}, "
                f"found {first}"
            )
        return first, epoch, steps.consumed(first)

    def steering(self) -> tuple[Exclusions | None, EpochParts]:
        """What decides batches and has changed since the loader was made."""
        return self._exclusions, self._parts

    def steer(self, exclusions: Exclusions | None, parts: EpochParts) -> None:
        """Change as another loader has, which was made with the same arguments."""
        self._parts = parts
        if exclusions != self._exclusions:
            self._exclude(exclusions)

    # Records of the training

    def certificate(self) -> dict[str, Any]:
        """Return digests of everything that decides the batches of this training, as JSON data.

        Two runs with the same ``digest`` see the same batches. Otherwise the other entries tell what differs:
        ``data``, a tree of SHA-256 over the files of each dataset (RFC 6962); ``order``, the order of samples
        and those excluded; ``transforms``, everything that decides the content of samples; ``batches``, the
        samples of a step on all ranks (or their pixels or tokens, whichever the loader was given) and the
        arguments ``last_batch``, ``on_error``, ``exact``, ``max_pixels`` and ``verify``; the number of ranks;
        the engine; and the versions of libraries, with the decoders of images. ``stoker verify
        --certificate`` compares data with a certificate. Conversions keep the SHA-256 of their files. For
        other datasets the first call reads all bytes, and keeps the SHA-256 in the user's cache folder.

        Raises:
            ConfigError: A dataset without kept SHA-256 is remote.
            DatasetError: ``sha256.json`` of a dataset is damaged.
        """
        from .certificate import make_certificate

        return make_certificate(
            self.dataset,
            self.pipeline.identity,
            self._exclusions,
            batches=self.pipeline.batches_to_json(),
            world_size=self.process.world_size,
            engine=self._totals.engine,
        )

    def describe(self) -> dict[str, Any]:
        """Return dataset, arguments, ranks and state, to make this loader again on another machine.

        The dict is JSON data for ``stoker replay``, which shows any batch of the training from it. Write it
        beside the checkpoints. Its entry "missing" names arguments that JSON cannot hold, such as functions.
        """
        from .description import describe

        return describe(self)

    # Observation

    def stats(self, since: Literal["start", "pass", "last"] = "start") -> Stats:
        """Return counts of what was loaded, and where the time went.

        Args:
            since: "start" is the beginning of the first pass, "pass" the beginning of the latest pass, and
                "last" the last call with "last": call it every hundred steps for numbers of these.

        Raises:
            ConfigError: ``since`` is none of these.
        """
        if since not in ("start", "pass", "last"):
            raise ConfigError(f"since must be 'start', 'pass' or 'last', found {since!r}")
        running = self._pass() if self._pass else None
        traffic = self._workers.traffic if self._workers else None
        return replace(
            self._totals.stats(since, self.pipeline.counters()),
            ready=running.ready if running else 0,
            rank=self.process.rank,
            world_size=self.process.world_size,
            stores=tuple(dataset.address for dataset in self.dataset.datasets),
            makers=traffic.makers() if traffic else (),
            made_again=traffic.repeated if traffic else 0,
        )

    def publish(self, target: Any, step: int | None = None) -> None:
        """Give the statistics to a monitor.

        Args:
            target: ``SummaryWriter`` of TensorBoard or of PyTorch: numbers are written at each call. Registry
                of prometheus_client, or meter of OpenTelemetry: one call is enough, and numbers are read when
                they are exported. Logger of Python's logging: a line at level INFO at each call.
            step: Step of the training, for TensorBoard.

        Raises:
            ConfigError: The target is none of those.
        """
        from .execution.publishing import publish_stats

        publish_stats(target, weakref.WeakMethod(self.stats), step)

    def trace(self, path: str | os.PathLike[str], profiler: Any = None) -> AbstractContextManager[None]:
        """Write a trace of the loader's work in the block, for https://ui.perfetto.dev.

        The file has the Trace Event Format of Chrome. One track shows when the consumer's thread waits for
        batches, another one the stages of ``stats().producer`` in the loader's thread. Each thread of the
        engine "native" has a track with the stages of each sample: "read", "decode" and "augment". The last
        two alternate by rows, and the trace shows one after the other.

        Args:
            path: File to write, such as ``trace.json``.
            profiler: A ``torch.profiler.profile`` that has stopped when the block ends. The file then also
                has its events, on the same clock, and the stages are in a process ``Stoker``: ``with
                loader.trace("trace.json", profiler=profiler), profiler: ...``

        Raises:
            ConfigError: The profiler is not PyTorch's.
        """
        from .execution.stats import traced

        return traced(self._totals.worker, Path(path), profiler)

    # End

    def __enter__(self: L) -> L:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the running pass and free threads, memory and workers; a second call completes the first."""
        with self._lock.get():
            self._end_pass()
            self._forget_ahead()
            self._end_thread()
            self._closed = True
            if self._owner.is_current():
                self.pipeline.close()
        if self._workers:
            self._workers.close()

    def __getitem__(self, _: object) -> NoReturn:
        """Refuse to be the dataset of torch's DataLoader, which reads by index."""
        raise ConfigError(
            "a loader has no items: it makes whole batches, and replaces a DataLoader",
            hint="Iterate over the loader. Code that needs a DataLoader takes "
            "DataLoader(iterable_dataset(loader), batch_size=None), with iterable_dataset from "
            "stoker.pipeline.adapters.torch.",
        )

    def __reduce__(self) -> NoReturn:
        raise LoaderClosedError(
            "a loader cannot be pickled: its threads and open files belong to this process",
            hint="Make the loader in the process that iterates over it.",
        )

    def _check_open(self) -> None:
        if self._closed:
            raise LoaderClosedError("this loader is closed", hint="Make a new loader.")

    def _state(self) -> State:
        return self._progress.state(self.pipeline.identity) if self._progress else self.position

    def _end_pass(self) -> None:
        running = self._pass() if self._pass else None
        if running is not None:
            running.end()
        self._pass = None

    def _end_thread(self) -> None:
        """End the worker of a pass that was dropped, or whose end was interrupted."""
        if self._thread is not None:
            self._thread.end()
            self._thread = None

    def _keep(self, batches: Prefetcher, complete: Progress) -> None:
        """Keep the prefetcher of a complete pass if it makes the next pass already."""
        if (key := self._order_key()) is not None:
            _ENDED_WITH_EPOCH_0[key] = complete.epoch == 0
        with self._lock.get():
            follows = self.position == State(complete.epoch + 1, 0, self.pipeline.identity)
            if follows and self._progress is complete and not batches.closed:
                self._ahead = batches
            else:
                batches.close()

    def _forget_ahead(self) -> None:
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None
