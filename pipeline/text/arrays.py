"""The arrays of a batch of text, which a batchify function makes of its sequences."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import numpy.typing as npt

from stoker.arguments import some_of
from stoker.bucketing import (
    BatchContext,
    Batchify,
    Dict,
    Flatten,
    MaskTokens,
    Pack,
    Packed,
    Pad,
    Ragged,
    SpanCorruption,
)
from stoker.bucketing.batchify import Contextual, Labels, Output
from stoker.bucketing.layout import Padded
from stoker.bucketing.masking import WordParts
from stoker.errors import ConfigError
from stoker.formats.dataset.columns import batchable_columns
from stoker.formats.token_columns import trained_column
from stoker.formats.tokenization import ByteTokenizer, common_special_tokens, read_word_parts

from ..execution.pipeline import wanted_columns
from ..order.sampling import SampleSource
from .batching import BatchingConfig
from .planner import TextPlanner, TokenSlices
from .token_reader import TokenReader

if TYPE_CHECKING:
    from .context_slices import ContextSlices

Mask = MaskTokens | SpanCorruption
"""A mask of sequences, before they are padded or packed."""

_OUTPUTS = get_args(Output)
_PADDED: tuple[Output, ...] = ("input_ids", "attention_mask")
_PACKED: tuple[Output, ...] = ("input_ids", "segment_ids", "position_ids")
_SPANS = ("inputs", "targets")  # the fields that SpanCorruption makes of one
_PROBE_WIDTH = 8  # tokens of the batch that tells dtypes, if there are no boundaries


def fit_mask(
    mask: Any, dataset: SampleSource, fields: Sequence[str], batching: BatchingConfig
) -> Mask | None:
    """Return the mask, with values of the dataset's tokenizer for arguments that are None."""
    if mask is None:
        return None
    if isinstance(mask, MaskTokens):
        if not mask.needs_tokenizer:
            return mask
        if dataset.manifest.options.get("tokenizer_digest"):
            return mask.with_tokenizer(WordParts(*read_word_parts(dataset.datasets[0].tokenizer_file())))
        special = tuple(range(ByteTokenizer.pad_id, ByteTokenizer.vocab_size))
        return mask.with_tokenizer(WordParts(special, None))
    if not isinstance(mask, SpanCorruption):
        raise ConfigError(
            f"mask must be a MaskTokens or a SpanCorruption of stoker.bucketing, found {mask!r}",
            hint="For your own masks give batchify: a function with a parameter context.",
        )
    if len(fields) > 1:
        raise ConfigError(
            f"SpanCorruption makes inputs and targets of one field, found {', '.join(fields)}",
            hint=f"Choose one: fields=({fields[0]!r},).",
        )
    if batching.stream is not None or batching.too_long == "split":
        cuts = 'too_long="split"' if batching.stream is None else "stream"
        raise ConfigError(
            f"SpanCorruption takes whole sequences, which {cuts} cuts",
            hint="Pack whole documents, or split them at the conversion.",
        )
    if trained_column(fields[0]) in dataset.types:
        raise ConfigError(
            "SpanCorruption hides any tokens, and the dataset states which ones a model is trained on",
            path=dataset.path,
            hint="Convert the text without train_on.",
        )
    if mask.special_tokens is not None:
        return mask
    return replace(mask, special_tokens=common_special_tokens(dataset.datasets))


@dataclass(frozen=True)
class _FieldFunctions:
    """A batchify function of pairs: a field, and a function of it; a field may have several functions."""

    functions: tuple[tuple[str, Pad | Pack], ...]

    def __call__(self, samples: Mapping[str, Any], length: Any = None) -> dict[str, Any]:
        """Return the arrays of all functions."""
        arrays: dict[str, Any] = {}
        for field, function in self.functions:
            arrays.update(function(samples[field], length[field]))
        return arrays


