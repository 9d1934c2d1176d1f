"""The captions of a loader's dataset: one of each sample is drawn, and becomes arrays of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.bucketing import Pad, Ragged
from stoker.errors import ConfigError, StaleIndexError
from stoker.formats.dataset.columns.list_column import ListColumn, expand_ranges
from stoker.formats.tokenization.captions import CAPTION, IDS_COLUMN, LENGTHS_COLUMN, split_captions
from stoker.formats.tokenization.choice import SourceTexts, TokenizerChoice, make_tokenizer
from stoker.formats.tokenization.special_tokens import count_special_tokens
from stoker.random import derive_key, uniform

from ...execution.batch import ColumnSpec

if TYPE_CHECKING:
    import numpy.typing as npt

    from stoker.formats.tokenization.tokenizers import Tokenizer

    from ...adapters import Adapter
    from ...order.sample_source import SampleSource
    from .tokens import Tokens

    Int64 = npt.NDArray[np.int64]

__all__ = ["MASK", "Captions", "find_captions"]

MASK = "caption_mask"
_POSITION = -5
"""Position for ``derive_key``, below those of transforms and of masks of patches."""


@dataclass(frozen=True, eq=False)
class Captions:
    """The captions of a dataset, in the form that a loader hands out.

    Attributes:
        dataset: Dataset or mixture.
        tokens: The loader's argument.
        tokenizer: Makes token ids of texts; None for a function, and where the index has token ids.
        pad_id: Token id for padding.
        closing: Special tokens that a cut keeps at the end.
    """

    dataset: SampleSource
    tokens: Tokens
    tokenizer: Tokenizer | None
    pad_id: int
    closing: int

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that batches may have."""
        return (CAPTION,) if self.tokens.form == "ragged" else (CAPTION, MASK)

    def spec(self, name: str) -> ColumnSpec | None:
        """Dtype and shape of one of :attr:`columns`, without the batch axis; None for any other column."""
        if name not in self.columns:
            return None
        dtype = "int64" if name == CAPTION else "bool"
        length = self.tokens.max_length if self.tokens.form == "padded" else None
        return ColumnSpec(name, dtype, (length,), ragged=self.tokens.form == "ragged")

    def column(self, name: str, sequences: Ragged, adapter: Adapter) -> Any:
        """One of :attr:`columns` as the loader hands it out."""
        if self.tokens.form == "ragged":
            return adapter.ragged(sequences.values, sequences.lengths)
        padded = self.tokens.form == "padded"
        length = self.tokens.max_length if padded else int(sequences.lengths.max(initial=0))
        made = Pad(value=self.pad_id, outputs=("input_ids", "attention_mask"))(sequences, length)
        return adapter.column(made["input_ids" if name == CAPTION else "attention_mask"])

    def draw(self, positions: Int64, keys: Int64, seed: int, epoch: int) -> Ragged:
        """Return the token ids of one caption of each of N samples, int64, cut to the largest length.

        Args:
            positions: (N,) int64, positions of the samples in the dataset.
            keys: (N,) int64, keys of their random numbers.
            seed: Any integer.
            epoch: Any integer.
        """
        numbers = uniform(derive_key(seed, epoch, _POSITION), keys, 1)[:, 0]
        if self.tokens.choose == "first":
            numbers = np.zeros(len(positions))
        if self.tokens.tokenizer is not None:
            ids, begin, end = self._tokenized(positions, numbers)
        else:
            ids, begin, end = self._stored(positions, numbers)
        lengths = np.minimum(end - begin, self.tokens.max_length)
        closing = np.where(lengths < end - begin, self.closing, 0)
        starts = np.stack((begin, end - closing), axis=1).reshape(-1)
        stops = np.stack((begin + lengths - closing, end), axis=1).reshape(-1)
        values = ids[expand_ranges(starts, stops)].astype(np.int64)
        return Ragged(values, np.concatenate(([0], np.cumsum(lengths))))

    def _stored(self, positions: Int64, numbers: npt.NDArray[np.float64]) -> tuple[Any, Int64, Int64]:
        """Token ids of samples, and where the drawn captions begin and end among them."""
        ids = self.dataset.lists(IDS_COLUMN, positions)
        lists = self.dataset.lists(LENGTHS_COLUMN, positions)
        ends = np.concatenate(([0], np.cumsum(lists.values, dtype=np.int64)))
        if not lists.counts.all() or not np.array_equal(ends[lists.starts], ids.starts):
            raise StaleIndexError(
                "the captions in the index are damaged: their lengths are not those of their token ids",
                path=self.dataset.path,
                hint="Convert the source again.",
            )
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
        made = [np.asarray(one, np.int64).reshape(-1) for one in self.tokens.tokenizer(texts)]
        if len(made) != len(texts):
            raise ConfigError(
                f"Tokens: tokenizer returned {len(made)} sequences for {len(texts)} texts",
                hint="It must return the token ids of each text, without padding.",
            )
        return np.concatenate([np.zeros(0, np.int64), *made]), np.array([len(one) for one in made], np.int64)


