"""Facts about the ids of a vocabulary, from the file of its tokenizer: special tokens, and parts of words.

The file is a JSON document of the package tokenizers: https://huggingface.co/docs/tokenizers/components
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import DatasetError


def read_word_parts(tokenizer: bytes) -> tuple[tuple[int, ...], npt.NDArray[np.bool_] | None]:
    """Ids of special tokens; and (V,) bool, the ids that continue the word before them.

    A piece of WordPiece continues a word if it begins with "##". With Metaspace and ByteLevel, as of
    SentencePiece, Llama and GPT-2, it does unless it begins with the sign for a space; punctuation then
    belongs to the word before it. A vocabulary of words has no parts. The second is None for other
    tokenizers.
    """
    try:
        document = json.loads(tokenizer)
        special = tuple(token["id"] for token in document["added_tokens"] if token["special"])
        return special, _continuations(document)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DatasetError(
            f"tokenizer.json cannot be read: {error!r}", hint="convert the text again"
        ) from error


def _continuations(document: Any) -> npt.NDArray[np.bool_] | None:
    model = document["model"]
    vocabulary = model["vocab"]
    if model["type"] == "Unigram":
        vocabulary = {piece: number for number, (piece, _) in enumerate(vocabulary)}
    table = np.zeros(max(vocabulary.values(), default=-1) + 1, np.bool_)
    if model["type"] == "WordLevel":
        return table
    if model["type"] == "WordPiece":
        prefix = model["continuing_subword_prefix"]
        table[[number for piece, number in vocabulary.items() if piece.startswith(prefix)]] = True
        return table
    signs = [sign for part in _parts(document["pre_tokenizer"]) if (sign := _sign_of_space(part))]
    if not signs:
        return None
    table[[number for piece, number in vocabulary.items() if not piece.startswith(signs[0])]] = True
    return table


def _parts(component: Any) -> Iterator[Any]:
    if component is not None and component["type"] == "Sequence":
        for part in component["pretokenizers"]:
            yield from _parts(part)
    elif component is not None:
        yield component


def _sign_of_space(pre_tokenizer: Any) -> str | None:
    if pre_tokenizer["type"] == "ByteLevel":
        return "\u0120"  # the letter that stands for the byte of a space
    return pre_tokenizer["replacement"] if pre_tokenizer["type"] == "Metaspace" else None
