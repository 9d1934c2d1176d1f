"""Batchify functions, which turn the samples of a batch into arrays; named as in GluonNLP.

A batchify function takes the samples of a batch, and the padded length where a plan has fixed it. Those of
several fields compose:

    Dict({"tokens": Pad(outputs=("input_ids", "attention_mask", "labels")), "topic": Stack()})(samples)

A list is a list of samples. A tuple given to ``Tuple``, or a dict given to ``Dict``, is columns.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt

from stoker.arguments import NamedArguments, one_of, optional_number, whole_number
from stoker.errors import ConfigError
from stoker.random import hash_words

from .layout import Layout, Packed, Padded, Ragged, Side, as_packed, as_ragged

Output = Literal[
    "input_ids",
    "attention_mask",
    "lengths",
    "position_ids",
    "segment_ids",
    "labels",
    "loss_weights",
    "cu_seqlens",
    "max_seqlen",
    "cu_seq_lens_q",
    "cu_seq_lens_k",
    "max_length_q",
    "max_length_k",
]
"""Names of the arrays that Pad, Flatten and Pack make. The last four are cu_seqlens and max_seqlen by their
names in models of Hugging Face (FlashAttentionKwargs of transformers)."""

LossWeights = Literal["tokens", "sequences"]

Labels = Literal["causal", "seq2seq"]
"""What "labels" are for. "causal" models predict each token from those before it in the same row, so that the
first token of a sequence has no label. "seq2seq" are the targets of encoder-decoders, which predict all."""

_OF_PADDED = {"input_ids", "attention_mask", "lengths", "position_ids", "labels"}


@dataclass(frozen=True, eq=False)
class BatchContext:
    """The epoch, the step and the samples of a batch of P sequences.

    Attributes:
        epoch: Number of the epoch.
        step: Number of the step in the epoch, the same on all ranks. It counts on after a resume.
        rows: (P,) int64, the number of each sequence's sample, as the column ``row`` has it.
        begins: (P,) int64, the first token of each sequence in its sample; above 0 only if it was split.
        draws: (P,) int64, the number of the draw in the epoch. A sample that is drawn twice has two.
        seed: Seed of the loader.
    """

    epoch: int
    step: int
    rows: npt.NDArray[np.int64]
    begins: npt.NDArray[np.int64]
    draws: npt.NDArray[np.int64]
    seed: int

    def random_words(self, stream: int) -> npt.NDArray[np.uint64]:
        """(P,) uint64 random words, a function of the seed, the epoch and each sequence.

        They do not depend on the step, the rank, or the other sequences of the batch.

        Args:
            stream: Any integer; another one gives independent words.
        """
        return hash_words((self.seed, self.epoch, stream), self.rows, self.begins, self.draws)


class Contextual:
    """A batchify function that is called with a context only if ``function`` has such a parameter."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        try:
            self._takes_context = "context" in inspect.signature(function).parameters
        except (TypeError, ValueError):  # a compiled function without a signature
            self._takes_context = False

    def __call__(self, samples: Any, length: Any, context: BatchContext | None) -> Any:
        """Return what the function makes of the samples of a batch."""
        if self._takes_context:
            return self._function(samples, length, context=context)
        return self._function(samples, length)


class Batchify(Protocol):
    """A function that turns the samples of a batch into arrays.

    If it has a parameter ``context``, :class:`stoker.TextLoader` gives it the batch's
    :class:`~stoker.bucketing.BatchContext`: epoch, step and rows.
    """

    def __call__(self, samples: Any, length: Any = None) -> Any:
        """Return the arrays of one batch; sequences are padded to ``length``, where it is given."""


@dataclass(frozen=True)
class Stack(NamedArguments):
    """Stacks samples of one shape into an array with a new first axis.

    Attributes:
        dtype: Type of the array; None keeps the samples' type.
    """

    equivalents: ClassVar[str] = "bucketing"

    dtype: npt.DTypeLike | None = None

    def __call__(self, samples: Sequence[npt.ArrayLike], length: int | None = None) -> npt.NDArray[Any]:
        """Return (N, ...) for N samples of shape (...); an array of that shape stays as it is."""
        return np.asarray(samples, dtype=self.dtype)


