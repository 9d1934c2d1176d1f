"""Tokenizers of bytes and files, their first and last tokens, and what loaders ask about them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.chats import FOLDER
from helpers.datasets import WORDS, write_words
from helpers.options import text_options
from hypothesis import given
from hypothesis import strategies as st

import stoker
from stoker.errors import ConfigError, DatasetError, SourceError
from stoker.formats.tokenization import (
    ByteTokenizer,
    FileTokenizer,
    count_special_tokens,
    make_decoder,
    read_word_parts,
)

TEXTS = ["b b b a a", "", "c a", "b d naïve"]

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")
tokenizers = pytest.importorskip("tokenizers")


@given(st.lists(st.text(max_size=9), max_size=5))
def test_byte_tokens_are_those_of_utf8(texts: list[str]) -> None:
    ids, lengths = ByteTokenizer().encode(texts)
    parts = np.split(ids, np.cumsum(lengths))[:-1]
    assert [bytes(part.tolist()).decode() for part in parts] == texts
    assert ByteTokenizer().pad_id >= 256


def test_a_tokenizer_of_a_file_neither_pads_nor_truncates(tmp_path: Path) -> None:
    padded = tokenizers.Tokenizer.from_file(str(write_words(tmp_path / "t.json", ("a", "b"))))
    padded.enable_padding(pad_id=3, pad_token="[EOS]", length=6)
    padded.enable_truncation(2)
    padded.save(str(tmp_path / "t.json"))
    tokenizer = FileTokenizer(tmp_path / "t.json")
    _, lengths = tokenizer.encode(["a b a b a", "a"])
    assert lengths.tolist() == [5, 1]
    assert tokenizer.pad_id == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokenizer": None}, "need a tokenizer"),
        ({"tokenizer": "whitespace"}, "must be bytes or the path of a tokenizers JSON, found 'whitespace'"),
        ({"tokenizer": "bpe"}, "library tokenizers"),
        ({"tokenizer": "lost.json"}, "the file cannot be read"),
        ({"tokenizer": "Qwen/Qwen3-8B"}, r"(?s)No such file .*save_pretrained\(NEW_FOLDER\)"),
        (
            {"tokenizer": tokenizers.Tokenizer(tokenizers.models.BPE())},
            r"found a Tokenizer\n.*t\.save\(FILE\)",
        ),
        ({"vocabulary": "x", "tokenizer": "bytes"}, "Leave out one"),
        ({"messages": "m", "chat_template": "chatml", "eos": True}, "chat template has"),
    ],
)
def test_arguments_that_name_no_tokenizer_are_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    if "chat_template" in options:
        pytest.importorskip("jinja2")
    with pytest.raises(ConfigError, match=message):
        stoker.convert_text(
            [{"text": "a", "m": []}], tmp_path / "d", **text_options({"tokenizer": WORDS, **options})
        )


def test_a_file_that_is_not_a_tokenizer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(SourceError, match=r"(?s)not a tokenizers JSON.* tokenizer\.model of SentencePiece"):
        FileTokenizer(tmp_path / "t.json")


def ids_of(folder: Path) -> list[list[int]]:
    dataset = stoker.open(folder)
    dtype = str(dataset.manifest.options["dtype"])
    return [np.frombuffer(dataset.read(row), dtype).tolist() for row in range(len(dataset))]


@pytest.mark.parametrize("tokenizer", [WORDS, "bytes"])
def test_validation_takes_the_vocabulary_of_training(tmp_path: Path, tokenizer: Any) -> None:
    stoker.convert_text(iter(TEXTS), tmp_path / "train", tokenizer=tokenizer)
    stoker.convert_text(iter(reversed(TEXTS)), tmp_path / "val", vocabulary=tmp_path / "train")
    assert ids_of(tmp_path / "val") == ids_of(tmp_path / "train")[::-1]
    train, val = (stoker.open(tmp_path / name).manifest.options for name in ("train", "val"))
    assert train == {**val, "strict": False}
    stoker.mix([(tmp_path / "train", 0.5), (tmp_path / "val", 0.5)])


@pytest.mark.parametrize(("bos", "eos"), [(True, True), (False, True), (True, False)])
def test_bos_begins_and_eos_ends_each_sequence_even_one_that_is_truncated(
    tmp_path: Path, bos: bool, eos: bool
) -> None:
    stoker.convert_text(iter(TEXTS), tmp_path / "plain", tokenizer="bytes")
    summary = stoker.convert_text(iter(TEXTS), tmp_path / "d", tokenizer="bytes", bos=bos, eos=eos)
    assert summary.skipped == {"no tokens": 1}  # an empty text does not become a lone token
    expected = [[*[257] * bos, *ids, *[258] * eos] for ids in ids_of(tmp_path / "plain")]
    assert ids_of(tmp_path / "d") == expected
    options: dict[str, Any] = {"batch_size": 1, "buckets": None, "columns": ("input_ids",)}
    shorten = stoker.MaxLength(4, too_long="truncate")
    loader = stoker.TextLoader(tmp_path / "d", max_length=shorten, **options)
    cut = [ids if len(ids) <= 4 else [*ids[: 4 - eos], *ids[len(ids) - eos :]] for ids in expected]
    assert [batch.input_ids[0].tolist() for batch in loader] == cut


def test_eos_after_a_trained_field_is_trained_and_bos_is_not(tmp_path: Path) -> None:
    pairs = [{"q": "one ", "a": "two"}, {"q": "three", "a": " four five"}]
    options = {"fields": ["q", "a"], "eos": True, "bos": True, "tokenizer": WORDS, "train_on": "a"}
    stoker.convert_text(pairs, tmp_path / "d", **text_options(options))
    (batch,) = stoker.TextLoader(tmp_path / "d", batch_size=2, buckets=None, columns=("labels",))
    ids = ids_of(tmp_path / "d")
    assert batch.labels.tolist() == [[-100, -100, *ids[0][2:], -100], [-100, -100, *ids[1][2:]]]


def test_the_settings_beside_a_tokenizer_name_its_tokens(tmp_path: Path) -> None:
    file, settings = tmp_path / "tokenizer.json", tmp_path / "tokenizer_config.json"
    file.write_bytes((FOLDER / "tokenizer.json").read_bytes())
    with pytest.raises(ConfigError, match="no token for eos"):
        stoker.convert_text(iter(TEXTS), tmp_path / "d", tokenizer=file, eos=True)
    settings.write_text("{")
    with pytest.raises(SourceError, match="settings cannot be read"):
        stoker.convert_text(iter(TEXTS), tmp_path / "d", tokenizer=file, eos=True)
    settings.write_text(json.dumps({"eos_token": {"content": "<|im_end|>"}}))
    stoker.convert_text(iter(TEXTS), tmp_path / "d", tokenizer=file, eos=True)
    assert {ids[-1] for ids in ids_of(tmp_path / "d")} == {2}


SETTINGS: dict[str, Any] = {
    "bos_token": {"content": "go"},
    "eos_token": "stop",
    "pad_token": "hold",
    "add_bos_token": True,
    "chat_template": "{{ bos_token }}{% for m in messages %} {{ m.content }}{% endfor %} {{ eos_token }}",
}
GO, STOP, HOLD = 4, 5, 6


def write_settled(folder: Path, settings: dict[str, Any] = SETTINGS, name: str = "config") -> Path:
    """Write a tokenizer of words with settings beside it; return its path."""
    folder.mkdir(exist_ok=True)
    (folder / f"tokenizer_{name}.json").write_text(json.dumps(settings))
    return write_words(folder / "tokenizer.json", ("go", "stop", "hold", "a", "b"))


LATER: dict[str, Callable[..., Any]] = {
    "vocabulary": lambda d, rows, new, **ends: stoker.convert_text(rows, new, vocabulary=d, **ends),
    "file": lambda d, rows, new, **ends: stoker.convert_text(
        rows, new, tokenizer=d / "tokenizer.json", **ends
    ),
    "folder": lambda d, rows, new, **ends: stoker.convert_text(rows, new, tokenizer=d, **ends),
}


@pytest.mark.parametrize("later", LATER)
def test_a_dataset_keeps_the_special_tokens_and_the_template_of_its_tokenizer(
    tmp_path: Path, later: str
) -> None:
    file = write_settled(tmp_path / "t")
    texts, chats = [{"text": "a b"}], [{"m": [{"content": "a", "role": "user"}]}]
    training = stoker.Training("m", train_on="all")
    stoker.convert_text(texts, tmp_path / "d", tokenizer=file.parent, bos=True, eos=True)
    shutil.rmtree(file.parent)
    LATER[later](tmp_path / "d", texts, tmp_path / "new", bos=True, eos=True)
    LATER[later](tmp_path / "d", chats, tmp_path / "chats", training=training)
    LATER["vocabulary"](tmp_path / "chats", chats, tmp_path / "more", training=training)
    stoker.append(tmp_path / "d", [{"text": "b"}])
    stoker.append(tmp_path / "chats", [{"m": [{"content": "b", "role": "user"}]}])
    assert ids_of(tmp_path / "d") == [[GO, 7, 8, STOP], [GO, 8, STOP]]
    assert ids_of(tmp_path / "new") == [[GO, 7, 8, STOP]]
    assert ids_of(tmp_path / "chats") == [[GO, 7, STOP], [GO, 8, STOP]]
    assert ids_of(tmp_path / "more") == [[GO, 7, STOP]]
    for name in ("d", "new", "chats", "more"):
        assert stoker.open(tmp_path / name).manifest.options["pad_id"] == HOLD


def test_chats_keep_the_template_that_made_them(tmp_path: Path) -> None:
    template, file = tmp_path / "own.jinja", write_settled(tmp_path / "t")
    template.write_text("{{ messages[0].content }} {{ eos_token }} stop")
    chats = [{"m": [{"content": "a", "role": "user"}]}]
    training = stoker.Training("m", template, "all")
    stoker.convert_text(chats, tmp_path / "d", tokenizer=file, training=training)
    template.unlink()
    stoker.append(tmp_path / "d", [{"m": [{"content": "b", "role": "user"}]}])
    assert ids_of(tmp_path / "d") == [[7, STOP, STOP], [8, STOP, STOP]]


@pytest.mark.parametrize(
    ("settings", "name", "expected"),
    [
        (SETTINGS, "config", HOLD),
        ({**SETTINGS, "pad_token": None}, "config", 1),  # [PAD]
        ({}, "config", 1),
    ],
)
def test_padding_is_the_token_that_the_settings_name(
    tmp_path: Path, settings: dict[str, Any], name: str, expected: int
) -> None:
    assert FileTokenizer(write_settled(tmp_path / "t", settings, name)).pad_id == expected


def test_the_map_of_special_tokens_names_what_the_settings_leave_out(tmp_path: Path) -> None:
    file = write_settled(tmp_path, {"bos_token": None, "eos_token": "b"})
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(SETTINGS))
    tokens = FileTokenizer(file).settings.special_tokens
    assert tokens == {"bos_token": "go", "eos_token": "b", "pad_token": "hold"}


def test_settings_belong_to_the_file_of_the_name_that_tokenizers_have(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"pad_token": "b"}))
    assert FileTokenizer(write_words(tmp_path / "other.json", "ab")).pad_id == 5
    write_words(tmp_path / "tokenizer.json", "ba")
    assert FileTokenizer(tmp_path / "other.json").pad_id == 1
    assert FileTokenizer(tmp_path).pad_id == 4


def test_padding_without_a_token_of_its_own_is_the_last_token(tmp_path: Path) -> None:
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "stop": 1}, unk_token="a"))
    words.save(str(tmp_path / "tokenizer.json"))
    assert FileTokenizer(tmp_path).pad_id == 0
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "stop"}))
    assert FileTokenizer(tmp_path).pad_id == 1


@pytest.mark.parametrize("role", ["bos_token", "eos_token", "pad_token"])
def test_a_special_token_that_the_tokenizer_lacks_is_refused(tmp_path: Path, role: str) -> None:
    file = write_settled(tmp_path / "t", {**SETTINGS, role: "lost"})
    with pytest.raises(ConfigError, match=f"{role} must be a token of the tokenizer, found 'lost'"):
        stoker.convert_text(iter(["a"]), tmp_path / "d", tokenizer=file, bos=True, eos=True)


IDS = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "word": 3}


SEP, CLS = ("[SEP]", 2), ("[CLS]", 1)
AROUND = tokenizers.processors.TemplateProcessing(single="[CLS] $A [SEP] [SEP]", special_tokens=[CLS, SEP])
PROCESSORS = {
    "none": None,
    "bytes": tokenizers.processors.ByteLevel(),
    "template": AROUND,
    "opening": tokenizers.processors.TemplateProcessing(single="[CLS] $A", special_tokens=[CLS]),
    "bert": tokenizers.processors.BertProcessing(SEP, CLS),
    "roberta": tokenizers.processors.RobertaProcessing(SEP, CLS),
    "sequence": tokenizers.processors.Sequence([tokenizers.processors.ByteLevel(), AROUND]),
}


@pytest.mark.parametrize("name", PROCESSORS)
def test_the_counts_are_those_of_the_tokens_that_the_tokenizer_adds(name: str) -> None:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(IDS, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    if processor := PROCESSORS[name]:
        tokenizer.post_processor = processor
    ids = tokenizer.encode("word").ids
    opening = ids.index(IDS["word"])
    assert count_special_tokens(tokenizer.to_str().encode()) == (opening, len(ids) - opening - 1)


PIECES = {"[CLS]": 0, "play": 1, "##ing": 2}
SPACED = {"[CLS]": 0, "\u0120play": 1, "ing": 2}
UNIGRAM = [("[CLS]", 0.0), ("\u2581play", -1.0), ("ing", -2.0)]


models, before = tokenizers.models, tokenizers.pre_tokenizers
UNIGRAMS, SPACED_BPE = models.Unigram(UNIGRAM, 0), models.BPE(SPACED, [])
# Models, pre-tokenizers, and whether each id continues a word
WORD_PARTS: dict[str, tuple[Any, Any, list[bool] | None]] = {
    "WordPiece": (models.WordPiece(PIECES, unk_token="[CLS]"), None, [False, False, True]),
    "ByteLevel": (SPACED_BPE, before.ByteLevel(), [True, False, True]),
    "Metaspace": (UNIGRAMS, before.Metaspace(), [True, False, True]),
    "Sequence": (
        UNIGRAMS,
        before.Sequence([before.WhitespaceSplit(), before.Metaspace()]),
        [True, False, True],
    ),
    "WordLevel": (models.WordLevel(PIECES, unk_token="[CLS]"), before.Whitespace(), [False] * 3),
    "BPE alone": (SPACED_BPE, None, None),
    "BPE of words": (SPACED_BPE, before.Whitespace(), None),
}


@pytest.mark.parametrize("name", WORD_PARTS)
def test_continuations_follow_the_kind_of_tokenizer(name: str) -> None:
    model, pre_tokenizer, expected = WORD_PARTS[name]
    tokenizer = tokenizers.Tokenizer(model)
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.add_special_tokens(["[CLS]"])
    tokenizer.add_tokens(["word"])
    special, continuations = read_word_parts(tokenizer.to_str().encode())
    assert special == (0,)
    assert (None if continuations is None else continuations.tolist()) == expected


@pytest.mark.parametrize(
    "value",
    ["{", "[]", 7, '{"special_tokens": {"eos_token": 1}}', '{"special_tokens": 1}', '{"chat_template": 1}'],
)
def test_damaged_settings_of_a_dataset_are_named(tmp_path: Path, value: Any) -> None:
    stoker.convert_text(iter(["a"]), tmp_path / "d", tokenizer=write_settled(tmp_path / "t"))
    manifest = json.loads((tmp_path / "d" / "dataset.json").read_text())
    manifest["options"]["tokenizer_settings"] = value
    (tmp_path / "d" / "dataset.json").write_text(json.dumps(manifest))
    with pytest.raises(DatasetError, match="settings of the tokenizer in dataset"):
        stoker.convert_text(iter(["a"]), tmp_path / "new", vocabulary=tmp_path / "d")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("chat_template.jinja", b"\xff"),
        ("tokenizer_config.json", b"\xff"),
        ("special_tokens_map.json", b"{"),
        ("tokenizer_config.json", b'{"chat_template": "\\ud800"}'),
    ],
)
def test_damaged_settings_beside_a_tokenizer_are_named(tmp_path: Path, name: str, content: bytes) -> None:
    file = write_settled(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=r"settings (cannot be read|have half of)") as raised:
        FileTokenizer(file)
    assert str(raised.value.path) == str(tmp_path / name)


@pytest.mark.parametrize("content", [b"{", b"[]", b"{}", b"no json"])
@pytest.mark.parametrize("read", [count_special_tokens, read_word_parts, make_decoder])
def test_a_damaged_file_of_a_dataset_is_named(read: Callable[[bytes], object], content: bytes) -> None:
    with pytest.raises(DatasetError, match=r"tokenizer.json cannot be read"):
        read(content)


@pytest.mark.parametrize("model", ["words", "unigram", "bytes"])
def test_a_dataset_knows_the_ids_of_its_tokens(tmp_path: Path, model: str) -> None:
    file: Any = "bytes"
    if model == "words":
        file = write_settled(tmp_path / "t")
    elif model == "unigram":
        pieces = tokenizers.Tokenizer(UNIGRAMS)
        pieces.add_special_tokens(["<end>"])
        (file := tmp_path / "t.json").write_text(pieces.to_str())
    stoker.convert_text(iter(["a"]), tmp_path / "d", tokenizer=file)
    dataset = stoker.open(tmp_path / "d")
    known = {
        "words": {"stop": STOP, "eos_token": STOP, "b": 8},
        "unigram": {"ing": 2, "<end>": 3},
        "bytes": {"[EOS]": 258},
    }
    assert {token: dataset.token_id(token) for token in known[model]} == known[model]
    with pytest.raises(ConfigError, match="token must be a token of the tokenizer, found 'lost'"):
        dataset.token_id("lost")
    if model != "bytes":
        (tmp_path / "d" / "tokenizer.json").write_text('{"model": {"vocab": 1}}')
        with pytest.raises(DatasetError, match="cannot be read"):
            dataset.token_id("b")