def _drawn(lists: ListColumn, numbers: npt.NDArray[np.float64]) -> Int64:
    """(N,) int64, the place of one entry of each of N lists, by numbers in [0, 1)."""
    return lists.starts[:-1] + (numbers * lists.counts).astype(np.int64)


def find_captions(dataset: SampleSource, tokens: Tokens | None, *, mixes: bool) -> Captions | None:
    """Return the captions of a dataset in the form that a loader asks for; None if it asks for none.

    Args:
        dataset: Dataset or mixture.
        tokens: The loader's argument.
        mixes: Whether transforms mix the images of several samples.

    Raises:
        ConfigError: The dataset has no such captions, or transforms mix images.
    """
    if tokens is None:
        return None
    if mixes:
        raise ConfigError(
            "a transform mixes images, and a mixed image has no caption",
            hint="Leave out MixUp, CutMix and Mosaic, or the captions.",
        )
    if tokens.tokenizer is None:
        return _of_ids(dataset, tokens)
    if dataset.types.get(tokens.column) != "large_string":
        texts = sorted(
            name for name, kind in dataset.types.items() if kind == "large_string" and name != "key"
        )
        raise ConfigError(
            f"Tokens: the dataset has no column of texts {tokens.column!r}",
            path=dataset.path,
            hint=f"Its columns of texts are {', '.join(texts)}: Tokens(column=...)."
            if texts
            else "Leave tokenizer out where captions are token ids; otherwise convert captions as a column.",
        )
    if not isinstance(tokens.tokenizer, str) and callable(tokens.tokenizer):
        return Captions(dataset, tokens, None, tokens.pad_id or 0, 0)
    made = make_tokenizer(TokenizerChoice(tokens.tokenizer), SourceTexts(0, lambda _: []), 1)
    closing = 0 if made.file is None else count_special_tokens(made.file).closing
    return _checked(Captions(dataset, tokens, made, _or(tokens.pad_id, made.pad_id), closing))


def _of_ids(dataset: SampleSource, tokens: Tokens) -> Captions:
    options = dataset.manifest.options
    if not {IDS_COLUMN, LENGTHS_COLUMN} <= dataset.types.keys():
        raise ConfigError(
            "the dataset has no captions as token ids",
            path=dataset.path,
            hint="Convert with --caption-column NAME (caption_column=); for a column of texts give "
            "Tokens(tokenizer=...).",
        )
    closing = int(bool(options.get("eos")))
    if options.get("tokenizer_digest"):
        closing += count_special_tokens(dataset.datasets[0].tokenizer_file()).closing
    return _checked(
        Captions(dataset, tokens, None, _or(tokens.pad_id, int(options.get("pad_id") or 0)), closing)
    )


def _checked(captions: Captions) -> Captions:
    if captions.closing >= captions.tokens.max_length:
        raise ConfigError(
            f"Tokens: max_length={captions.tokens.max_length} leaves no place beside the special tokens",
            hint=f"Give at least {captions.closing + 1}.",
        )
    return captions


def _or(given: int | None, default: int) -> int:
    return default if given is None else given
