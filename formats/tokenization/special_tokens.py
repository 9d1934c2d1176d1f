"""Special tokens that a Hugging Face tokenizer adds around a sequence, as its file says.

The file is a JSON document whose ``post_processor`` is one of those of the package tokenizers:
https://huggingface.co/docs/tokenizers/api/post-processors
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from stoker.errors import DatasetError


class SpecialTokens(NamedTuple):
    """Numbers of special tokens before and after the tokens of a text: 1 and 1 for [CLS] and [SEP]."""

    opening: int
    closing: int


NO_SPECIAL_TOKENS = SpecialTokens(0, 0)


def count_special_tokens(tokenizer: bytes) -> SpecialTokens:
    """The special tokens of a single sequence, from the content of a tokenizers JSON."""
    try:
        return _count(json.loads(tokenizer)["post_processor"])
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration, RecursionError) as error:
        raise DatasetError(
            f"tokenizer.json cannot be read: {error!r}", hint="convert the text again"
        ) from error


def _count(processor: Any) -> SpecialTokens:
    if processor is None:
        return NO_SPECIAL_TOKENS
    kind = processor["type"]
    if kind == "Sequence":
        each = [_count(part) for part in processor["processors"]]
        return SpecialTokens(sum(part.opening for part in each), sum(part.closing for part in each))
    if kind in ("BertProcessing", "RobertaProcessing"):
        return SpecialTokens(1, 1)
    if kind != "TemplateProcessing":
        return NO_SPECIAL_TOKENS
    pieces = processor["single"]
    ids = processor["special_tokens"]
    sizes = [
        len(ids[piece["SpecialToken"]["id"]]["ids"]) if "SpecialToken" in piece else 0 for piece in pieces
    ]
    sequence = next(index for index, piece in enumerate(pieces) if "Sequence" in piece)
    return SpecialTokens(sum(sizes[:sequence]), sum(sizes[sequence:]))
