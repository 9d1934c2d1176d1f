"""Special tokens and continuations of words, as tokenizers' files say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stoker.errors import DatasetError
from stoker.formats.tokenization.word_parts import read_word_parts

SPECIAL = [{"id": 0, "content": "[CLS]", "special": True}, {"id": 9, "content": "word", "special": False}]


def document(model: dict[str, Any], pre_tokenizer: dict[str, Any] | None = None) -> bytes:
    return json.dumps({"added_tokens": SPECIAL, "model": model, "pre_tokenizer": pre_tokenizer}).encode()


PIECES = {"[CLS]": 0, "play": 1, "##ing": 2}
SPACED = {"[CLS]": 0, "\u0120play": 1, "ing": 2}


@pytest.mark.parametrize(
    ("model", "pre_tokenizer", "expected"),
    [
        (
            {"type": "WordPiece", "vocab": PIECES, "continuing_subword_prefix": "##"},
            None,
            [False, False, True],
        ),
        ({"type": "BPE", "vocab": SPACED}, {"type": "ByteLevel"}, [True, False, True]),
        (
            {"type": "Unigram", "vocab": [["<pad>", 0.0], ["\u2581play", -1.0], ["ing", -2.0]]},
            {
                "type": "Sequence",
                "pretokenizers": [
                    {"type": "WhitespaceSplit"},
                    {"type": "Metaspace", "replacement": "\u2581"},
                ],
            },
            [True, False, True],
        ),
        ({"type": "WordLevel", "vocab": PIECES}, None, [False] * 3),
        ({"type": "BPE", "vocab": SPACED}, None, None),
    ],
)
def test_continuations_follow_the_kind_of_tokenizer(
    model: dict[str, Any], pre_tokenizer: dict[str, Any] | None, expected: list[bool] | None
) -> None:
    special, continuations = read_word_parts(document(model, pre_tokenizer))
    assert special == (0,)
    assert (None if continuations is None else continuations.tolist()) == expected


@pytest.mark.parametrize("content", [b"{}", b"[]", b"no json", document({"type": "BPE"})])
def test_a_damaged_file_is_named(content: bytes) -> None:
    with pytest.raises(DatasetError, match=r"tokenizer.json cannot be read"):
        read_word_parts(content)
