"""Special tokens around the texts of batches: of preference pairs, of mixtures, and of padding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.datasets import write_words

import stoker
from stoker.bucketing import PreferencePairs, SpanCorruption
from stoker.errors import ConfigError

tokenizers = pytest.importorskip("tokenizers")
pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

BOS, EOS, END = 2, 3, 6  # of helpers.datasets.write_words, and the word "end"


def write_tokenizer(path: Path, single: str) -> Path:
    """Write a tokenizer of a few words that puts its own special tokens around a text."""
    words = tokenizers.Tokenizer.from_file(str(write_words(path, ("a", "b", "end", "c", "d"))))
    words.post_processor = tokenizers.processors.TemplateProcessing(
        single=single, special_tokens=[("[BOS]", BOS), ("[EOS]", EOS)]
    )
    words.save(str(path))
    return path


FRAMES: list[tuple[str, dict[str, bool], int, bool]] = [
    ("$A", {}, 0, False),
    ("[BOS] $A", {}, 1, False),
    ("[BOS] [BOS] $A [EOS]", {}, 2, True),
    ("$A [EOS]", {"bos": True}, 1, True),
    ("$A", {"bos": True, "eos": True}, 1, True),
]


@pytest.mark.parametrize("pack", [None, 24])
@pytest.mark.parametrize("end_id", [None, END, EOS])
@pytest.mark.parametrize(("single", "ends", "opening", "closes"), FRAMES)
def test_a_pair_begins_and_ends_once_and_has_no_special_token_in_the_middle(
    tmp_path: Path, single: str, ends: Any, opening: int, closes: bool, end_id: int | None, pack: int | None
) -> None:
    tokenizer = write_tokenizer(tmp_path / "t.json", single)
    pair = {"prompt": "a b", "chosen": "c d c", "rejected": "d end"}
    stoker.convert_text([pair], tmp_path / "d", fields=[*pair], tokenizer=tokenizer, **ends)
    pairs = PreferencePairs(end_id=end_id, outputs=("input_ids", "completion_mask"))
    (batch,) = stoker.TextLoader(tmp_path / "d", batch_size=1, batchify=pairs, pack=pack)
    prompt = [*[BOS] * opening, 4, 5]
    for row, answer in enumerate(([7, 8, 7], [8, END])):
        last = [end_id] if end_id is not None else [EOS] * closes
        expected = [*prompt, *answer, *(last if [end_id] != answer[-1:] else [])]
        padding = [0] * (len(batch.input_ids[row]) - len(expected))
        assert batch.input_ids[row].tolist() == [*expected, *[1 for _ in padding]]
        trained = [0] * len(prompt) + [1] * (len(expected) - len(prompt))
        assert batch.completion_mask[row].astype(int).tolist() == trained + padding


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "eos": {"eos": True},
    "both": {"bos": True, "eos": True},
    "chats": {"training": stoker.Training("text", "template.jinja", "all")},
}


def convert_kinds(folder: Path, tokenizer: Any, kinds: tuple[str, ...]) -> list[Path]:
    """Convert one text of four words, or a chat of it, with different special tokens around."""
    (folder / "template.jinja").write_text("{{ messages[0].content }}")
    for kind in kinds:
        chat = [{"role": "user", "content": "a b c d"}]
        rows = [{"text": chat if kind == "chats" else "a b c d"}]
        stoker.convert_text(rows, folder / kind, tokenizer=tokenizer, **KINDS[kind])
    return [folder / kind for kind in kinds]


@pytest.mark.parametrize("single", ["$A", "[BOS] $A"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_cut_keeps_the_special_tokens_that_each_dataset_of_a_mixture_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, single: str, turned: bool
) -> None:
    pytest.importorskip("jinja2")
    monkeypatch.chdir(tmp_path)
    tokenizer = write_tokenizer(tmp_path / "t.json", single)
    kinds = ("chats", "plain", "eos") if turned else ("eos", "plain", "chats")
    folders = convert_kinds(tmp_path, tokenizer, kinds)
    mixture = stoker.mix([(folder, 1 / 3) for folder in folders], samples=3)
    short = stoker.MaxLength(3, "truncate")
    columns = ("input_ids", "dataset", "labels")
    (batch,) = stoker.TextLoader(mixture, batch_size=3, max_length=short, columns=columns)
    opening = [] if single == "$A" else [BOS]
    expected = {
        "plain": [*opening, 4, 5, 7][:3],
        "eos": [*[*opening, 4, 5][:2], EOS],
        "chats": [4, 5, 7],
    }
    found = dict(zip(batch.dataset.tolist(), batch.input_ids.tolist(), strict=True))
    assert [found[number] for number in range(3)] == [expected[kind] for kind in kinds]
    assert np.array_equal(batch.labels[:, 1:], batch.input_ids[:, 1:])


@pytest.mark.parametrize(
    "options",
    [
        {"labels": SpanCorruption(0.5, sentinels=range(10, 20))},
        {"batchify": PreferencePairs(fields=("a", "b", "c"))},
    ],
)
def test_what_needs_one_frame_refuses_a_mixture_of_two(tmp_path: Path, options: dict[str, Any]) -> None:
    fields = ["a", "b", "c"] if "batchify" in options else ["a"]
    for name in ("one", "two"):
        texts = [dict.fromkeys(fields, "text")]
        stoker.convert_text(texts, tmp_path / name, fields=fields, tokenizer="bytes", eos=name == "two")
    mixture = stoker.mix([(tmp_path / "one", 0.5), (tmp_path / "two", 0.5)], samples=2)
    with pytest.raises(ConfigError, match="found 0 and 0, and 0 and 1") as raised:
        stoker.TextLoader(mixture, batch_size=1, **options)
    assert str(tmp_path / "two") in str(raised.value)


@pytest.mark.parametrize("name", ["bos", "eos"])
def test_texts_with_other_first_and_last_tokens_form_no_mixture_and_no_dataset(
    tmp_path: Path, name: str
) -> None:
    for folder, token in (("x", "a"), ("y", "b"), ("z", "a")):
        (tmp_path / folder).mkdir()
        file = write_words(tmp_path / folder / "tokenizer.json", ("a", "b", "c"))
        (file.parent / "tokenizer_config.json").write_text(json.dumps({f"{name}_token": token}))
        stoker.convert_text(iter(["c c"]), tmp_path / f"d{folder}", tokenizer=file, **{name: True})
    stoker.convert_text(iter(["c"]), tmp_path / "plain", vocabulary=tmp_path / "dx")
    plain, x, y, z = (tmp_path / folder for folder in ("plain", "dx", "dy", "dz"))
    stoker.mix([(plain, 0.3), (x, 0.3), (z, 0.4)])
    with pytest.raises(ConfigError, match=f"one token for {name}, found a and b") as raised:
        stoker.mix([(plain, 0.3), (x, 0.3), (y, 0.4)])
    assert str(y) in str(raised.value)
    for other in (y, plain):
        with pytest.raises(ConfigError, match="differ in special tokens around texts"):
            stoker.merge([x, other], tmp_path / "merged")
    assert stoker.merge([x, z], tmp_path / "merged").samples == 2
    assert stoker.open(tmp_path / "merged").manifest.options[name] is True