@dataclass(frozen=True)
class List:
    """Keeps samples as they are, in a list."""

    def __call__(self, samples: Sequence[Any], length: int | None = None) -> list[Any]:
        """Return a list of the same objects."""
        return list(samples)


class Tuple:
    """Applies one function to each field of samples that are tuples.

    Args:
        functions: One for each field, in their order.
    """

    def __init__(self, *functions: Batchify) -> None:
        self._functions = [Contextual(function) for function in functions]

    def __call__(
        self,
        samples: Sequence[Sequence[Any]] | tuple[Any, ...],
        length: int | Sequence[int | None] | None = None,
        context: BatchContext | None = None,
    ) -> tuple[Any, ...]:
        """Return a tuple with one result for each field."""
        columns = samples if isinstance(samples, tuple) else tuple(map(list, zip(*samples, strict=True)))
        lengths = (length,) * len(columns) if length is None or isinstance(length, int) else tuple(length)
        if not len(columns) == len(self._functions) == len(lengths):
            raise ConfigError(
                f"{len(self._functions)} functions, {len(columns)} fields and {len(lengths)} lengths",
                hint="Give one function, and one length if any, for each field of a sample.",
            )
        return tuple(
            function(column, each, context)
            for function, column, each in zip(self._functions, columns, lengths, strict=True)
        )


class Dict:
    """Applies one function to each field of samples that are dicts.

    A result that is itself a dict, such as the result of Pad, is merged into the batch. ``prefix`` of Pad,
    Flatten and Pack keeps the names of two fields apart.

    Args:
        functions: A function by the name of its field; fields without a function are left out.
    """

    def __init__(self, functions: Mapping[str, Batchify]) -> None:
        self._functions = {name: Contextual(function) for name, function in functions.items()}

    def __call__(
        self,
        samples: Sequence[Mapping[str, Any]] | Mapping[str, Any],
        length: int | Mapping[str, int] | None = None,
        context: BatchContext | None = None,
    ) -> dict[str, Any]:
        """Return a dict of arrays."""
        merged: dict[str, Any] = {}
        for name, function in self._functions.items():
            if isinstance(samples, Mapping) and name not in samples:
                raise ConfigError(f"Dict must name fields of {', '.join(samples)}, found {name!r}")
            column = samples[name] if isinstance(samples, Mapping) else [sample[name] for sample in samples]
            each = length.get(name) if isinstance(length, Mapping) else length
            result = function(column, each, context)
            parts = result if isinstance(result, dict) else {name: result}
            twice = merged.keys() & parts.keys()
            if twice:
                raise ConfigError(
                    f"two fields give arrays of one name: {sorted(twice)}", hint="Give one field a prefix."
                )
            merged.update(parts)
        return merged


