"""Texts of token ids, made with the tokenizer of a dataset, for previews."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stoker.errors import optional_import

Decode = Callable[[Sequence[int]], str]

_OF_BYTES = {256: "[PAD]", 257: "[BOS]", 258: "[EOS]"}


def make_decoder(options: Mapping[str, Any], file: bytes | None) -> Decode:
    """Return a function that makes the text of token ids, special tokens included.

    ``options`` are those of the dataset, and ``file`` its ``tokenizer.json``; None for bytes.
    """
    if file is None:
        return _decode_bytes
    model = json.loads(file)["model"]
    if options.get("tokenizer") == "whitespace" and model.get("type") == "WordLevel":
        words = {number: word for word, number in model["vocab"].items()}
        return lambda ids: " ".join(words.get(number, f"[{number}]") for number in ids)
    with optional_import("the texts of these token ids need the package tokenizers", "tokenizers"):
        import tokenizers
    tokenizer = tokenizers.Tokenizer.from_buffer(file)
    return lambda ids: str(tokenizer.decode(list(ids), skip_special_tokens=False))


def _decode_bytes(ids: Sequence[int]) -> str:
    data = b"".join(bytes([token]) if token < 256 else _OF_BYTES.get(token, "").encode() for token in ids)
    return data.decode(errors="replace")
