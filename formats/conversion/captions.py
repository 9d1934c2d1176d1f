"""Captions of the images of a source: a column of texts in the listing becomes columns of token ids."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker.arguments import some_of
from stoker.errors import ConfigError, SourceError

from ..dataset.columns import ListColumn
from ..dataset.manifest import Manifest
from ..options import given_options, option
from ..sources.listing import Listing, Skip
from ..threads import thread_map
from ..token_columns import CAPTION, CAPTION_COLUMNS, IDS_COLUMN, LENGTHS_COLUMN, split_captions
from ..tokenization import Tokenizer, TokenizerChoice, tokenizer_options

_CHUNK = 1024  # samples that a task tokenizes
_LEFT_OUT = "no caption"


@dataclass(frozen=True)
class Captions(TokenizerChoice):
    """The captions of images, which become token ids in the index of a dataset."""

    caption_column: str | None = option(
        None,
        "Column of a list or table, or member of a tar (txt, json:captions), with the captions of an image, "
        "which become token ids. The images of a list then need no labels.",
        "Captions",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.caption_column is None and (given := given_options(self)):
            name = next(iter(given))
            raise ConfigError(
                f"{name} is for captions, and no column of captions is named",
                hint="Name it with caption_column. Text alone is for stoker.convert_text.",
            )


@dataclass(frozen=True)
class CaptionOptions:
    """The options of a dataset about its captions; datasets of text have all but the first as well."""

    caption_column: str  # Column of the source that had the captions
    tokenizer: str  # bytes, or the name of the tokenizer's file
    tokenizer_digest: str  # SHA-256 of the dataset's ``tokenizer.json``; empty if it has none
    vocab_size: int  # All token ids are less than this
    pad_id: int  # Token id for padding
    dtype: str  # Type of the token ids: uint16 or int32
    bos: bool  # Whether each caption begins with a token that the tokenizer alone does not add
    eos: bool  # Whether each caption ends with such a token
    tokenizer_settings: str  # Special tokens and chat template of the tokenizer, as JSON; empty if unknown

    @classmethod
    def of(cls, column: str, tokenizer: Tokenizer, choice: TokenizerChoice) -> CaptionOptions:
        """The options of captions that a tokenizer encodes."""
        return cls(column, **tokenizer_options(tokenizer, choice))

    @classmethod
    def of_dataset(cls, manifest: Manifest) -> CaptionOptions | None:
        """The options of the captions of a dataset; None if it has none."""
        known: dict[str, Any] = {
            name: manifest.options[name] for name in cls.__annotations__ if name in manifest.options
        }
        return cls(**{"tokenizer_settings": "", **known}) if "caption_column" in known else None


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


class WrittenCaptions(NamedTuple):
    """The tokenizer of a writer of captions."""

    tokenizer: Tokenizer  # Makes token ids of captions
    options: CaptionOptions  # The options of the captions, for the manifest


def written_captions(captions: Captions, existing: Manifest | None, folder: Path) -> WrittenCaptions | None:
    """Return the tokenizer of captions by a writer's arguments, or by the dataset that it appends to."""
    if existing is not None:
        if given := given_options(captions):
            name = next(iter(given))
            raise ConfigError(f"append takes {name} from the dataset", hint=f"Leave {name} out.")
        captions = captions_like(existing, folder)
    if captions.caption_column is None:
        return None
    tokenizer = captions.make()
    return WrittenCaptions(tokenizer, CaptionOptions.of(captions.caption_column, tokenizer, captions))


def captions_like(existing: Manifest, folder: Path) -> Captions:
    """The options of captions that a dataset was made with."""
    column = cast("str | None", existing.options.get("caption_column"))
    if column is None:
        return Captions()
    bos, eos = bool(existing.options.get("bos")), bool(existing.options.get("eos"))
    return Captions(vocabulary=folder, bos=bos, eos=eos, caption_column=column)


def tokenize_captions(
    listing: Listing, captions: Captions, threads: int, source: str | os.PathLike[str]
) -> tuple[Listing, CaptionOptions, bytes | None]:
    """Return a listing with captions as token ids, their options, and the file of their tokenizer."""
    column = str(captions.caption_column)
    name = column if column in listing.columns else CAPTION
    texts = _texts(listing, column, name)
    tokenizer = captions.make()
    options = CaptionOptions.of(column, tokenizer, captions)
    encode = partial(_encode, texts, tokenizer, options.dtype)
    chunks = (range(a, min(a + _CHUNK, len(listing))) for a in range(0, len(listing), _CHUNK))
    encoded = thread_map(encode, chunks, "caption", threads, 2 * threads)
    tokens = CaptionTokens.join([part for _, part in encoded])
    kept = np.flatnonzero(tokens.counts > 0)
    if not len(kept):
        raise SourceError(f"no sample has a caption in {column!r}", path=source)
    if len(kept) < len(listing):
        missing = pa.array(tokens.counts == 0)
        skips = [Skip(key, _LEFT_OUT) for key in listing.keys.filter(missing).to_pylist()]
        listing = replace(listing.take(kept), skipped=tuple(sorted((*listing.skipped, *skips))))
    columns = {column_name: array for column_name, array in listing.columns.items() if column_name != name}
    return replace(listing, columns={**columns, **tokens.columns()}), options, tokenizer.file


def _texts(listing: Listing, column: str, name: str) -> pa.Array:
    """(N,) large_string, the captions of each sample, as :func:`split_captions` takes them."""
    texts = listing.columns.get(name)
    if texts is None:
        names = some_of(sorted(listing.columns)) or "no column but the label"
        raise ConfigError(f"the source has no captions in {column!r}", hint=f"It has {names}.")
    if not pa.types.is_large_string(texts.type):
        raise ConfigError(
            f"caption_column {column!r} holds {texts.type}, and captions are texts",
            hint="Name a column of texts, or of lists of texts.",
        )
    if reserved := sorted(CAPTION_COLUMNS & listing.columns.keys()):
        raise ConfigError(
            f"the source has a column {reserved[0]!r}, a name that the index uses for captions",
            hint="Give the column another name in the source.",
        )
    return texts


def _encode(texts: pa.Array, tokenizer: Tokenizer, dtype: str, rows: range) -> CaptionTokens:
    captions = [split_captions(text) for text in texts.slice(rows.start, len(rows)).to_pylist()]
    return encode_captions(tokenizer, captions, dtype)
