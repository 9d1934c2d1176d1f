"""Tokenizers, compared with Python's split, UTF-8, and the package tokenizers."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.errors import ConfigError, SourceError
from stoker.formats.tokenization.tokenizers import SPECIAL_TOKENS, Bytes, File, Whitespace, count_words

TEXTS = ["the cat  sat", " the\tmat\n", "", "   ", "élan the"]

words = st.lists(st.text(alphabet="ab \t\n\u00a0\u3000é\x1c", max_size=12), max_size=8)


@given(words)
def test_words_are_those_of_split(texts: list[str]) -> None:
    expected = Counter(word for text in texts for word in text.split())
    assert count_words(texts) == expected
    tokenizer = Whitespace.build([expected])
    ids, lengths = tokenizer.encode(texts)
    assert lengths.tolist() == [len(text.split()) for text in texts]
    assert [tokenizer.words[number - 4] for number in ids] == [w for text in texts for w in text.split()]


def test_the_vocabulary_is_frequent_first_then_by_code_point() -> None:
    tokenizer = Whitespace.build([Counter(b=2, a=2), Counter(z=5, c=1, **{"[PAD]": 9})])
    assert tokenizer.words == ("z", "a", "b", "c")
    assert tokenizer.vocab_size == 8
    assert tokenizer.vocab["[PAD]"] == tokenizer.pad_id == SPECIAL_TOKENS.index("[PAD]")


def test_an_unknown_word_is_unk() -> None:
    ids, _ = Whitespace(("known",)).encode(["known new"])
    assert ids.tolist() == [4, 0]


@given(st.lists(st.text(max_size=9), max_size=5))
def test_bytes_are_utf8(texts: list[str]) -> None:
    ids, lengths = Bytes().encode(texts)
    parts = np.split(ids, np.cumsum(lengths))[:-1]
    assert [bytes(part.tolist()).decode() for part in parts] == texts
    assert Bytes().pad_id >= 256


def test_the_whitespace_file_is_one_that_tokenizers_reads(tmp_path: Path) -> None:
    tokenizer = Whitespace.build([count_words(TEXTS)])
    path = tmp_path / "tokenizer.json"
    path.write_bytes(tokenizer.file)
    again = File(path)
    assert again.vocab_size == tokenizer.vocab_size
    assert again.pad_id == tokenizer.pad_id
    for texts in (TEXTS, ["the unknown mat"]):
        for ours, theirs in zip(tokenizer.encode(texts), again.encode(texts), strict=True):
            assert np.array_equal(ours, theirs)


def test_a_file_neither_pads_nor_truncates(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer.from_buffer(Whitespace(("a", "b")).file)
    made.enable_padding(pad_id=3, pad_token="[EOS]", length=6)
    made.enable_truncation(2)
    made.save(str(tmp_path / "t.json"))
    tokenizer = File(tmp_path / "t.json")
    _, lengths = tokenizer.encode(["a b a b a", "a"])
    assert lengths.tolist() == [5, 1]
    assert tokenizer.pad_id == 3


def test_files_that_are_no_tokenizers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="whitespace, bytes, bpe, or a tokenizers JSON"):
        File(tmp_path / "words")
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(SourceError, match="no tokenizers JSON"):
        File(tmp_path / "t.json")
