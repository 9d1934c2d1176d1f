"""Tokenizers, compared with Python's split, UTF-8, and the package tokenizers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.chats import FOLDER, make_pairs
from helpers.data.file_trees import read_files
from hypothesis import given
from hypothesis import strategies as st

import stoker
from stoker._native import WordCounts
from stoker.errors import ConfigError, DatasetError, SourceError
from stoker.formats.tokenization.tokenizers import (
    SPECIAL_TOKENS,
    ByteTokenizer,
    FileTokenizer,
    WhitespaceTokenizer,
    count_special_tokens,
    read_word_parts,
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


pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

TEXTS_choice = ["b b b a a", "", "c a", "b d naïve"]


def ids_of(folder: Path) -> list[list[int]]:
    dataset = stoker.open(folder)
    dtype = str(dataset.manifest.options["dtype"])
    return [np.frombuffer(dataset.read(row), dtype).tolist() for row in range(len(dataset))]


def test_rare_words_and_words_beyond_the_limit_are_unknown(tmp_path: Path) -> None:
    stoker.convert_text(iter(TEXTS_choice), tmp_path / "d", min_count=2, max_size=1)
    assert ids_of(tmp_path / "d") == [[4, 4, 4, 0, 0], [0, 0], [4, 0, 0]]
    stoker.convert_text(iter(TEXTS_choice), tmp_path / "e", min_count=2)
    assert ids_of(tmp_path / "e") == [[4, 4, 4, 5, 5], [0, 5], [4, 0, 0]]


@pytest.mark.parametrize("tokenizer", ["whitespace", "bytes", "bpe"])
def test_validation_takes_the_vocabulary_of_training(tmp_path: Path, tokenizer: str) -> None:
    if tokenizer == "bpe":
        pytest.importorskip("tokenizers")
    stoker.convert_text(iter(TEXTS_choice), tmp_path / "train", tokenizer=tokenizer)
    stoker.convert_text(iter(reversed(TEXTS_choice)), tmp_path / "val", vocabulary=tmp_path / "train")
    assert ids_of(tmp_path / "val") == ids_of(tmp_path / "train")[::-1]
    train, val = (stoker.open(tmp_path / name).manifest.options for name in ("train", "val"))
    assert train == {**val, "strict": False}
    stoker.mix([(tmp_path / "train", 0.5), (tmp_path / "val", 0.5)])


def test_subwords_are_the_same_for_the_same_texts_and_decode_to_them(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    texts = [text for pair in make_pairs() for text in pair.values()]
    for name, threads in (("a", 1), ("b", 4)):
        stoker.convert_text(
            iter(texts), tmp_path / name, tokenizer="bpe", max_size=290, num_threads=threads, eos=True
        )
    assert read_files(tmp_path / "a") == read_files(tmp_path / "b")
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "a" / "tokenizer.json"))
    sequences = ids_of(tmp_path / "a")
    assert [tokenizer.decode(ids[:-1]) for ids in sequences] == texts
    assert {ids[-1] for ids in sequences} == {tokenizer.token_to_id("[EOS]")}
    assert stoker.open(tmp_path / "a").manifest.options["vocab_size"] == 290


@pytest.mark.parametrize(("bos", "eos"), [(True, True), (False, True), (True, False)])
def test_bos_begins_and_eos_ends_each_sequence_even_one_that_is_truncated(
    tmp_path: Path, bos: bool, eos: bool
) -> None:
    stoker.convert_text(iter(TEXTS_choice), tmp_path / "plain", tokenizer="bytes")
    summary = stoker.convert_text(iter(TEXTS_choice), tmp_path / "d", tokenizer="bytes", bos=bos, eos=eos)
    assert summary.skipped == {"no tokens": 1}  # an empty text does not become a lone token
    expected = [[*[257] * bos, *ids, *[258] * eos] for ids in ids_of(tmp_path / "plain")]
    assert ids_of(tmp_path / "d") == expected
    loader = stoker.TextLoader(
        tmp_path / "d", batch_size=1, buckets=None, max_length=4, too_long="truncate", columns=("input_ids",)
    )
    cut = [ids if len(ids) <= 4 else [*ids[: 4 - eos], *ids[len(ids) - eos :]] for ids in expected]
    assert [batch.input_ids[0].tolist() for batch in loader] == cut


def test_eos_after_a_trained_field_is_trained_and_bos_is_not(tmp_path: Path) -> None:
    pairs = [{"q": "one ", "a": "two"}, {"q": "three", "a": " four five"}]
    stoker.convert_text(pairs, tmp_path / "d", fields=["q", "a"], train_on="a", eos=True, bos=True)
    (batch,) = stoker.TextLoader(tmp_path / "d", batch_size=2, buckets=None, columns=("labels",))
    ids = ids_of(tmp_path / "d")
    assert batch.labels.tolist() == [[-100, -100, *ids[0][2:], -100], [-100, -100, *ids[1][2:]]]


def test_the_settings_beside_a_tokenizer_name_its_tokens(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    file = tmp_path / "tokenizer.json"
    file.write_bytes((FOLDER / "tokenizer.json").read_bytes())
    with pytest.raises(ConfigError, match="no token for eos"):
        stoker.convert_text(iter(TEXTS_choice), tmp_path / "d", tokenizer=file, eos=True)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": {"content": "<|im_end|>"}}))
    stoker.convert_text(iter(TEXTS_choice), tmp_path / "d", tokenizer=file, eos=True)
    assert {ids[-1] for ids in ids_of(tmp_path / "d")} == {2}


def test_damaged_settings_beside_a_tokenizer_are_named(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    (tmp_path / "tokenizer.json").write_bytes((FOLDER / "tokenizer.json").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(SourceError, match="settings cannot be read"):
        stoker.convert_text(
            iter(TEXTS_choice), tmp_path / "d", tokenizer=tmp_path / "tokenizer.json", eos=True
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_count": 0}, "integer from 1"),
        ({"max_size": 9, "tokenizer": "bytes"}, "has one"),
        ({"vocabulary": "x", "tokenizer": "bytes"}, "leave out one"),
        ({"messages": "m", "chat_template": "chatml", "eos": True}, "chat template has"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    if "chat_template" in options:
        pytest.importorskip("jinja2")
    with pytest.raises(ConfigError, match=message):
        stoker.convert_text([{"text": "a", "m": []}], tmp_path / "d", **options)


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