def default_batchify(
    planner: TextPlanner,
    reader: TokenReader,
    columns: Sequence[str] | None,
    labels: Labels,
    mask: Mask | None,
) -> Batchify:
    """Return the function that makes the arrays that ``columns`` names; None names the usual ones."""
    if planner.batching.stream is not None:
        from .streams import StreamWindows

        return StreamWindows()
    shared: dict[str, Any] = {"value": reader.pad_id, "labels": labels}
    kind: type[Pad | Pack] = Pad
    usual: tuple[Output, ...] = _PADDED
    if planner.batching.pack is not None:
        kind, usual = Pack, _PACKED
        shared["max_sequences"] = planner.max_sequences
    if isinstance(mask, MaskTokens):
        usual = (*usual, "labels")
    functions = []
    for field, prefix in _made_fields(reader.fields, mask):
        outputs = [name for name in _OUTPUTS if columns is not None and prefix + name in columns]
        if isinstance(mask, SpanCorruption):
            if field == "targets":
                only: tuple[Output, ...] = ("labels",) if columns is None or "labels" in columns else ()
                functions.append((field, kind(outputs=only, **{**shared, "labels": "seq2seq"})))
                usual = ()
            outputs = [name for name in outputs if name != "labels"]
        chosen = usual if columns is None else outputs
        functions.append((field, kind(outputs=chosen, prefix=prefix, **shared)))
    return _FieldFunctions(tuple(functions)) if len(functions) > 1 else functions[0][1]


def _pads_of_fields(batchify: Batchify, fields: tuple[str, ...]) -> list[Pad] | None:
    """The function of each field if all are ``Pad`` with one value and take padded rows; None otherwise."""
    functions = batchify.functions if isinstance(batchify, _FieldFunctions) else ((fields[0], batchify),)
    pads = [function for _, function in functions if type(function) is Pad and function.takes_padded]
    same = tuple(field for field, _ in functions) == fields and len(pads) == len(functions)
    return pads if same and len({pad.value for pad in pads}) == 1 else None


def _made_fields(fields: Sequence[str], mask: Mask | None) -> list[tuple[str, str]]:
    """Names of the fields that become arrays, and the prefix of the arrays of each, a Python identifier."""
    if isinstance(mask, SpanCorruption):
        return [("inputs", ""), ("targets", "target_")]
    if len(fields) == 1:
        return [(fields[0], "")]
    return [(field, re.sub(r"\W", "_", field) + "_") for field in fields]


def array_names(fields: Sequence[str], mask: Mask | None) -> set[str]:
    """Names of all arrays that ``columns`` can name."""
    return {prefix + output for _, prefix in _made_fields(fields, mask) for output in _OUTPUTS}


class ArrayMaker:
    """Makes the arrays of batches."""

    def __init__(
        self, batchify: Batchify, fields: tuple[str, ...], mask: Mask | None, slices: ContextSlices | None
    ) -> None:
        self.slices = slices
        self._batchify = Contextual(batchify)
        self._flattens = isinstance(batchify, Flatten)
        self._is_named = isinstance(batchify, Dict)
        self._fields = fields
        self._mask = mask
        self._pads = _pads_of_fields(batchify, fields) if mask is None and slices is None else None
        self.fill = None if self._pads is None else int(self._pads[0].value)
        """Padding of the rows that the reader may make for :meth:`of_padded`; None if it may not."""

    def of_padded(self, rows: Sequence[Padded]) -> Mapping[str, Any]:
        """Return the arrays of a batch that was read as padded rows of each field."""
        assert self._pads is not None, "called only with fill"
        arrays: dict[str, Any] = {}
        for pad, padded in zip(self._pads, rows, strict=True):
            arrays.update(pad.of_padded(padded))
        return arrays

    def __call__(
        self,
        sequences: Sequence[Ragged],
        groups: npt.NDArray[np.int64] | None,
        shape: tuple[int, ...],
        context: BatchContext,
    ) -> Mapping[str, Any]:
        """Return the arrays of a batch by name."""
        # groups (rows + 1,) int64
        fields = self._fields
        if isinstance(self._mask, SpanCorruption):
            fields, sequences = _SPANS, self._mask(sequences[0], context)
        elif self._mask is not None:
            sequences = [self._mask(ids, context, field) for field, ids in enumerate(sequences)]
        each: list[Any] = list(sequences if groups is None else (Packed(ids, groups) for ids in sequences))
        samples: Any = dict(zip(fields, each, strict=True))
        length: Any = shape[1] if len(shape) == 2 else shape[1:]
        if len(shape) == 1 + len(fields) > 2:
            length = dict(zip(fields, shape[1:], strict=True))
        if len(fields) == 1:
            samples = samples if self._is_named else each[0]
            if groups is None and self._flattens:
                length *= shape[0]  # tokens of the padded batch, so that each padded shape has one flat shape
        arrays = self._batchify(samples, length, context)
        if not isinstance(arrays, dict):
            raise ConfigError(
                f"batchify must make a dict of arrays, found {type(arrays).__name__}",
                hint="Wrap it: Dict({'tokens': Stack()}).",
            )
        return arrays if self.slices is None else self.slices.cut(arrays, shape)


