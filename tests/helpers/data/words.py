"""Tokenizers of words, as JSON files of the library ``tokenizers``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

SPECIAL = ("[UNK]", "[PAD]", "[BOS]", "[EOS]")

WORDS = Path(__file__).parents[2] / "data" / "words.json"
"""A tokenizer that knows a few words, each of which is a token; others are [UNK]."""


def write_words(path: Path, words: Iterable[str]) -> Path:
    """Write a tokenizer whose tokens are words between whitespace, with ids from 4; return its path."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": number, "content": token, **flags} for number, token in enumerate(SPECIAL)],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {word: number for number, word in enumerate((*SPECIAL, *words))},
            "unk_token": SPECIAL[0],
        },
    }
    path.write_bytes(json.dumps(document, ensure_ascii=False, indent=0).encode())
    return path


def count_words(path: Path, texts: Iterable[str]) -> Path:
    """Write a tokenizer of all words of texts, the most frequent ones first; return its path."""
    counts = Counter(word for text in texts for word in text.split())
    words = sorted(counts, key=lambda word: (-counts[word], word))
    return write_words(path, (word for word in words if word not in SPECIAL))
