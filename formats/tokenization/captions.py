"""Captions of images: one text or several for each sample, and the columns of the index with their token ids.

Conversions and writers make the columns here, and loaders of images read them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..dataset.columns import ListColumn
from .tokenizers import Tokenizer, TokenizerChoice, tokenizer_options

__all__ = [
    "CAPTION",
    "CAPTION_COLUMNS",
    "IDS_COLUMN",
    "LENGTHS_COLUMN",
    "CaptionOptions",
    "CaptionTokens",
    "encode_captions",
    "split_captions",
]

CAPTION = "caption"
"""Name of the column of batches with captions, and of the column of texts where a source names a part."""

IDS_COLUMN, LENGTHS_COLUMN = "caption_ids", "caption_lengths"
"""Columns of the index: the token ids of all captions of a sample, end to end, and the number of each."""

CAPTION_COLUMNS = frozenset((IDS_COLUMN, LENGTHS_COLUMN))


@dataclass(frozen=True)
class CaptionOptions:
    """The options of a dataset about its captions; datasets of text have all but the first as well."""

    caption_column: str  # Column of the source that had the captions
    tokenizer: str  # whitespace, bytes, bpe, or the name of the tokenizer's file
    tokenizer_digest: str  # SHA-256 of the dataset's ``tokenizer.json``; empty if it has none
    vocab_size: int  # All token ids are less than this
    pad_id: int  # Token id for padding
    dtype: str  # Type of the token ids: uint16 or int32
    bos: bool  # Whether each caption begins with a token that the tokenizer alone does not add
    eos: bool  # Whether each caption ends with such a token

    @classmethod
    def of(cls, column: str, tokenizer: Tokenizer, choice: TokenizerChoice) -> CaptionOptions:
        """The options of captions that a tokenizer encodes."""
        return cls(column, **tokenizer_options(tokenizer, choice))


class CaptionTokens(NamedTuple):
    """The captions of N samples."""

    ids: npt.NDArray[Any]  # (T,) uint16 or int32, token ids of all captions, end to end
    lengths: npt.NDArray[np.int32]  # (C,) int32, tokens of each caption
    counts: npt.NDArray[np.int64]  # (N,) int64, captions of each sample

    @classmethod
    def join(cls, parts: Sequence[CaptionTokens]) -> CaptionTokens:
        """The captions of several groups of samples, one after the other; at least one group."""
        return cls(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def columns(self) -> dict[str, pa.Array]:
        """The columns of the index of the samples that have a caption."""
        counts = self.counts[self.counts > 0]
        lengths = ListColumn.of_counts(counts, self.lengths)
        ends = np.concatenate(([0], np.cumsum(self.lengths, dtype=np.int64)))
        ids = ListColumn(ends[lengths.starts], self.ids)
        return {IDS_COLUMN: ids.to_arrow(), LENGTHS_COLUMN: lengths.to_arrow()}


def split_captions(text: str) -> list[str]:
    """The captions in a text: those of a JSON list of texts, or the text itself; empty ones are left out."""
    parsed: Any = None
    if text.startswith("["):
        with suppress(ValueError, RecursionError):
            parsed = json.loads(text)
    is_list = isinstance(parsed, list) and all(isinstance(caption, str) for caption in parsed)
    return [caption for caption in (parsed if is_list else [text]) if caption.strip()]


def encode_captions(tokenizer: Tokenizer, samples: Sequence[Sequence[str]], dtype: str) -> CaptionTokens:
    """Tokenize the captions of N samples; a caption without a token is left out."""
    counts = np.array([len(captions) for captions in samples], np.int64)
    texts = [text for captions in samples for text in captions]
    if not texts:
        return CaptionTokens(np.zeros(0, dtype), np.zeros(0, np.int32), counts)
    ids, lengths = tokenizer.encode(texts)
    if not lengths.all():
        sample = np.repeat(np.arange(len(samples)), counts)
        counts = np.bincount(sample[lengths > 0], minlength=len(samples)).astype(np.int64)
        lengths = lengths[lengths > 0]
    return CaptionTokens(ids.astype(dtype), lengths.astype(np.int32), counts)