def probe_arrays(
    maker: ArrayMaker, planner: TextPlanner, reader: TokenReader
) -> dict[str, tuple[str, tuple[int | None, ...]]]:
    """Dtype, and shape without the batch axis, of the arrays that are made of one token per field."""
    edges = planner.boundaries
    width = _PROBE_WIDTH * (maker.slices.parts if maker.slices else 1)
    widths = [width] * planner.planned_fields if edges is None else edges[-1].tolist()
    fixed = edges is not None and len(edges) == 1
    zero = np.zeros(1, np.int64)
    context = BatchContext(0, 0, rows=zero, begins=zero, draws=zero, seed=planner.batching.seed)
    in_rows = planner.batching.pack is not None or planner.batching.stream is not None
    groups = np.array([0, 1]) if in_rows else None
    count = 1 if planner.batching.stream is None else widths[0] + 1
    sequences = [Ragged(np.zeros(count, reader.dtype), np.array([0, count]))] * len(reader.fields)
    arrays = maker(sequences, groups, (1, *widths), context)
    shapes = {name: tuple(size if fixed else None for size in np.shape(arrays[name])[1:]) for name in arrays}
    return {name: (np.asarray(value).dtype.name, shapes[name]) for name, value in arrays.items()}


def rows_of_segments(slices: TokenSlices, most: int) -> npt.NDArray[np.int64]:
    """(B, most) int64: the sample of each segment of B packed rows, and -1 after the last."""
    assert slices.groups is not None, "called only with packing"
    counts = np.diff(slices.groups)
    table = np.full((len(counts), most), -1, np.int64)
    table[np.arange(most) < counts[:, None]] = slices.positions
    return table


def rows_of_tokens(slices: TokenSlices) -> npt.NDArray[np.int64]:
    """(B, L) int64: the sample of each token of B rows of streams, which have L + 1 tokens."""
    assert slices.groups is not None, "called only for streams"
    each = np.repeat(slices.positions, slices.lengths[:, 0]).reshape(len(slices.groups) - 1, -1)
    return np.ascontiguousarray(each[:, :-1])


def document_begins(slices: TokenSlices) -> npt.NDArray[np.bool_]:
    """(B, L) bool: the first tokens of documents, and of streams, in B rows of streams."""
    assert slices.groups is not None, "called only for streams"
    lengths = slices.lengths[:, 0]
    begins = np.zeros(int(lengths.sum()), np.bool_)
    begins[(np.cumsum(lengths) - lengths)[slices.opens]] = True
    return np.ascontiguousarray(begins.reshape(len(slices.groups) - 1, -1)[:, :-1])


def column_names(
    columns: Sequence[str] | None,
    arrays: Mapping[str, Any],
    dataset: SampleSource,
    batching: BatchingConfig,
    *,
    fields: Sequence[str],
    possible: set[str],
) -> tuple[str, ...]:
    """Names of the columns of a batch."""
    names = wanted_columns(columns, tuple(arrays), batching.last_batch)
    known = {*arrays, "mask", "row"}
    if batching.stream is not None:
        known = {*arrays, "row", "begins"}
    elif batching.pack is None:
        known |= batchable_columns(dataset.types)
    for name in names:
        if name not in known:
            raise ConfigError(
                f"columns: there is no {name!r} of the fields {', '.join(fields)}",
                path=dataset.path,
                hint=f"There are {some_of(sorted(known | possible))}; fields= says which fields are read.",
            )
    return names
