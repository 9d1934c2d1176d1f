"""The loader of text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stoker.errors import CheckpointError, ConfigError

from .. import adapters
from ..caching.cache_prefetcher import make_cache_prefetcher, resolve
from ..engines.devices import device_name, numbered_device, place_batches, this_machine
from ..execution.batch import ColumnSpec, batch_type
from ..execution.loader import Loader
from ..execution.ranks import find_ranks
from ..execution.state import State
from ..order.sampling import Repeated, make_draws, open_source
from .batching_config import BatchingConfig, LastBatch, TooLong, as_buckets
from .columns import column_names, default_batchify, probe
from .epoch import History, TextSchedule, checked_history
from .planner import TextPlanner
from .producer import TextBatchProducer, TextLoaderConfig
from .token_reader import TokenReader

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    import numpy as np
    import numpy.typing as npt

    from stoker.bucketing import Batchify, BatchPlan, BatchSampler, BucketBoundaries
    from stoker.bucketing.samplers.batch_sampler import Balance

    from ..order.sample_source import SampleSource
    from ..order.sampling import Sampler

__all__ = ["TextLoader"]


class TextLoader(Loader):
    """Feeds batches of token ids, put together by length, to a training loop, working ahead of it.

    Each pass over the loader is one epoch, the next pass the next one. At each step all ranks receive
    batches of one shape, and :meth:`shapes` lists all that there will be. A batch is a function of seed,
    epoch and step alone.

    Args:
        dataset: A dataset of text (see :func:`stoker.convert_text`), the path of one, or several mixed by
            :func:`stoker.mix`; with ``cache``, the URL of one.
        batch_size: Samples a batch on this rank; packed rows with ``pack``.
        max_tokens: Tokens a batch on this rank, padding included, instead of ``batch_size``.
        batch_sampler: Instead of both, and of ``buckets``, a function that makes any
            :class:`stoker.bucketing.BatchSampler`, such as ``partial(SortedBucketSampler, batch_size=32,
            window=50)``. It is called with the lengths of an epoch's samples, (n,) or (n, D) int64, and the
            keyword arguments that all samplers have.
        buckets: Number of padded lengths, whose boundaries are then the best there are; or the
            boundaries, (K,) or (K, D) integers. None draws random batches and pads each to its longest,
            in any number of shapes. Without a meaning where rows are packed.
        pad_multiple: Padded lengths are multiples of this (8 or 16 for tensor cores).
        pack: Put several sequences into each row of this many tokens.
        max_sequences: At most so many of them into a row, which is how long ``cu_seqlens`` then is.
        max_length: Longer sequences are, as ``too_long`` says, refused or truncated.
        too_long: What becomes of a sequence longer than ``max_length``, ``pack`` or the last boundary:
            "error", "truncate", or, for packed rows, "split".
        shuffle: Whether batches are drawn anew each epoch, or come in the order of the dataset. What a
            ``sampler`` draws comes in new batches in any case.
        sampler: What an epoch draws, if not every sample once: :class:`~stoker.Weighted`,
            :class:`~stoker.ClassBalanced`, or a sampler of your own.
        samples_per_epoch: Make a pass this many samples, over all ranks, of an infinite stream of draws,
            which goes on from pass to pass; by default a pass is all draws once.
        seed: Decides what is drawn, 0 to 2**64 - 1.
        rank: This rank; by default found from torch.distributed, JAX, or the launcher's environment.
        world_size: Number of ranks, likewise.
        last_batch: What becomes of samples that fill no batch: "drop" leaves them out of this epoch,
            "pad" repeats some and adds a column ``mask``, (N,) bool, False where a sample is repeated,
            "partial" makes smaller batches; so that all ranks have one shape, it may repeat up to
            ``world_size - 1`` samples, which the column ``mask`` shows where it is asked for.
        balance: Deal the samples of a step so that all ranks have about as many "tokens", or squares of
            lengths ("attention"), for models that do not compute padding. None deals them as they come.
        output: "numpy", "torch", "tensorflow", "jax", "cupy" or "mxnet"; or "keras": arrays of its backend,
            and a loader that ``model.fit``, ``evaluate`` and ``predict`` take.
        device: Where batches are wanted, "cpu", "cuda:N", or a device of PyTorch or JAX.
        fields: Which fields of a sample to take; by default all. Packing takes one.
        columns: What a batch holds: arrays that ``batchify`` makes; "row" (position in the index), "key"
            (name in the source), any column of numbers of the index, of a mixture "dataset", all for
            unpacked samples only; and "mask". By default "input_ids" and "attention_mask", of packed rows
            "input_ids", "segment_ids" and "position_ids"; with several fields each with the prefix
            ``<field>_``.
        dtype: Of token ids: "int32" or "int64"; by default int64 for torch, as its losses want, and
            int32 for others.
        prefetch: Batches that may be ready or in flight ahead of the consumer, from 1.
        batchify: What makes arrays of sequences, see :mod:`stoker.bucketing`, for other arrays than
            ``columns`` can name: called with a ``Ragged`` (``Packed`` for packed rows; a dict of
            ``Ragged`` by field for several fields) and the padded length, it returns a dict of arrays.
        verify: Compare every payload with its checksum.
        pin_memory: Make the batches of ``output="torch"`` in page-locked memory, see
            :class:`stoker.ImageLoader`; with ``device="cuda:N"`` they go through it anyway.
        cache: Folder on a local disk for what is fetched of a dataset at a URL, see
            :class:`stoker.ImageLoader`.
        cache_size: Bytes that it may have about.

    Raises:
        ConfigError: An argument cannot be meant as given.
        DatasetError: The path is no dataset that can be read.
        MissingDependencyError: The output needs a package that is not installed.
    """

    def __init__(
        self,
        dataset: SampleSource | str | os.PathLike[str],
        *,
        batch_size: int | None = None,
        max_tokens: int | None = None,
        batch_sampler: Callable[..., BatchSampler] | None = None,
        buckets: int | BucketBoundaries | npt.NDArray[np.int64] | Sequence[int] | None = 8,
        pad_multiple: int = 1,
        pack: int | None = None,
        max_sequences: int | None = None,
        max_length: int | None = None,
        too_long: TooLong = "error",
        shuffle: bool = False,
        sampler: Sampler | None = None,
        samples_per_epoch: int | None = None,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        last_batch: LastBatch = "partial",
        balance: Balance | None = None,
        output: str = "numpy",
        device: Any = None,
        fields: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        dtype: str | None = None,
        prefetch: int = 3,
        batchify: Batchify | None = None,
        verify: bool = True,
        pin_memory: bool = False,
        cache: str | os.PathLike[str] | None = None,
        cache_size: str | int | None = None,
    ) -> None:
        self._ranks = find_ranks(rank, world_size)
        opened = open_source(resolve(dataset, cache, cache_size), "text")
        batching = BatchingConfig(
            batch_size=batch_size,
            max_tokens=max_tokens,
            batch_sampler=batch_sampler,
            buckets=as_buckets(buckets),
            pad_multiple=pad_multiple,
            pack=pack,
            max_sequences=max_sequences,
            max_length=max_length,
            too_long=too_long,
            shuffle=shuffle if sampler is None else True,
            samples_per_epoch=samples_per_epoch,
            seed=seed,
            last_batch=last_batch,
            balance=balance,
        )
        _refuse_copies(sampler)
        order = make_draws(opened, shuffle, sampler, batching.samples_per_epoch, batching.seed)
        framework = adapters.framework_of(output)
        reader = TokenReader(opened, fields, _dtype(dtype, framework.ids_dtype), verify=verify)
        planner = TextPlanner(batching, reader.lengths, order, self._ranks.world_size)
        made_by = batchify or default_batchify(planner, reader, columns)
        spec = probe(made_by, planner, reader)
        names = column_names(columns, spec, opened, batching, reader.fields)
        self._spec = spec
        self._config = TextLoaderConfig(opened, reader, planner, made_by, names, batch_type(names))
        self._history: tuple[int, History] = (0, ())
        self._steps = len(planner.plan(0))
        super().__init__(self._ranks, self._config.identity, planner.most_steps, prefetch)
        adapters.specialize_loader(self, output)
        self._cache_prefetcher = make_cache_prefetcher(opened)
        wanted = numbered_device(device_name(device), this_machine(), self._ranks.local_rank)
        placement = place_batches(
            wanted, made_on="cpu", pin_memory=pin_memory, copies_from_pinned=framework.pins_memory
        )
        self._adapter = adapters.load(framework, placement)

    def __repr__(self) -> str:
        ranks = self._ranks
        return (
            f"<TextLoader of {self.dataset!r}: {len(self)} batches of {len(self.shapes())} shapes, "
            f"rank {ranks.rank} of {ranks.world_size}>"
        )

    def __len__(self) -> int:
        """Batches of a whole epoch on this rank.

        Where epochs draw other samples they may have a few more or fewer; then it is of the epoch that is
        running, or comes next.
        """
        planner = self._config.planner
        return self._steps if planner.has_equal_epochs else len(planner.plan(self._state().epoch))

    @property
    def has_equal_epochs(self) -> bool:
        """Whether every epoch has as many batches as any other.

        So it is but where a sampler, a mixture or a stream draws other samples each epoch; there it is with
        ``batch_size``, without ``pack``, and with a ``last_batch`` of "drop" or "pad".
        """
        return self._config.planner.has_equal_epochs

    @property
    def dataset(self) -> SampleSource:
        """What is drawn from."""
        return self._config.dataset

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of a batch."""
        return self._config.columns

    @property
    def boundaries(self) -> npt.NDArray[np.int64] | None:
        """(K, D) int64, the padded lengths of each field; None where each batch has its own."""
        return self._config.planner.boundaries

    @property
    def pad_id(self) -> int:
        """Token id that padding is filled with. It may stand in texts as well: only masks tell padding."""
        return self._config.reader.pad_id

    def shapes(self) -> list[tuple[int, ...]]:
        """The distinct shapes of batches, ascending: (samples, padded length), a length for each field.

        Before the first batch, for compilers that want to see them all. With buckets or packing they are
        those of every epoch, and of what is left of an epoch that is resumed; without, of the next epoch.
        Where epochs draw other samples, "partial" leaves smaller batches that only the next epoch has; "drop"
        and "pad" leave none.
        """
        shapes = set(self._plan(self._next.epoch).shapes())
        return sorted(shapes.union(self._config.planner.lasting_shapes()))

    def element_spec(self) -> tuple[ColumnSpec, ...]:
        """Form of the columns of a batch, without the batch axis; None where lengths differ."""
        known = {"mask": ("bool", ()), "row": ("int64", ()), "key": ("str", ())}
        return tuple(
            ColumnSpec(name, *(self._spec.get(name) or known.get(name) or self._of_index(name)))
            for name in self._config.columns
        )

    def set_epoch(self, epoch: int) -> None:
        """The next pass runs this epoch, from its beginning."""
        super().set_epoch(epoch)
        self._history = (0, ())

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is, as a small JSON-able dict.

        It counts what the consumer has received, not what is ready.
        """
        state = super().state_dict()
        history = [list(part) for part in self._history_of(state["epoch"])]
        return {**state, "world_size": self._ranks.world_size, "history": history}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was taken: the next pass begins with exactly the next batch.

        On another number of ranks the pass holds exactly the samples that no rank has received.

        Raises:
            CheckpointError: The state belongs to another dataset or configuration; says what differs.
        """
        own = {"world_size", "history"}
        if not isinstance(state, Mapping) or not own <= state.keys():
            raise CheckpointError("this is no state of a TextLoader", hint="Pass what state_dict() returned.")
        super().load_state_dict({name: value for name, value in state.items() if name not in own})
        history = checked_history([*state["history"], [state["world_size"], self._next.position]])
        world_size, done = history[-1]
        if world_size == self._ranks.world_size:
            history = history[:-1]
        else:
            self._next = State(self._next.epoch, 0, self._identity)
            history = history if done else history[:-1]
        self._history = (self._next.epoch, history)

    def _of_index(self, name: str) -> tuple[str, tuple[int, ...]]:
        return self.dataset.values(name, ()).dtype.name, ()

    def _history_of(self, epoch: int) -> History:
        return self._history[1] if self._history[0] == epoch else ()

    def _plan(self, epoch: int) -> BatchPlan:
        """What is left of an epoch."""
        return self._config.planner.plan(epoch, self._history_of(epoch))

    def _schedule(self, epoch: int, start: int) -> TextSchedule:
        plan = self._plan(epoch)
        if start > len(plan):
            raise CheckpointError(
                f"the state is at step {start}, and what is left of its epoch has {len(plan)}"
            )
        return TextSchedule(plan, self._ranks.rank, start)

    def _make_producer(self, schedule: TextSchedule, epoch: int) -> TextBatchProducer:
        return TextBatchProducer(
            self._config,
            schedule,
            self._config.planner.epoch(epoch),
            adapter=self._adapter,
            totals=self._totals,
            cache_prefetcher=self._cache_prefetcher,
        )

    def _release(self) -> None:
        if self._cache_prefetcher:
            self._cache_prefetcher.close()
        self._config.reader.close()


def _refuse_copies(sampler: Sampler | None) -> None:
    if isinstance(sampler, Repeated):
        raise ConfigError(
            "Repeated keeps the draws of a sample in one batch, and batches of text are drawn by length",
            hint=f"Repeat the rows of each batch, in PyTorch ids.repeat_interleave({sampler.times}, 0).",
        )


def _dtype(dtype: str | None, default: str) -> str:
    if dtype not in (None, "int32", "int64"):
        raise ConfigError(f"dtype must be 'int32' or 'int64', found {dtype!r}")
    return dtype or default
