"""Captions of the images of a source: a column of texts in the listing becomes columns of token ids."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from stoker.errors import ConfigError, SourceError

from ..dataset.manifest import Manifest
from ..sources.listing import Listing, Skip
from ..threads import thread_map
from ..tokenization.captions import (
    CAPTION,
    CAPTION_COLUMNS,
    CaptionOptions,
    CaptionTokens,
    encode_captions,
    split_captions,
)
from ..tokenization.tokenizers import SourceTexts, Tokenizer, TokenizerChoice, make_tokenizer
from .options import ConvertRequest

_LEFT_OUT = "no caption"


class ListedCaptions(NamedTuple):
    """A listing whose captions are token ids."""

    listing: Listing  # The samples that have a caption
    options: CaptionOptions  # The options of the captions, for the manifest
    file: bytes | None  # Content of ``tokenizer.json``; None if the tokenizer has no file


class WrittenCaptions(NamedTuple):
    """The tokenizer of a writer of captions."""

    tokenizer: Tokenizer  # Makes token ids of captions
    options: CaptionOptions  # The options of the captions, for the manifest


def caption_choice(request: ConvertRequest) -> TokenizerChoice | None:
    """The tokenizer that a request asks for; None if it names no column of captions."""
    if request.caption_column is not None:
        return TokenizerChoice(
            request.tokenizer or "whitespace",
            request.vocabulary,
            request.min_count,
            request.max_size,
            request.bos,
            request.eos,
        )
    for name in ("tokenizer", "vocabulary", "min_count", "max_size", "bos", "eos"):
        if getattr(request, name):
            raise ConfigError(
                f"{name} is for captions, and the conversion reads none",
                hint="name their column: --caption-column NAME (caption_column=); for text alone use stoker "
                "convert-text",
            )
    return None


def written_captions(
    column: str | None,
    existing: Manifest | None,
    folder: Path,
    *,
    tokenizer: str | os.PathLike[str] | None,
    vocabulary: str | os.PathLike[str] | None,
    bos: bool,
    eos: bool,
) -> WrittenCaptions | None:
    """Return the tokenizer of captions by a writer's arguments, or by the dataset that it appends to."""
    options = {"tokenizer": tokenizer, "vocabulary": vocabulary, "bos": bos, "eos": eos}
    if existing is not None:
        for name, value in {"caption_column": column, **options}.items():
            if value:
                raise ConfigError(f"append takes {name} from the dataset", hint=f"leave {name} out")
        column = cast("str | None", existing.options.get("caption_column"))
        vocabulary = folder if column is not None else None
        bos, eos = bool(existing.options.get("bos")), bool(existing.options.get("eos"))
    if column is None:
        for name, value in options.items():
            if value and existing is None:
                raise ConfigError(
                    f"{name} is for captions, and the samples have none",
                    hint="name the argument of write() that has them with caption_column=",
                )
        return None
    if vocabulary is None and tokenizer in (None, "whitespace", "bpe"):
        raise ConfigError(
            "a writer tokenizes each sample at once, and cannot first count the words of all captions",
            hint="give tokenizer='bytes', the path of a tokenizers JSON, or vocabulary=FOLDER of a dataset",
        )
    choice = TokenizerChoice(tokenizer or "whitespace", vocabulary, None, None, bos, eos)
    chosen = make_tokenizer(choice, SourceTexts(0, lambda _: []), 1)
    return WrittenCaptions(chosen, CaptionOptions.of(column, chosen, choice))


def tokenize_captions(
    listing: Listing, column: str, choice: TokenizerChoice, threads: int, source: str | os.PathLike[str]
) -> ListedCaptions:
    """Return a listing with token ids in place of a column of captions; samples without one are left out."""
    name = column if column in listing.columns else CAPTION
    texts = _texts(listing, column, name)
    source_texts = SourceTexts(len(listing), lambda rows: list(chain(*_samples(texts, rows))))
    tokenizer = make_tokenizer(choice, source_texts, threads)
    options = CaptionOptions.of(column, tokenizer, choice)
    encode = partial(_encode, texts, tokenizer, options.dtype)
    encoded = thread_map(encode, source_texts.chunks(), "caption", threads, 2 * threads)
    tokens = CaptionTokens.join([part for _, part in encoded])
    kept = np.flatnonzero(tokens.counts > 0)
    if not len(kept):
        raise SourceError(f"no sample has a caption in {column!r}", path=source)
    if len(kept) < len(listing):
        missing = pa.array(tokens.counts == 0)
        skips = [Skip(key, _LEFT_OUT) for key in listing.keys.filter(missing).to_pylist()]
        listing = replace(listing.take(kept), skipped=tuple(sorted((*listing.skipped, *skips))))
    columns = {column_name: array for column_name, array in listing.columns.items() if column_name != name}
    return ListedCaptions(replace(listing, columns={**columns, **tokens.columns()}), options, tokenizer.file)


def _texts(listing: Listing, column: str, name: str) -> pa.Array:
    """(N,) large_string, the captions of each sample, as :func:`split_captions` takes them."""
    texts = listing.columns.get(name)
    if texts is None:
        names = ", ".join(sorted(listing.columns)) or "no column but the label"
        raise ConfigError(f"the source has no captions in {column!r}", hint=f"it has {names}")
    if not pa.types.is_large_string(texts.type):
        raise ConfigError(
            f"caption_column {column!r} holds {texts.type}, and captions are texts",
            hint="name a column of texts, or of lists of texts",
        )
    if reserved := sorted(CAPTION_COLUMNS & listing.columns.keys()):
        raise ConfigError(
            f"the source has a column {reserved[0]!r}, a name that the index uses for captions",
            hint="give the column another name in the source",
        )
    return texts


def _samples(texts: pa.Array, rows: range) -> list[list[str]]:
    return [split_captions(text) for text in texts.slice(rows.start, len(rows)).to_pylist()]


def _encode(texts: pa.Array, tokenizer: Tokenizer, dtype: str, rows: range) -> CaptionTokens:
    return encode_captions(tokenizer, _samples(texts, rows), dtype)
