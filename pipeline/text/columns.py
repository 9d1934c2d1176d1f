"""The columns of a batch of text: which arrays are made of its sequences, and by which function."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np

from stoker.arguments import list_of_names
from stoker.bucketing import Dict, Flatten, Pack, Packed, Pad, Ragged
from stoker.bucketing.batchify.sequences import Output
from stoker.errors import ConfigError

from ..order.sample_source import batchable_columns
from .planning.epoch import TokenSlices

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from stoker.bucketing import Batchify
    from stoker.bucketing.batchify.sequences import Labels

    from ..order.sample_source import SampleSource
    from .planning.batching_config import BatchingConfig
    from .planning.planner import TextPlanner
    from .token_reader import TokenReader

__all__ = ["column_names", "default_batchify", "probe_batchify", "rows_of_segments", "run_batchify"]

_OUTPUTS = get_args(Output)
_PADDED: tuple[Output, ...] = ("input_ids", "attention_mask")
_PACKED: tuple[Output, ...] = ("input_ids", "segment_ids", "position_ids")


def default_batchify(
    planner: TextPlanner, reader: TokenReader, columns: Sequence[str] | None, labels: Labels
) -> Batchify:
    """The function that makes the arrays that ``columns`` names; None names the usual ones."""
    shared: dict[str, Any] = {"value": reader.pad_id, "labels": labels}
    if planner.batching.pack is not None:
        outputs = [name for name in _OUTPUTS if columns is None or name in columns]
        chosen = _PACKED if columns is None else outputs
        return Pack(outputs=chosen, max_sequences=planner.max_sequences, **shared)
    pads = {}
    for field, prefix in zip(reader.fields, _prefixes(reader.fields), strict=True):
        outputs = [name for name in _OUTPUTS if columns is not None and prefix + name in columns]
        pads[field] = Pad(outputs=_PADDED if columns is None else outputs, prefix=prefix, **shared)
    return Dict(cast("Mapping[str, Batchify]", pads)) if len(pads) > 1 else pads[reader.fields[0]]


def _prefixes(fields: Sequence[str]) -> list[str]:
    """Prefixes of the names of each field's arrays, as Python identifiers; empty for a single field."""
    return [""] if len(fields) == 1 else [re.sub(r"\W", "_", field) + "_" for field in fields]


def probe_batchify(
    batchify: Batchify, planner: TextPlanner, reader: TokenReader
) -> dict[str, tuple[str, tuple[int | None, ...]]]:
    """Dtype and shape without the batch axis of the arrays that ``batchify`` makes of one token a field."""
    count = len(reader.fields)
    edges = planner.boundaries
    widths = [1] * count if edges is None else edges[0].tolist()
    fixed = edges is not None and len(edges) == 1
    one = np.ones((1, count), np.int64)
    groups = None if planner.batching.pack is None else np.array([0, 1])
    slices = TokenSlices(one[:, 0], one[:, 0], one, groups)
    sequences = [Ragged(np.zeros(1, reader.dtype), np.array([0, 1]))] * count
    made = run_batchify(batchify, reader.fields, sequences, slices, (1, *widths))
    return {
        name: (
            np.asarray(value).dtype.name,
            tuple(size if fixed else None for size in np.shape(value)[1:]),
        )
        for name, value in made.items()
    }


def run_batchify(
    batchify: Batchify,
    fields: tuple[str, ...],
    sequences: list[Ragged],
    slices: TokenSlices,
    shape: tuple[int, ...],
) -> Mapping[str, Any]:
    """Arrays of a batch by name, made of its sequences.

    Args:
        batchify: Takes sequences and a padded length; for several fields a dict of each by field.
        fields: Names of the fields that were read.
        sequences: Token ids of each field.
        slices: Where packed rows begin among the sequences.
        shape: (n, length), or (n, length, length, ...) for several fields.

    Raises:
        ConfigError: ``batchify`` returned something else than a dict.
    """
    samples: Any = dict(zip(fields, sequences, strict=True))
    length: Any = dict(zip(fields, shape[1:], strict=True))
    if len(fields) == 1:
        samples, length = sequences[0], shape[1]
        if slices.groups is not None:
            samples = Packed(samples, slices.groups)
        elif isinstance(batchify, Flatten):
            length *= shape[0]  # tokens of the padded batch, so that each padded shape has one flat shape
    made = batchify(samples, length)
    if not isinstance(made, dict):
        raise ConfigError(
            f"batchify must make a dict of arrays, found {type(made).__name__}",
            hint="Wrap it: Dict({'tokens': Stack()}).",
        )
    return made


def rows_of_segments(slices: TokenSlices, most: int) -> npt.NDArray[np.int64]:
    """(B, most) int64: the sample of each segment of B packed rows, in their order; -1 after the last."""
    assert slices.groups is not None, "called only with packing"
    counts = np.diff(slices.groups)
    table = np.full((len(counts), most), -1, np.int64)
    table[np.arange(most) < counts[:, None]] = slices.positions
    return table


def column_names(
    columns: Sequence[str] | None,
    made: Mapping[str, Any],
    dataset: SampleSource,
    batching: BatchingConfig,
    fields: Sequence[str],
) -> tuple[str, ...]:
    """Names of the columns of a batch.

    Args:
        columns: Names that were asked for; None for all arrays that are made.
        made: Arrays that the batchify function makes, by name.
        dataset: Dataset or mixture, whose columns of numbers and strings may be named, too.
        batching: How sequences form batches.
        fields: Those that it reads.

    Raises:
        ConfigError: There is no such column.
    """
    names = tuple(made) if columns is None else list_of_names("columns", columns)
    if batching.last_batch == "pad" and "mask" not in names:
        names = (*names, "mask")
    known = {*made, "mask", "row"}
    if batching.pack is None:
        known |= batchable_columns(dataset)
    for name in names:
        if name not in known:
            outputs = {prefix + output for prefix in _prefixes(fields) for output in _OUTPUTS}
            raise ConfigError(
                f"columns: there is no {name!r} of the fields {', '.join(fields)}",
                path=dataset.path,
                hint=f"There are {', '.join(sorted(known | outputs))}; fields= says which fields are read.",
            )
    if not names:
        raise ConfigError("columns must name at least one column")
    return names
