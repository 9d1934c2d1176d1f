"""Masks of a text loader, with the special tokens and words of the dataset's tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from stoker.bucketing import MaskTokens, SpanCorruption
from stoker.bucketing.masking.mask_tokens import WordParts
from stoker.errors import ConfigError
from stoker.formats.tokenization.special_tokens import NO_SPECIAL_TOKENS, SpecialTokens, count_special_tokens
from stoker.formats.tokenization.tokenizers import ByteTokenizer
from stoker.formats.tokenization.word_parts import read_word_parts

from ..order.sample_source import SampleSource
from .planning.batching_config import BatchingConfig

Mask = MaskTokens | SpanCorruption
"""A mask of sequences, before they are padded or packed."""


def fit_mask(
    mask: Any, dataset: SampleSource, fields: Sequence[str], batching: BatchingConfig
) -> Mask | None:
    """Return the mask, with values of the dataset's tokenizer for arguments that are None."""
    if mask is None:
        return None
    if isinstance(mask, MaskTokens):
        return mask.with_tokenizer(_word_parts(dataset)) if mask.needs_tokenizer else mask
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
    if batching.stream is not None:
        raise ConfigError(
            "SpanCorruption takes whole sequences, which stream cuts", hint="Give pack in place of stream."
        )
    if batching.too_long == "split":
        raise ConfigError(
            'SpanCorruption takes whole sequences, which too_long="split" cuts',
            hint='Give too_long="truncate", or split the documents at the conversion.',
        )
    return replace(mask, special_tokens=special_tokens_of(dataset)) if mask.special_tokens is None else mask


def special_tokens_of(dataset: SampleSource) -> SpecialTokens:
    """Numbers of special tokens before and after each text of a dataset.

    A chat has the special tokens of its template inside, and none around.
    """
    options = dataset.manifest.options
    if options.get("chat_template"):
        return NO_SPECIAL_TOKENS
    opening, closing = NO_SPECIAL_TOKENS
    if options.get("tokenizer_digest"):
        opening, closing = count_special_tokens(dataset.datasets[0].tokenizer_file())
    return SpecialTokens(opening + bool(options.get("bos")), closing + bool(options.get("eos")))


def _word_parts(dataset: SampleSource) -> WordParts:
    if dataset.manifest.options.get("tokenizer_digest"):
        return WordParts(*read_word_parts(dataset.datasets[0].tokenizer_file()))
    return WordParts(tuple(range(ByteTokenizer.pad_id, ByteTokenizer.vocab_size)), None)
