"""The form of captions in a batch of images: the loader's argument ``caption``."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from stoker.arguments import one_of, optional_number, some_of, whole_number
from stoker.bucketing import Pack, Packed, Pad, Ragged
from stoker.bucketing.batchify import Output
from stoker.errors import ConfigError, StaleIndexError
from stoker.formats.dataset.columns import ListColumn, expand_ranges
from stoker.formats.files import read_regular
from stoker.formats.token_columns import CAPTION, IDS_COLUMN, LENGTHS_COLUMN, split_captions
from stoker.formats.tokenization import (
    Tokenizer,
    TokenizerChoice,
    common_special_tokens,
    count_special_tokens,
    tokenizer_path,
)
from stoker.processes import cached_property
from stoker.random import derive_key, uniform

from ..adapters import Adapter
from ..execution.pipeline import ColumnSpec
from ..order.sampling import SampleSource

Form = Literal["padded", "longest", "ragged", "packed"]
Choice = Literal["random", "first"]
TooLong = Literal["truncate", "error"]


@dataclass(frozen=True)
class Tokens:
    """Captions as token ids, for the argument ``caption`` of :class:`stoker.ImageLoader`.

    If an image has several captions, each epoch draws one of them. The draw follows from seed, epoch and
    sample alone, and does not change any other draw.

    Args:
        max_length: Largest number of tokens. A longer caption is cut, and keeps the special tokens that the
            tokenizer puts at its end, such as [SEP] or the end of a text.
        form: "padded" to ``max_length``, so that all batches have one shape; "longest" pads to the longest
            caption of the batch; "ragged" returns a list of N arrays. "packed" goes with
            :class:`stoker.Patches`: the captions of the images of a packed row form a row of tokens.
        choose: "random" draws one of several captions; "first" takes the first one, for evaluations.
        tokenizer: For captions that the dataset keeps as text: "bytes", the path of a Hugging Face
            tokenizers JSON, or a function that returns the token ids of each of a list of texts. None takes
            the token ids of ``stoker convert --caption-column``.
        column: Name of the column of texts; a text that is a JSON list of texts is several captions.
        pad_id: Token id for padding; None takes the id of the tokenizer, or 0 for a function.
        row: Tokens of a packed row, at least ``max_length``; only with ``form="packed"``.
        too_long: "truncate" cuts a caption of more than ``max_length`` tokens, and "error" raises a
            ConfigError that names its sample.

    Raises:
        ConfigError: An argument has a value that it cannot have.
    """

    max_length: int
    form: Form = "padded"
    choose: Choice = "random"
    tokenizer: str | os.PathLike[str] | Callable[[list[str]], Sequence[Sequence[int]]] | None = None
    column: str = CAPTION
    pad_id: int | None = None
    row: int | None = None
    too_long: TooLong = "truncate"

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_length", whole_number("Tokens: max_length", self.max_length, 1))
        object.__setattr__(self, "pad_id", optional_number("Tokens: pad_id", self.pad_id, 0))
        object.__setattr__(self, "row", optional_number("Tokens: row", self.row, 1))
        for name, kind in (("form", Form), ("choose", Choice), ("too_long", TooLong)):
            one_of(f"Tokens: {name}", getattr(self, name), get_args(kind))
        if self.tokenizer is None and self.column != CAPTION:
            raise ConfigError(
                f"Tokens: column={self.column!r} has texts, and no tokenizer is given",
                hint="Give tokenizer='tokenizer.json', or leave column out for captions that are token ids.",
            )
        if (self.form == "packed") != (self.row is not None):
            raise ConfigError(
                f"Tokens: form='packed' and row go together, found form={self.form!r} and row={self.row}",
                hint=f"Give form='packed', row={4 * self.max_length}, or leave both out.",
            )
        if self.row is not None and self.row < self.max_length:
            raise ConfigError(
                f"Tokens: a row of {self.row} tokens holds no caption of max_length={self.max_length}",
                hint=f"Give a row of at least {self.max_length}, such as {4 * self.max_length}.",
            )
        if self.row is not None and self.tokenizer is not None:
            raise ConfigError(
                "Tokens: packed rows are planned by numbers of tokens, which texts do not have",
                hint="Convert with caption_column and tokenizer, and leave tokenizer out here.",
            )

    def to_json(self) -> dict[str, Any]:
        """All that decides the captions, as a dictionary that JSON can hold."""
        fields = {name: getattr(self, name) for name in ("max_length", "form", "choose", "column", "pad_id")}
        later = {"row": None, "too_long": "truncate"}  # left out at these values, as in older states
        fields |= {name: getattr(self, name) for name, usual in later.items() if getattr(self, name) != usual}
        return {**fields, "tokenizer": self._identity()}

    def _identity(self) -> str | None:
        """The identity of the tokenizer in states: the digest of its file, or the name of a function."""
        tokenizer = self.tokenizer
        if tokenizer is None or tokenizer == "bytes":
            return tokenizer
        if isinstance(tokenizer, (str, os.PathLike)):
            return hashlib.sha256(read_regular(tokenizer_path(tokenizer))).hexdigest()
        name = getattr(tokenizer, "__qualname__", type(tokenizer).__name__)
        return f"{getattr(tokenizer, '__module__', '')}.{name}"


Int64 = npt.NDArray[np.int64]

MASK = "caption_mask"
_OUTPUTS: dict[str, tuple[Output, str]] = {
    CAPTION: ("input_ids", "int64"),
    f"{CAPTION}_segment_ids": ("segment_ids", "int32"),
    f"{CAPTION}_position_ids": ("position_ids", "int32"),
    f"{CAPTION}_cu_seqlens": ("cu_seqlens", "int32"),
    f"{CAPTION}_labels": ("labels", "int64"),
    MASK: ("attention_mask", "bool"),
}
"""Columns of packed captions: what :class:`stoker.bucketing.Pack` calls them, and their dtypes."""
_INDEX = -5
"""Index for ``derive_key``, below the indices of transforms and of masks of patches."""


@dataclass(frozen=True, eq=False)
class Captions:
    """The captions of a dataset, in the form that a loader returns."""

    dataset: SampleSource  # Dataset or mixture
    tokens: Tokens  # The loader's argument
    # Makes token ids of texts; None for a function, and where the index has token ids
    tokenizer: Tokenizer | None
    pad_id: int  # Token id for padding
    closing: int  # Special tokens that a cut keeps at the end

    @cached_property
    def columns(self) -> tuple[str, ...]:
        if self.tokens.row is not None:
            return tuple(_OUTPUTS)
        return (CAPTION,) if self.tokens.form == "ragged" else (CAPTION, MASK)

    def spec(self, name: str) -> ColumnSpec | None:
        """Dtype and shape of one of :attr:`columns`, without the batch axis; None for any other column."""
        if name not in self.columns:
            return None
        dtype = _OUTPUTS[name][1]
        if self.tokens.row is not None:
            return ColumnSpec(name, dtype, () if name.endswith("cu_seqlens") else (self.tokens.row,))
        length = self.tokens.max_length if self.tokens.form == "padded" else None
        return ColumnSpec(name, dtype, (length,), ragged=self.tokens.form == "ragged")

    def column(self, name: str, sequences: Ragged, adapter: Adapter) -> Any:
        """One of :attr:`columns` as the loader hands it out."""
        if self.tokens.form == "ragged":
            return adapter.ragged(sequences.values, sequences.lengths)
        padded = self.tokens.form == "padded"
        length = self.tokens.max_length if padded else int(sequences.lengths.max(initial=0))
        arrays = Pad(value=self.pad_id, outputs=("input_ids", "attention_mask"))(sequences, length)
        return adapter.column(arrays["input_ids" if name == CAPTION else "attention_mask"])

    def packed(
        self, names: Iterable[str], sequences: Ragged, groups: Int64, most: int
    ) -> dict[str, npt.NDArray[Any]]:
        """Arrays of packed rows, for the ``names`` that are in :attr:`columns`."""
        # groups (rows + 1,) int64
        chosen = [name for name in names if name in self.columns]
        pack = Pack(outputs=[_OUTPUTS[name][0] for name in chosen], value=self.pad_id, max_sequences=most)
        arrays = pack(Packed(sequences, groups), self.tokens.row)
        return {name: arrays[_OUTPUTS[name][0]] for name in chosen}

    def lengths(self, seed: int, epoch: int) -> Int64:
        """(N,) int64, tokens of the drawn caption of each sample of a dataset with token ids, after the cut.

        Keys of random numbers are as in an order that draws each sample once.
        """
        positions = np.arange(len(self.dataset))
        keys = self.dataset.rows if self.dataset.is_distinct else positions
        lists = self.dataset.lists(LENGTHS_COLUMN, positions)
        if not lists.counts.all():
            raise self._damaged()
        if self.tokens.too_long == "error" and self.tokens.choose == "random":
            # Raises before the first epoch.
            self._cut(np.maximum.reduceat(lists.values, lists.starts[:-1]), positions)
        at = _drawn(lists, self._numbers(keys, seed, epoch))
        return self._cut(lists.values[at].astype(np.int64), positions)

    def draw(self, positions: Int64, keys: Int64, seed: int, epoch: int) -> Ragged:
        """Return the token ids of one caption of each of N samples, int64, cut to the largest length."""
        # positions (N,) int64, keys (N,) int64
        numbers = self._numbers(keys, seed, epoch)
        found = self._stored if self.tokens.tokenizer is None else self._tokenized
        ids, begin, end = found(positions, numbers)
        lengths = self._cut(end - begin, positions)
        closing = np.where(lengths < end - begin, self.closing, 0)
        starts = np.stack((begin, end - closing), axis=1).reshape(-1)
        stops = np.stack((begin + lengths - closing, end), axis=1).reshape(-1)
        values = ids[expand_ranges(starts, stops)].astype(np.int64)
        return Ragged(values, np.concatenate(([0], np.cumsum(lengths))))

    def _numbers(self, keys: Int64, seed: int, epoch: int) -> npt.NDArray[np.float64]:
        """(N,) float64 in [0, 1), which choose one of the captions of each sample."""
        if self.tokens.choose == "first":
            return np.zeros(len(keys))
        return uniform(derive_key(seed, epoch, _INDEX), keys, 1)[:, 0]

    def _cut(self, lengths: Int64, positions: Int64) -> Int64:
        """Lengths of captions after the cut."""
        most = self.tokens.max_length
        if self.tokens.too_long == "error" and (long := lengths > most).any():
            first = int(long.argmax())
            raise ConfigError(
                f"the caption of {self.dataset.keys(positions[[first]])[0]!r} has {lengths[first]} tokens, "
                f"more than Tokens(max_length={most})",
                path=self.dataset.path,
                hint="Give a larger max_length, or too_long='truncate'.",
            )
        return np.minimum(lengths, most)

    def _damaged(self) -> StaleIndexError:
        return StaleIndexError(
            "the captions in the index are damaged: their lengths do not fit their token ids",
            path=self.dataset.path,
            hint="Convert the source again.",
        )

    def _stored(self, positions: Int64, numbers: npt.NDArray[np.float64]) -> tuple[Any, Int64, Int64]:
        """Token ids of samples, and where the drawn captions begin and end among them."""
        ids = self.dataset.lists(IDS_COLUMN, positions)
        lists = self.dataset.lists(LENGTHS_COLUMN, positions)
        ends = np.concatenate(([0], np.cumsum(lists.values, dtype=np.int64)))
        if not lists.counts.all() or not np.array_equal(ends[lists.starts], ids.starts):
            raise self._damaged()
        at = _drawn(lists, numbers)
        return ids.values, ends[at], ends[at + 1]

    def _tokenized(self, positions: Int64, numbers: npt.NDArray[np.float64]) -> tuple[Any, Int64, Int64]:
        """Token ids of the drawn texts of samples, and where each begins and ends among them."""
        texts = []
        for text, number in zip(self.dataset.strings(self.tokens.column, positions), numbers, strict=True):
            several = split_captions(text) or [""]
            texts.append(several[int(number * len(several))])
        ids, lengths = self._encode(texts)
        ends = np.cumsum(lengths)
        return ids, ends - lengths, ends

    def _encode(self, texts: list[str]) -> tuple[Any, Int64]:
        if self.tokenizer is not None:
            return self.tokenizer.encode(texts)
        assert callable(self.tokens.tokenizer), "without a tokenizer it is a function"
        sequences = [np.asarray(ids, np.int64).reshape(-1) for ids in self.tokens.tokenizer(texts)]
        if len(sequences) != len(texts):
            raise ConfigError(
                f"Tokens: tokenizer returned {len(sequences)} sequences for {len(texts)} texts",
                hint="It must return the token ids of each text, without padding.",
            )
        lengths = np.array([len(ids) for ids in sequences], np.int64)
        return np.concatenate([np.zeros(0, np.int64), *sequences]), lengths


def _drawn(lists: ListColumn, numbers: npt.NDArray[np.float64]) -> Int64:
    """(N,) int64, the index of the entry of each of N lists that a number in [0, 1) chooses."""
    return lists.starts[:-1] + (numbers * lists.counts).astype(np.int64)


def find_captions(dataset: SampleSource, tokens: Tokens, *, mixes: bool) -> Captions:
    """Return the captions of a dataset in the form that a loader asks for."""
    if mixes:
        raise ConfigError(
            "a transform mixes images, and a mixed image has no caption",
            hint="Leave out MixUp and CutMix, or the captions.",
        )
    options, tokenizer, pad_id, closing = dataset.manifest.options, None, 0, 0
    if tokens.tokenizer is None:
        if not {IDS_COLUMN, LENGTHS_COLUMN} <= dataset.types.keys():
            raise ConfigError(
                "the dataset has no captions as token ids",
                path=dataset.path,
                hint="Convert with caption_column; for a column of texts give Tokens(tokenizer=...).",
            )
        pad_id = int(options.get("pad_id") or 0)
        closing = common_special_tokens(dataset.datasets).closing
    elif dataset.types.get(tokens.column) != "large_string":
        texts = sorted({name for name, kind in dataset.types.items() if kind == "large_string"} - {"key"})
        raise ConfigError(
            f"Tokens: the dataset has no column of texts {tokens.column!r}",
            path=dataset.path,
            hint=f"Its columns of texts are {some_of(texts)}: Tokens(column=...)."
            if texts
            else "Leave tokenizer out where captions are token ids; otherwise convert captions as a column.",
        )
    elif isinstance(tokens.tokenizer, str) or not callable(tokens.tokenizer):
        tokenizer = TokenizerChoice(tokens.tokenizer).make()
        pad_id, closing = tokenizer.pad_id, count_special_tokens(tokenizer.file).closing
    if closing >= tokens.max_length:
        raise ConfigError(
            f"Tokens: max_length={tokens.max_length} leaves no room beside the special tokens",
            hint=f"Give at least {closing + 1}.",
        )
    return Captions(dataset, tokens, tokenizer, pad_id if tokens.pad_id is None else tokens.pad_id, closing)