@dataclass(frozen=True, kw_only=True)
class _Tokens(NamedArguments):
    """The options that Pad, Flatten and Pack share.

    Attributes:
        outputs: Names of the arrays to make, of :data:`Output`.
        prefix: Text before the names of the arrays.
        value: Token id of padding. It is only written: a token with this id is still a token.
        dtype: Type of the token ids; None keeps the samples' type.
        pad_to_multiple_of: A length that is not given is rounded up to a multiple of this.
        position_start: First position id of each sequence (2 for RoBERTa).
        ignore_index: Label where nothing is predicted.
        loss_weights: With "tokens" the weight of each label is 1, with "sequences" the weights of a
            sequence add up to 1.
        labels: See :data:`Labels`; ``loss_weights`` follow.
    """

    equivalents: ClassVar[str] = "bucketing"

    outputs: Sequence[Output] = ("input_ids", "attention_mask")
    prefix: str = ""
    value: float = 0
    dtype: npt.DTypeLike | None = None
    pad_to_multiple_of: int = 1
    position_start: int = 0
    ignore_index: int = -100
    loss_weights: LossWeights = "tokens"
    labels: Labels = "causal"

    def __post_init__(self) -> None:
        for name in self.outputs:
            one_of("outputs", name, get_args(Output))
        one_of("loss_weights", self.loss_weights, get_args(LossWeights))
        one_of("labels", self.labels, get_args(Labels))
        whole_number("pad_to_multiple_of", self.pad_to_multiple_of, 1)

    def _width(self, longest: int, length: int | None) -> int:
        if length is not None:
            return length
        return max(-(-longest // self.pad_to_multiple_of), 1) * self.pad_to_multiple_of

    def arrays(
        self, layout: Layout, outputs: Sequence[str], max_sequences: int | None = None
    ) -> dict[str, Any]:
        causal = self.labels == "causal"
        make: dict[str, Callable[[], Any]] = {
            "input_ids": lambda: layout.tokens(self.value, self.dtype),
            "attention_mask": lambda: layout.mask,
            "completion_mask": layout.trained,
            "lengths": lambda: layout.filled.astype(np.int32),
            "position_ids": lambda: layout.position_ids(self.position_start),
            "segment_ids": layout.segment_ids,
            "labels": lambda: layout.labels(self.ignore_index, self.dtype, causal=causal),
            "loss_weights": lambda: layout.loss_weights(
                by_sequence=self.loss_weights == "sequences", causal=causal
            ),
            "cu_seqlens": lambda: layout.cu_seqlens(max_sequences),
            "max_seqlen": lambda: layout.max_seqlen(max_sequences),
        }
        for side in "qk":
            make[f"cu_seq_lens_{side}"] = make["cu_seqlens"]
            make[f"max_length_{side}"] = make["max_seqlen"]
        return {self.prefix + name: make[name]() for name in outputs}


@dataclass(frozen=True)
class Pad(_Tokens):
    """Pads sequences to rows of one length; or arrays of any rank along one axis, as in GluonNLP.

    Attributes:
        side: Side of the row that is padded.
        axis: Axis of the samples that is padded at its end, such as 0 of speech features (frames, channels).
            The result is then one array, (N, ...), of the samples' dtype or ``dtype``, filled with ``value``;
            ``outputs`` and what belongs to tokens have no effect. None pads sequences of tokens.
        ret_length: With an axis: whether the result is the array and the lengths, (N,) int32.
        round_to: The name of ``pad_to_multiple_of`` in GluonNLP.
    """

    side: Side = field(default="right", kw_only=True)
    axis: int | None = field(default=None, kw_only=True)
    ret_length: bool = field(default=False, kw_only=True)
    round_to: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.round_to is not None:
            if self.pad_to_multiple_of not in (1, self.round_to):
                raise ConfigError(
                    f"round_to and pad_to_multiple_of are two names of one option, found {self.round_to} and "
                    f"{self.pad_to_multiple_of}",
                    hint="Give one of them.",
                )
            object.__setattr__(self, "pad_to_multiple_of", self.round_to)
        if self.ret_length and self.axis is None:
            raise ConfigError(
                "ret_length needs an axis", hint='For tokens give outputs=("input_ids", "lengths").'
            )
        super().__post_init__()
        one_of("side", self.side, get_args(Side))

    def __call__(self, samples: Ragged | Sequence[npt.ArrayLike], length: int | None = None) -> Any:
        """Return arrays by name: (N, length), but lengths are (N,) int32; attention_mask is bool."""
        # With an axis return one array, and with ``ret_length`` a tuple of it and the lengths.
        if self.axis is not None:
            padded, lengths = self._pad_arrays([samples[i] for i in range(len(samples))], self.axis, length)
            return (padded, lengths) if self.ret_length else padded
        ragged = as_ragged(samples)
        packed = Packed(ragged, np.arange(len(ragged) + 1))
        layout = Layout(packed, self._width(int(ragged.lengths.max()), length), self.side)
        return self.arrays(layout, self.outputs)

    def _pad_arrays(
        self, samples: Sequence[npt.ArrayLike], axis: int, length: int | None
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
        """Return the samples in one array, padded at the end of an axis; and their lengths there, (N,)."""
        arrays = [np.asarray(sample) for sample in samples]
        if not arrays:
            raise ConfigError("a batch needs at least one sample")
        first = arrays[0].shape
        whole_number("axis", axis, -len(first), len(first) - 1)
        axis %= len(first)
        shapes = [array.shape[:axis] + array.shape[axis + 1 :] for array in arrays]
        for array, shape in zip(arrays, shapes, strict=True):
            if array.ndim != len(first) or shape != shapes[0]:
                raise ConfigError(
                    f"samples may differ along axis {axis} alone, found the shapes {first} and {array.shape}"
                )
        lengths = np.array([array.shape[axis] for array in arrays], np.int32)
        longest = int(lengths.max())
        width = -(-longest // self.pad_to_multiple_of) * self.pad_to_multiple_of if length is None else length
        if longest > width:
            raise ConfigError(
                f"sample {int(lengths.argmax())} has length {longest} along axis {axis}, more than the "
                f"{width} it is padded to"
            )
        shape = (len(arrays), *first[:axis], width, *first[axis + 1 :])
        padded = np.full(shape, self.value, self.dtype or np.result_type(*arrays))
        for target, array in zip(padded, arrays, strict=True):
            np.moveaxis(target, axis, 0)[: array.shape[axis]] = np.moveaxis(array, axis, 0)
        return padded, lengths

    @property
    def takes_padded(self) -> bool:
        """Whether :meth:`of_padded` makes all outputs."""
        plain = self.axis is None and self.side == "right" and self.dtype is None
        return plain and set(self.outputs) <= _OF_PADDED

    def of_padded(self, padded: Padded) -> dict[str, Any]:
        """Return what a call returns for sequences in rows padded with ``value``, without moving tokens."""
        rows, lengths, trained = padded
        position_ids = np.arange(self.position_start, self.position_start + rows.shape[1], dtype=np.int32)
        mask = np.less(np.arange(rows.shape[1]), lengths[:, None])
        make: dict[Output, Callable[[], Any]] = {
            "input_ids": lambda: rows,
            "attention_mask": lambda: mask,
            "lengths": lambda: lengths.astype(np.int32),
            "position_ids": lambda: mask * position_ids,
            "labels": lambda: self._labels(rows, mask, trained),
        }
        return {self.prefix + name: make[name]() for name in self.outputs}

    def _labels(
        self, rows: npt.NDArray[Any], mask: npt.NDArray[np.bool_], trained: npt.NDArray[np.bool_] | None
    ) -> npt.NDArray[Any]:
        if trained is not None:
            chosen = np.zeros_like(mask)
            chosen[mask] = trained
            mask = chosen
        labels = np.where(mask, rows, rows.dtype.type(self.ignore_index))
        if self.labels == "causal":
            labels[:, 0] = self.ignore_index
        return labels


@dataclass(frozen=True)
class Flatten(_Tokens):
    """Puts sequences end to end, for variable-length attention.

    Attributes:
        max_sequences: With this limit, ``cu_seqlens`` has the fixed shape (max_sequences + 2,) and
            ``max_seqlen`` is the padded length. If ``length`` is given too, all shapes are static.
    """

    outputs: Sequence[Output] = ("input_ids", "cu_seqlens", "max_seqlen", "position_ids")
    max_sequences: int | None = field(default=None, kw_only=True)

    def __call__(
        self, samples: Ragged | Sequence[npt.ArrayLike], length: int | None = None
    ) -> dict[str, Any]:
        """Return arrays by name: (T,), but see :meth:`Layout.cu_seqlens`; max_seqlen is an int."""
        ragged = as_ragged(samples)
        packed = Packed(ragged, np.array([0, len(ragged)]))
        layout = Layout(packed, self._width(len(ragged.values), length))
        arrays = self.arrays(layout, self.outputs, self.max_sequences)
        return {
            name: array[0] if isinstance(array, np.ndarray) and array.ndim == 2 else array
            for name, array in arrays.items()
        }


@dataclass(frozen=True)
class Pack(_Tokens):
    """Packs several sequences into each row of one capacity.

    Attention stays within a sequence if a model compares ``segment_ids``, or takes ``cu_seqlens`` of the
    flattened rows.

    Attributes:
        max_sequences: As in :class:`Flatten`, for each row: cu_seqlens is (B * (max_sequences + 1) + 1,).
    """

    outputs: Sequence[Output] = ("input_ids", "segment_ids", "position_ids")
    max_sequences: int | None = field(default=None, kw_only=True)

    def __call__(
        self, samples: Packed | Sequence[Sequence[npt.ArrayLike]], length: int | None = None
    ) -> dict[str, Any]:
        """Return arrays by name: (B, length), but lengths are (B,); see Flatten for the other two."""
        packed = as_packed(samples)
        tokens = np.diff(packed.sequences.offsets[packed.groups])
        layout = Layout(packed, self._width(int(tokens.max()), length))
        return self.arrays(layout, self.outputs, self.max_sequences)


PairOutput = Literal[
    "input_ids", "attention_mask", "completion_mask", "labels", "position_ids", "segment_ids"
]
"""Names of the arrays of preference pairs."""

Truncation = Literal["keep_start", "keep_end"]

_PADDED: tuple[PairOutput, ...] = ("input_ids", "attention_mask", "completion_mask")
_PACKED: tuple[PairOutput, ...] = ("input_ids", "segment_ids", "position_ids", "completion_mask")


@dataclass(frozen=True, kw_only=True)
class PreferencePairs:
    """Joins each prompt with both of its answers, as trl's ``DPOTrainer`` takes them (version 1).

    The first N rows of an array are the prompts with the chosen answers, and the second N the same prompts
    with the rejected ones. In packed rows, row b and row B + b hold the same pairs in the same order.

    Attributes:
        fields: Names of the prompt, the chosen and the rejected answer.
        outputs: Names of the arrays, of :data:`PairOutput`. None makes those that trl takes, or for packed
            rows "input_ids", "segment_ids", "position_ids" and "completion_mask".
        value: Token id of padding; None takes the dataset's, or 0.
        end_id: Id that ends each answer, once, in place of the tokenizer's special tokens there; None keeps
            the answer's end.
        max_length: Largest number of tokens of a prompt with an answer; None sets no limit.
        truncation: What is kept of a longer one: "keep_start" or "keep_end", as in trl.
        ignore_index: Label of the tokens outside answers.
        special_tokens: Numbers of special tokens before and after the tokens of each field, which are left
            out between a prompt and its answer. None takes what the dataset says.

    Raises:
        ConfigError: An argument is wrong.
    """

    fields: tuple[str, str, str] = ("prompt", "chosen", "rejected")
    outputs: Sequence[PairOutput] | None = None
    value: int | None = None
    end_id: int | None = None
    max_length: int | None = None
    truncation: Truncation = "keep_start"
    ignore_index: int = -100
    special_tokens: tuple[int, int] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if len(self.fields) != 3 or len(set(self.fields)) < 3:
            raise ConfigError(f"fields must be a prompt and two answers, found {self.fields}")
        for name in self.outputs or ():
            one_of("outputs", name, get_args(PairOutput))
        one_of("truncation", self.truncation, get_args(Truncation))
        optional_number("max_length", self.max_length, 1)

    def planned_lengths(self, lengths: npt.NDArray[Any], *, packs: bool) -> npt.NDArray[np.int64]:
        """Tokens by which batches are planned: of the longer of the two sequences, (N, 1) int64.

        Args:
            lengths: (N, 3) integers, tokens of prompts, chosen and rejected answers.
            packs: Whether rows are packed, which needs the tokens of both, (N, 2).
        """
        of_prompt, of_answer = map(sum, self._left_out)
        kept = np.maximum(lengths.astype(np.int64) - [of_prompt, of_answer, of_answer], 0)
        both = kept[:, 1:] + kept[:, :1] + (self.end_id is not None)
        if self.max_length is not None:
            both = np.minimum(both, self.max_length)
        planned: npt.NDArray[np.int64] = both if packs else both.max(axis=1, keepdims=True)
        return planned

    def __call__(self, samples: Mapping[str, Any], length: Any = None) -> dict[str, Any]:
        """Return arrays by name, (2 N, length), or of packed rows (2 B, length)."""
        parts = [samples[name] for name in self.fields]
        packs = isinstance(parts[0], Packed)
        of_prompt, of_answer = self._left_out
        prompt, *answers = [
            _without_ends(as_ragged(part.sequences if packs else part), *around)
            for part, around in zip(parts, (of_prompt, of_answer, of_answer), strict=True)
        ]
        groups = parts[0].groups if packs else np.arange(len(prompt) + 1)
        joined = [self._joined(prompt, answer) for answer in answers]
        if length is None:
            length = max(int(np.diff(one.offsets[groups]).max()) for one in joined)
        widths = set(np.atleast_1d(length).tolist())
        if len(widths) > 1:
            raise ConfigError(
                f"rows of both answers must have one length, found {sorted(widths)}",
                hint="Give one number as pack.",
            )
        layouts = [Layout(Packed(one, groups), max(widths)) for one in joined]
        outputs = self.outputs if self.outputs is not None else _PACKED if packs else _PADDED
        tokens = _Tokens(value=self.value or 0, ignore_index=self.ignore_index)
        made = [tokens.arrays(layout, outputs) for layout in layouts]
        return {name: np.concatenate([arrays[name] for arrays in made]) for name in outputs}

    @property
    def _left_out(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Numbers of special tokens at both ends of a prompt, and of an answer, that are left out."""
        opening, closing = self.special_tokens or (0, 0)
        return (0, closing), (opening, 0 if self.end_id is None else closing)

    def _joined(self, prompt: Ragged, answer: Ragged) -> Ragged:
        """Each prompt with its answer, which alone is trained."""
        values, ends = answer.values, answer.offsets
        if self.end_id is not None:
            lasts = np.concatenate((values, [-1]))[ends[1:] - 1]
            open_ended = (answer.lengths == 0) | (lasts != self.end_id)  # as trl, which adds no second one
            values = np.insert(values, ends[1:][open_ended], self.end_id)
            ends = ends + np.concatenate(([0], np.cumsum(open_ended)))
        lengths = np.stack((prompt.lengths, np.diff(ends)), axis=1)
        starts = np.stack((prompt.offsets[:-1], ends[:-1] + len(prompt.values)), axis=1)
        total = lengths.sum(axis=1)
        offsets = np.concatenate(([0], np.cumsum(total)))
        flat = lengths.reshape(-1)
        which = np.repeat(starts.reshape(-1) - (np.cumsum(flat) - flat), flat) + np.arange(offsets[-1])
        if self.max_length is not None and total.max(initial=0) > self.max_length:
            index = np.arange(offsets[-1]) - np.repeat(offsets[:-1], total)
            if self.truncation == "keep_end":
                index = np.repeat(total, total) - 1 - index
            which = which[index < self.max_length]
            offsets = np.concatenate(([0], np.cumsum(np.minimum(total, self.max_length))))
        tokens = np.concatenate((prompt.values, values))[which]
        return Ragged(tokens, offsets, which >= len(prompt.values))


def _without_ends(sequences: Ragged, opening: int, closing: int) -> Ragged:
    """The sequences without some of their first and last tokens."""
    if not opening and not closing:
        return sequences
    index = np.arange(len(sequences.values)) - np.repeat(sequences.offsets[:-1], sequences.lengths)
    kept = (index >= opening) & (index < np.repeat(sequences.lengths - closing, sequences.lengths))
    offsets = np.concatenate(([0], np.cumsum(kept)))[sequences.offsets]
    return Ragged(sequences.values[kept], offsets)
