"""The config of a text loader: its arguments, checked, and the parts that they decide."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from stoker.bucketing import Batchify, PreferencePairs
from stoker.bucketing.batchify import Labels
from stoker.errors import ConfigError
from stoker.formats.tokenization import common_special_tokens
from stoker.processes import cached_property

from ..execution.pipeline import ColumnSpec, batch_type
from ..options import Ranks
from ..order.sampling import Repeated, Sampler, SampleSource, make_loader_order, value_dtype
from .arrays import ArrayMaker, Mask, array_names, column_names, default_batchify, fit_mask, probe_arrays
from .batching import BatchingConfig
from .planner import TextPlanner
from .token_reader import TokenReader

_TRAINED = ("labels", "loss_weights")
_RECORDED = {"pad_to_multiple_of": "pad_multiple"}  # the names of arguments in states


@dataclass(frozen=True)
class TextLoaderConfig:
    """The parts of a text loader, the same in every epoch."""

    dataset: SampleSource  # The dataset or mixture whose samples are drawn
    reader: TokenReader  # Reads token ids; the loader closes it
    planner: TextPlanner  # Decides which sequences form a batch
    maker: ArrayMaker  # Makes arrays of sequences
    mask: Mask | None  # Hides tokens; None hides none
    pairs: PreferencePairs | None  # Joins the sequences of preference pairs; None for other text
    # Dtype, and shape without the batch axis, of each array that ``maker`` makes
    arrays: Mapping[str, tuple[str, tuple[int | None, ...]]]
    columns: tuple[str, ...]  # Names of a batch's columns, in their order
    batch_type: Callable[..., Any]  # Makes a batch of the values of its columns, in their order

    @cached_property
    def rows(self) -> npt.NDArray[np.int64]:
        """(N,) int64, the row in the index of every sample."""
        return self.dataset.rows

    @property
    def reads_padded(self) -> bool:
        """Whether sequences can be read as padded rows, which ``maker`` turns into arrays."""
        return self.maker.fill is not None and not self.segments

    @property
    def segments(self) -> int:
        """Largest number of sequences in a packed row; 0 without packing."""
        return 0 if self.planner.batching.pack is None else self.planner.max_sequences

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that decides the batches, as JSON data for states."""
        planner = self.planner
        edges, options = planner.boundaries, vars(planner.batching)
        batching = {_RECORDED.get(name, name): value for name, value in options.items()}
        del batching["buckets"]
        for name, usual in (("stream", None), ("keep_end", True)):
            if batching[name] == usual:  # states of earlier releases do not have it
                del batching[name]
        identity = {
            "dataset": self.dataset.fingerprint,
            "fields": self.reader.fields,
            "order": None if planner.takes_all else repr(planner.order),
            "boundaries": None if edges is None else edges.tolist(),
            **batching,
            "batch_sampler": planner.batching.batch_sampler and planner.epoch(0).sampler.fingerprint,
        }
        if planner.splits:
            identity["method"] = "k-d split"
        if self.mask is not None:
            identity["mask"] = self.mask.fingerprint
        if self.pairs is not None:
            identity["pairs"] = repr(replace(self.pairs, outputs=None, ignore_index=-100))
            if any(self.pairs.special_tokens or ()):  # states of earlier releases do not have it
                identity["special_tokens"] = self.pairs.special_tokens
        return cast("dict[str, Any]", json.loads(json.dumps(identity)))

    def spec(self, name: str) -> ColumnSpec:
        """Dtype and shape of a column, without the batch axis; None for lengths that differ."""
        row: tuple[int | None, ...] = (self.segments,) if self.segments else ()
        if self.planner.batching.stream is not None:
            row = (None,)
        known = {"mask": ("bool", ()), "begins": ("bool", row), "row": ("int64", row), **self.arrays}
        return ColumnSpec(name, *(known.get(name) or (value_dtype(self.dataset, name), ())))


