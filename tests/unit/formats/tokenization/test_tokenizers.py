"""Tokenizers, compared with Python's split, UTF-8, and the package tokenizers."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker._native import WordCounts
from stoker.errors import ConfigError, SourceError
from stoker.formats.tokenization.tokenizers import SPECIAL_TOKENS, Bytes, File, Whitespace

TEXTS = ["the cat  sat", " the\tmat\n", "", "   ", "élan the"]

words = st.lists(st.text(alphabet="ab \t\n\0\u00a0\u3000é\x1c😀", max_size=12), max_size=8)


def counted(*texts: str) -> WordCounts:
    counts = WordCounts()
    for text in texts:
        counts.add([text])
    return counts


@given(words)
def test_words_and_their_places_are_those_of_split(texts: list[str]) -> None:
    tokenizer = Whitespace.build(counted(*texts))
    ids, lengths, starts, ends = tokenizer.encode_with_offsets(texts, special=True)
    expected = [text.split() for text in texts]
    assert lengths.tolist() == [len(one) for one in expected]
    assert [tokenizer.words[number - 4] for number in ids] == [word for one in expected for word in one]
    owners = np.repeat(np.arange(len(texts)), lengths)
    assert [texts[i][a:b] for i, a, b in zip(owners, starts, ends, strict=True)] == [
        word for one in expected for word in one
    ]
    assert [one.tolist() for one in tokenizer.encode(texts)] == [ids.tolist(), lengths.tolist()]


def test_every_character_separates_words_as_in_split() -> None:
    texts = [f"a{chr(code)}b" for code in range(0x3100) if chr(code) != "\ud800"]
    texts += [f"a{chr(code)}b" for code in range(0xE000, 0x110000, 251)]
    assert Whitespace(()).encode(texts)[1].tolist() == [len(text.split()) for text in texts]


def test_many_words_and_a_long_one_have_their_own_ids() -> None:
    given = [*map(str, range(10_000)), "x" * 100_000]
    ids, _ = Whitespace(tuple(given)).encode([" ".join(given), " ".join(reversed(given))])
    expected = np.arange(4, 10_005)
    assert np.array_equal(ids, np.concatenate([expected, expected[::-1]]))


def test_the_vocabulary_is_frequent_first_then_by_code_point() -> None:
    counts = counted("b a b a", "z z z z z c", "[PAD] [PAD] [PAD]", "\uffff \U00010000")
    assert Whitespace.build(counts).words == ("z", "a", "b", "c", "\uffff", "\U00010000")
    tokenizer = Whitespace.build(counts, min_count=2, max_size=2)
    assert tokenizer.words == ("z", "a")
    assert tokenizer.vocab_size == 6
    assert tokenizer.vocab["[PAD]"] == tokenizer.pad_id == SPECIAL_TOKENS.index("[PAD]")


def test_half_of_a_surrogate_pair_is_refused() -> None:
    for encode in (Whitespace(()).encode, WordCounts().add):
        with pytest.raises(UnicodeEncodeError):
            encode(["fine", "\ud800"])


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
    tokenizer = Whitespace.build(counted(*TEXTS))
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
