"""Tokenizers, compared with Python's split, UTF-8, and the package tokenizers."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker._native import WordCounts
from stoker.errors import ConfigError, SourceError
from stoker.formats.tokenization.tokenizers import (
    SPECIAL_TOKENS,
    ByteTokenizer,
    FileTokenizer,
    WhitespaceTokenizer,
)

TEXTS = ["the cat  sat", " the\tmat\n", "", "   ", "élan the"]

split_texts = st.lists(st.text(alphabet="ab \t\n\0\u00a0\u3000é\x1c😀", max_size=12), max_size=8)


def counted(*texts: str) -> WordCounts:
    counts = WordCounts()
    for text in texts:
        counts.add([text])
    return counts


@given(split_texts)
def test_words_and_their_offsets_are_those_of_split(texts: list[str]) -> None:
    tokenizer = WhitespaceTokenizer.build(counted(*texts))
    ids, lengths, starts, ends = tokenizer.encode_with_offsets(texts, special=True)
    expected = [text.split() for text in texts]
    words = [word for split in expected for word in split]
    assert lengths.tolist() == list(map(len, expected))
    assert [tokenizer.words[number - len(SPECIAL_TOKENS)] for number in ids] == words
    text_of = np.repeat(np.arange(len(texts)), lengths)
    assert [texts[i][a:b] for i, a, b in zip(text_of, starts, ends, strict=True)] == words
    assert [array.tolist() for array in tokenizer.encode(texts)] == [ids.tolist(), lengths.tolist()]


def test_every_character_separates_words_as_in_split() -> None:
    texts = [f"a{chr(code)}b" for code in range(0x3100) if chr(code) != "\ud800"]
    texts += [f"a{chr(code)}b" for code in range(0xE000, 0x110000, 251)]
    assert WhitespaceTokenizer(()).encode(texts)[1].tolist() == [len(text.split()) for text in texts]


def test_ten_thousand_words_and_a_long_one_have_different_ids() -> None:
    words = [*map(str, range(10_000)), "x" * 100_000]
    ids, _ = WhitespaceTokenizer(tuple(words)).encode([" ".join(words), " ".join(reversed(words))])
    expected = np.arange(4, 10_005)
    assert np.array_equal(ids, np.concatenate([expected, expected[::-1]]))


def test_the_vocabulary_is_frequent_first_then_by_code_point() -> None:
    counts = counted("b a b a", "z z z z z c", "[PAD] [PAD] [PAD]", "\uffff \U00010000")
    assert WhitespaceTokenizer.build(counts).words == ("z", "a", "b", "c", "\uffff", "\U00010000")
    tokenizer = WhitespaceTokenizer.build(counts, min_count=2, max_size=2)
    assert tokenizer.words == ("z", "a")
    assert tokenizer.vocab_size == 6
    assert tokenizer.vocab["[PAD]"] == tokenizer.pad_id == SPECIAL_TOKENS.index("[PAD]")


def test_half_of_a_surrogate_pair_is_refused() -> None:
    for encode in (WhitespaceTokenizer(()).encode, WordCounts().add):
        with pytest.raises(UnicodeEncodeError):
            encode(["fine", "\ud800"])


def test_an_unknown_word_is_unk() -> None:
    ids, _ = WhitespaceTokenizer(("known",)).encode(["known new"])
    assert ids.tolist() == [4, SPECIAL_TOKENS.index("[UNK]")]


@given(st.lists(st.text(max_size=9), max_size=5))
def test_byte_tokens_are_those_of_utf8(texts: list[str]) -> None:
    ids, lengths = ByteTokenizer().encode(texts)
    parts = np.split(ids, np.cumsum(lengths))[:-1]
    assert [bytes(part.tolist()).decode() for part in parts] == texts
    assert ByteTokenizer().pad_id >= 256


def test_the_file_of_a_whitespace_tokenizer_gives_the_same_ids_in_the_package_tokenizers(
    tmp_path: Path,
) -> None:
    tokenizer = WhitespaceTokenizer.build(counted(*TEXTS))
    path = tmp_path / "tokenizer.json"
    path.write_bytes(tokenizer.file)
    read_back = FileTokenizer(path)
    assert read_back.vocab_size == tokenizer.vocab_size
    assert read_back.pad_id == tokenizer.pad_id
    for texts in (TEXTS, ["the unknown mat"]):
        for ours, theirs in zip(tokenizer.encode(texts), read_back.encode(texts), strict=True):
            assert np.array_equal(ours, theirs)


def test_a_tokenizer_of_a_file_neither_pads_nor_truncates(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    padded = tokenizers.Tokenizer.from_buffer(WhitespaceTokenizer(("a", "b")).file)
    padded.enable_padding(pad_id=3, pad_token="[EOS]", length=6)
    padded.enable_truncation(2)
    padded.save(str(tmp_path / "t.json"))
    tokenizer = FileTokenizer(tmp_path / "t.json")
    _, lengths = tokenizer.encode(["a b a b a", "a"])
    assert lengths.tolist() == [5, 1]
    assert tokenizer.pad_id == 3


def test_files_that_are_no_tokenizers_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    with pytest.raises(ConfigError, match="whitespace, bytes, bpe, or a tokenizers JSON"):
        FileTokenizer(tmp_path / "words")
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(SourceError, match="no tokenizers JSON"):
        FileTokenizer(tmp_path / "t.json")
