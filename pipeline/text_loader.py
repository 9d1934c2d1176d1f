"""The loader of text."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from operator import index
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from stoker.errors import CheckpointError, ConfigError
from stoker.pipeline import adapters, devices
from stoker.pipeline.batch import ColumnSpec, batch_type
from stoker.pipeline.loader import Loader
from stoker.pipeline.ranks import find_ranks
from stoker.pipeline.staging import make_staging, resolve
from stoker.pipeline.state import State
from stoker.pipeline.text_columns import column_names, default_batchify, probe
from stoker.pipeline.text_plan import LastBatch, TextPlanner, TextRules, TextSchedule, TooLong
from stoker.pipeline.texts import TextRecipe, TextStage
from stoker.pipeline.tokens import TokenReader

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    import numpy.typing as npt

    from stoker.bucketing import Batchify, BatchPlan, BucketBoundaries
    from stoker.formats.dataset import Dataset

__all__ = ["TextLoader"]

_History = tuple[tuple[int, int], ...]


class TextLoader(Loader):
    """Feeds batches of token ids, put together by length, to a training loop, working ahead of it.

    Each pass over the loader is one epoch, the next pass the next one. At each step all ranks receive
    batches of one shape, and :meth:`shapes` lists all that there will be. A batch is a function of seed,
    epoch and step alone.

    Args:
        dataset: A dataset of text (see :func:`stoker.convert_text`), or the path of one; with ``cache``, its
            URL.
        batch_size: Samples a batch on this rank; packed rows with ``pack``.
        max_tokens: Tokens a batch on this rank, padding included, instead of ``batch_size``.
        buckets: Number of padded lengths, whose boundaries are then the best there are; or the
            boundaries, (K,) or (K, D) integers. None draws random batches and pads each to its longest,
            in any number of shapes. Without a meaning where rows are packed.
        pad_multiple: Padded lengths are multiples of this (8 or 16 for tensor cores).
        pack: Put several sequences into each row of this many tokens.
        max_length: Longer sequences are, as ``too_long`` says, refused or truncated.
        too_long: What becomes of a sequence longer than ``max_length``, ``pack`` or the last boundary:
            "error", "truncate", or, for packed rows, "split".
        shuffle: Whether batches are drawn anew each epoch, or come in the order of the dataset.
        seed: Decides what is drawn, 0 to 2**64 - 1.
        rank: This rank; by default found from torch.distributed, JAX, or the launcher's environment.
        world_size: Number of ranks, likewise.
        last_batch: What becomes of samples that fill no batch: "drop" leaves them out of this epoch,
            "pad" repeats some and adds a column ``mask``, (N,) bool, False where a sample is repeated,
            "partial" makes smaller batches; so that all ranks have one shape, it may repeat up to
            ``world_size - 1`` samples, which the column ``mask`` shows where it is asked for.
        output: "numpy", "torch", "tensorflow", "jax", "cupy" or "mxnet"; or "keras": arrays of its backend,
            and a loader that ``model.fit``, ``evaluate`` and ``predict`` take.
        device: Where batches are wanted, "cpu" or "cuda:N".
        fields: Which fields of a sample to take; by default all. Packing takes one.
        columns: What a batch holds: arrays that ``batchify`` makes; "row" (position in the index), "key"
            (name in the source), any column of numbers of the index, all for unpacked samples only;
            and "mask". By default "input_ids" and "attention_mask", of packed rows "input_ids",
            "segment_ids" and "position_ids"; with several fields each with the prefix ``<field>_``.
        dtype: Of token ids: "int32" or "int64"; by default int64 for torch, as its losses want, and
            int32 for others.
        prefetch: Batches that may be ready or under way ahead of the consumer, from 1.
        batchify: What makes arrays of sequences, see :mod:`stoker.bucketing`, for other arrays than
            ``columns`` can name: called with a ``Ragged`` (``Packed`` for packed rows; a dict of
            ``Ragged`` by field for several fields) and the padded length, it returns a dict of arrays.
        verify: Compare every payload with its checksum.
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
        dataset: Dataset | str | os.PathLike[str],
        *,
        batch_size: int | None = None,
        max_tokens: int | None = None,
        buckets: int | BucketBoundaries | npt.NDArray[np.int64] | Sequence[int] | None = 8,
        pad_multiple: int = 1,
        pack: int | None = None,
        max_length: int | None = None,
        too_long: TooLong = "error",
        shuffle: bool = False,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        last_batch: LastBatch = "partial",
        output: str = "numpy",
        device: str | None = None,
        fields: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        dtype: str | None = None,
        prefetch: int = 3,
        batchify: Batchify | None = None,
        verify: bool = True,
        cache: str | os.PathLike[str] | None = None,
        cache_size: str | int | None = None,
    ) -> None:
        self._ranks = find_ranks(rank, world_size)
        opened = _open(resolve(dataset, cache, cache_size))
        rules = TextRules(
            batch_size=batch_size,
            max_tokens=max_tokens,
            buckets=np.asarray(buckets) if isinstance(buckets, (list, tuple)) else buckets,  # type: ignore[arg-type]  # no sequence is left
            pad_multiple=pad_multiple,
            pack=pack,
            max_length=max_length,
            too_long=too_long,
            shuffle=shuffle,
            seed=index(seed),  # NumPy's integers too: a checkpoint knows one kind
            last_batch=last_batch,
        )
        framework = adapters.framework(output)
        reader = TokenReader(opened, fields, _dtype(dtype, framework), verify=verify)
        planner = TextPlanner(rules, reader.lengths, self._ranks.world_size)
        made_by = batchify or default_batchify(planner, reader, columns)
        spec = probe(made_by, planner, reader)
        names = column_names(columns, spec, opened, rules)
        self._spec = spec
        self._recipe = TextRecipe(opened, reader, planner, made_by, names, batch_type(names))
        self._history: tuple[int, _History] = (0, ())
        self._plans: OrderedDict[tuple[int, _History], BatchPlan] = OrderedDict()
        self._planning = threading.Lock()  # the prefetcher plans the next epoch
        self._steps = len(self._plan(0))
        super().__init__(_identity(self._recipe), planner.num_drawn, prefetch, output)
        self._staging = make_staging(opened)
        devices.choose("auto", device, self._ranks.local_rank)  # refuses a device that is not there
        self._adapter = adapters.load(framework, device and devices.place(device, self._ranks.local_rank))

    def __repr__(self) -> str:
        ranks = self._ranks
        return (
            f"<TextLoader of {self.dataset!r}: {len(self)} batches of {len(self.shapes())} shapes, "
            f"rank {ranks.rank} of {ranks.world_size}>"
        )

    def __len__(self) -> int:
        """Batches of a whole epoch on this rank."""
        return self._steps

    @property
    def dataset(self) -> Dataset:
        """What is drawn from."""
        return self._recipe.dataset

    @property
    def boundaries(self) -> npt.NDArray[np.int64] | None:
        """(K, D) int64, the padded lengths of each field; None where each batch has its own."""
        return self._recipe.planner.boundaries

    @property
    def pad_id(self) -> int:
        """Token id that padding is filled with. It may stand in texts as well: only masks tell padding."""
        return self._recipe.reader.pad_id

    def shapes(self) -> list[tuple[int, ...]]:
        """The distinct shapes of batches, ascending: (samples, padded length), a length for each field.

        Before the first batch, for compilers that want to see them all. With buckets or packing they are
        those of every epoch, and of what is left of an epoch that is resumed; without, of the next epoch.
        """
        shapes = set(self._plan(self._next.epoch).shapes())
        if self.boundaries is not None:
            shapes |= set(self._recipe.planner.sampler.plan(0).shapes())
        return sorted(shapes)

    def element_spec(self) -> tuple[ColumnSpec, ...]:
        """Form of the columns of a batch, without the batch axis; None where lengths differ."""
        known = {"mask": ("bool", ()), "row": ("int64", ()), "key": ("str", ())}
        return tuple(
            ColumnSpec(name, *(self._spec.get(name) or known.get(name) or self._of_index(name)))
            for name in self._recipe.columns
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
        history = _checked_history([*state["history"], [state["world_size"], self._next.position]])
        world_size, done = history[-1]
        if world_size == self._ranks.world_size:
            history = history[:-1]
        else:
            self._next = State(self._next.epoch, 0, self._identity)
            history = history if done else history[:-1]
        self._history = (self._next.epoch, history)

    def _of_index(self, name: str) -> tuple[str, tuple[int, ...]]:
        return self.dataset.column(name).dtype.name, ()

    def _history_of(self, epoch: int) -> _History:
        return self._history[1] if self._history[0] == epoch else ()

    def _plan(self, epoch: int) -> BatchPlan:
        """Batches of an epoch; the last ones asked for are kept: of the running epoch and the next."""
        key = (epoch, self._history_of(epoch))
        with self._planning:
            if key not in self._plans:
                self._plans[key] = self._recipe.planner.sampler.plan(*key)
                if len(self._plans) > 2:
                    self._plans.popitem(last=False)
            return self._plans[key]

    def _schedule(self, epoch: int, start: int) -> TextSchedule:
        return TextSchedule(self._plan(epoch), self._ranks.rank, start)

    def _stage(self, schedule: TextSchedule, epoch: int) -> TextStage:
        packing = self._recipe.planner.packing(epoch)
        return TextStage(
            self._recipe,
            schedule,
            packing,
            adapter=self._adapter,
            clock=self._clock,
            staging=self._staging,
        )

    def _release(self) -> None:
        if self._staging:
            self._staging.close()
        self._recipe.reader.close()


def _open(dataset: Dataset | str | os.PathLike[str]) -> Dataset:
    from stoker.formats import dataset as datasets

    opened = dataset if isinstance(dataset, datasets.Dataset) else datasets.open(dataset)
    if opened.manifest.kind != "text":
        raise ConfigError(
            f"TextLoader reads text, and this dataset holds {opened.manifest.kind}s", path=opened.path
        )
    if not len(opened):
        raise ConfigError("the dataset has no samples", path=opened.path)
    return opened


def _dtype(dtype: str | None, output: str) -> str:
    if dtype not in (None, "int32", "int64"):
        raise ConfigError(f"dtype must be 'int32' or 'int64', found {dtype!r}")
    return dtype or ("int64" if output == "torch" else "int32")


def _identity(recipe: TextRecipe) -> dict[str, Any]:
    """What decides the batches, as JSON leaves it."""
    rules = recipe.planner.rules
    edges = recipe.planner.boundaries
    identity = {
        "dataset": recipe.dataset.fingerprint,
        "fields": recipe.reader.fields,
        "boundaries": None if edges is None else edges.tolist(),
        **{name: value for name, value in vars(rules).items() if name != "buckets"},
    }
    return cast("dict[str, Any]", json.loads(json.dumps(identity)))


def _checked_history(parts: Sequence[Any]) -> _History:
    """(world size, steps done) of each part of an epoch."""
    history = tuple(tuple(part) for part in parts)
    for part in history:
        if len(part) != 2 or any(type(number) is not int or number < 0 for number in part) or part[0] < 1:
            raise CheckpointError(f"a part of an epoch is (ranks, steps), found {part!r}")
    return cast("_History", history)
