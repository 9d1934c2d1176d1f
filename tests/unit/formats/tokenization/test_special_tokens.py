"""The special tokens around a sequence, compared with the package tokenizers."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.errors import DatasetError
from stoker.formats.tokenization.special_tokens import count_special_tokens

IDS = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "word": 3}


def processors() -> dict[str, Any]:
    """Post-processors by name, and None."""
    package = pytest.importorskip("tokenizers.processors")
    sep, cls = ("[SEP]", 2), ("[CLS]", 1)
    around = package.TemplateProcessing(single="[CLS] $A [SEP] [SEP]", special_tokens=[cls, sep])
    return {
        "none": None,
        "bytes": package.ByteLevel(),
        "template": around,
        "opening": package.TemplateProcessing(single="[CLS] $A", special_tokens=[cls]),
        "bert": package.BertProcessing(sep, cls),
        "roberta": package.RobertaProcessing(sep, cls),
        "sequence": package.Sequence([package.ByteLevel(), around]),
    }


@pytest.mark.parametrize("name", ["none", "bytes", "template", "opening", "bert", "roberta", "sequence"])
def test_the_counts_are_those_of_the_tokens_that_the_tokenizer_adds(name: str) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(IDS, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    if processor := processors()[name]:
        tokenizer.post_processor = processor
    ids = tokenizer.encode("word").ids
    opening = ids.index(IDS["word"])
    assert count_special_tokens(tokenizer.to_str().encode()) == (opening, len(ids) - opening - 1)


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b"{}", b'{"post_processor": {"type": "TemplateProcessing", "single": []}}']
)
def test_a_file_that_is_no_tokenizer_is_refused(content: bytes) -> None:
    with pytest.raises(DatasetError, match=r"tokenizer\.json cannot be read"):
        count_special_tokens(content)
