"""Vocabularies of conversions: their limits, one for several datasets, subwords, first and last tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.chats import FOLDER, make_pairs
from helpers.data.file_trees import read_files

import stoker
from stoker.errors import ConfigError, SourceError

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

TEXTS = ["b b b a a", "", "c a", "b d naïve"]


def ids_of(folder: Path) -> list[list[int]]:
    dataset = stoker.open(folder)
    dtype = str(dataset.manifest.options["dtype"])
    return [np.frombuffer(dataset.read(row), dtype).tolist() for row in range(len(dataset))]


def test_rare_words_and_words_beyond_the_limit_are_unknown(tmp_path: Path) -> None:
    stoker.convert_text(iter(TEXTS), tmp_path / "d", min_count=2, max_size=1)
    assert ids_of(tmp_path / "d") == [[4, 4, 4, 0, 0], [0, 0], [4, 0, 0]]
    stoker.convert_text(iter(TEXTS), tmp_path / "e", min_count=2)
    assert ids_of(tmp_path / "e") == [[4, 4, 4, 5, 5], [0, 5], [4, 0, 0]]


@pytest.mark.parametrize("tokenizer", ["whitespace", "bytes", "bpe"])
def test_validation_takes_the_vocabulary_of_training(tmp_path: Path, tokenizer: str) -> None:
    if tokenizer == "bpe":
        pytest.importorskip("tokenizers")
    stoker.convert_text(iter(TEXTS), tmp_path / "train", tokenizer=tokenizer)
    stoker.convert_text(iter(reversed(TEXTS)), tmp_path / "val", vocabulary=tmp_path / "train")
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
    stoker.convert_text(iter(TEXTS), tmp_path / "plain", tokenizer="bytes")
    summary = stoker.convert_text(iter(TEXTS), tmp_path / "d", tokenizer="bytes", bos=bos, eos=eos)
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
        stoker.convert_text(iter(TEXTS), tmp_path / "d", tokenizer=file, eos=True)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": {"content": "<|im_end|>"}}))
    stoker.convert_text(iter(TEXTS), tmp_path / "d", tokenizer=file, eos=True)
    assert {ids[-1] for ids in ids_of(tmp_path / "d")} == {2}


def test_damaged_settings_beside_a_tokenizer_are_named(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    (tmp_path / "tokenizer.json").write_bytes((FOLDER / "tokenizer.json").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(SourceError, match="settings cannot be read"):
        stoker.convert_text(iter(TEXTS), tmp_path / "d", tokenizer=tmp_path / "tokenizer.json", eos=True)


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