def make_config(
    dataset: SampleSource,
    batching: BatchingConfig,
    *,
    shuffle: bool,
    sampler: Sampler | None,
    fields: Sequence[str] | None,
    columns: Sequence[str] | None,
    dtype: str,
    batchify: Batchify | None,
    labels: Labels | Mask,
    ranks: Ranks,
    world_size: int,
    verify: bool,
) -> TextLoaderConfig:
    """Check the arguments of a text loader against its dataset; see :class:`stoker.TextLoader`."""
    if isinstance(sampler, Repeated):
        raise ConfigError(
            "Repeated keeps the draws of a sample in one batch, and batches of text are drawn by length",
            hint=f"Repeat the rows of each batch, in PyTorch ids.repeat_interleave({sampler.times}, 0).",
        )
    mask: Mask | None = None if isinstance(labels, str) else labels
    kind: Labels = labels if isinstance(labels, str) else "causal"
    order = make_loader_order(dataset, shuffle, sampler, batching.samples_per_epoch, batching.seed)
    if isinstance(batchify, PreferencePairs):
        if fields is not None and tuple(fields) != tuple(batchify.fields):
            raise ConfigError(
                f"PreferencePairs takes the fields {', '.join(batchify.fields)}, found {', '.join(fields)}",
                path=dataset.path,
                hint="Leave out fields, or give PreferencePairs(fields=...).",
            )
        fields = batchify.fields  # in the order of their planned lengths
    too_long = batching.too_long if batching.stream is None else "split"
    reader = TokenReader(dataset, fields, dtype, too_long, verify=verify, keep_end=batching.keep_end)
    fitted = fit_mask(mask, dataset, reader.fields, batching)
    pairs = None
    if isinstance(batchify, PreferencePairs):
        pairs = replace(batchify, value=reader.pad_id) if batchify.value is None else batchify
        if pairs.special_tokens is None:
            pairs = replace(pairs, special_tokens=common_special_tokens(dataset.datasets))
        batchify = pairs
    if batching.stream is None:
        planned_lengths = getattr(pairs or fitted, "planned_lengths", None)
        labelled = batchify is not None or any(name.endswith(_TRAINED) for name in columns or ())
        planner = TextPlanner(
            batching,
            reader.lengths,
            order,
            world_size,
            special_tokens=reader.special_tokens,
            planned_lengths=planned_lengths and partial(planned_lengths, packs=batching.pack is not None),
            keeps=reader.trained_within if labelled and fitted is None else None,
        )
        _report_untrained(planner.keeps, dataset)
    else:
        from .streams import StreamPlanner

        planner = StreamPlanner(batching, reader.lengths, order, world_size)
    if batchify is not None and kind != "causal":
        raise ConfigError(
            "labels has no effect beside batchify", hint="Give it to the batchify function: Pad(labels=...)."
        )
    chosen = batchify or default_batchify(planner, reader, columns, kind, fitted)
    slices = None
    if ranks.context is not None:
        from .context_slices import arrays_to_shift, check_labels, check_lengths, make_slices

        shifted = arrays_to_shift(chosen) if fitted is None else {}  # labels of hidden tokens are at these
        slices = make_slices(ranks.context, ranks.context_slices, shifted)
        check_lengths(slices, planner.planned_fields, planner.boundaries, batching.pad_to_multiple_of)
    maker = ArrayMaker(chosen, reader.fields, fitted, slices)
    arrays = probe_arrays(maker, planner, reader)
    if slices is not None and batchify is not None:
        check_labels(batchify, arrays)
    is_own = batchify is not None or batching.stream is not None
    possible = set() if is_own else array_names(reader.fields, fitted)
    names = column_names(columns, arrays, dataset, batching, fields=reader.fields, possible=possible)
    return TextLoaderConfig(
        dataset=dataset,
        reader=reader,
        planner=planner,
        maker=maker,
        mask=fitted,
        pairs=pairs,
        arrays=arrays,
        columns=names,
        batch_type=batch_type(names),
    )


def _report_untrained(keeps: npt.NDArray[np.bool_] | None, dataset: SampleSource) -> None:
    if keeps is None:
        return
    what = "whose trained tokens are all cut off"
    if not keeps.any():
        raise ConfigError(
            f"the dataset has only samples {what}", path=dataset.path, hint="Give a larger max_length."
        )
    from ..execution.passes import EVENTS

    left_out = f"{(~keeps).sum():,} of {len(keeps):,} samples"
    EVENTS.warning("untrained", f"{left_out} of {dataset.path} are left out, {what}: max_length is too small")


def ids_dtype(dtype: str | None, default: str) -> str:
    """Return a loader's argument ``dtype``, or ``default`` for None; raise ConfigError for other dtypes."""
    if dtype not in (None, "int32", "int64"):
        raise ConfigError(f"dtype must be 'int32' or 'int64', found {dtype!r}")
    return dtype or default
