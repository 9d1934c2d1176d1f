"""Special tokens around the texts of batches: of preference pairs, of mixtures, and of padding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.datasets import write_words

import stoker
from stoker.bucketing import PreferencePairs

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
