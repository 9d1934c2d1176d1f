"""PreferencePairs: prompts joined with two answers, padded, packed and cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stoker.bucketing import Packed, PreferencePairs, Ragged
from stoker.errors import ConfigError

PROMPTS, CHOSEN, REJECTED = [[1, 2, 3], [7, 8]], [[4, 5], [9]], [[6], [10, 11]]
SAMPLES = {"prompt": PROMPTS, "chosen": CHOSEN, "rejected": REJECTED}


def test_the_arrays_are_those_of_the_example_of_trl() -> None:
    """The docstring of ``DataCollatorForPreference`` in trl 1.16."""
    made = PreferencePairs()(SAMPLES)
    assert made["input_ids"].tolist() == [
        [1, 2, 3, 4, 5],
        [7, 8, 9, 0, 0],
        [1, 2, 3, 6, 0],
        [7, 8, 10, 11, 0],
    ]
    assert made["attention_mask"].astype(int).sum(axis=1).tolist() == [5, 3, 4, 4]
    assert made["completion_mask"].astype(int).tolist() == [
        [0, 0, 0, 1, 1],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 1, 0],
        [0, 0, 1, 1, 0],
    ]


@pytest.mark.parametrize(
    ("truncation", "expected"),
    [
        ("keep_start", [[1, 2, 3, 4], [7, 8, 9, 99], [1, 2, 3, 6], [7, 8, 10, 11]]),
        ("keep_end", [[3, 4, 5, 99], [7, 8, 9, 99], [2, 3, 6, 99], [8, 10, 11, 99]]),
    ],
)
def test_long_sequences_are_cut_and_answers_end(truncation: Any, expected: list[list[int]]) -> None:
    pairs = PreferencePairs(end_id=99, max_length=4, truncation=truncation)
    made = pairs(SAMPLES)
    assert made["input_ids"].tolist() == expected
    lengths = np.array([[3, 2, 1], [2, 1, 2]])
    assert pairs.planned_lengths(lengths, packs=True).tolist() == [[4, 4], [4, 4]]
    assert PreferencePairs(end_id=99).planned_lengths(lengths, packs=False).tolist() == [[6], [5]]


def test_packed_rows_hold_the_same_pairs() -> None:
    def packed(sequences: list[list[int]]) -> Packed:
        ends = np.cumsum([0, *map(len, sequences)])
        return Packed(Ragged(np.concatenate(sequences), ends), np.array([0, 2]))

    made = PreferencePairs(outputs=("input_ids", "segment_ids", "position_ids", "completion_mask", "labels"))(
        {name: packed(sequences) for name, sequences in SAMPLES.items()}, (9, 9)
    )
    assert made["input_ids"].tolist() == [[1, 2, 3, 4, 5, 7, 8, 9, 0], [1, 2, 3, 6, 7, 8, 10, 11, 0]]
    assert made["segment_ids"].tolist() == [[1] * 5 + [2] * 3 + [0], [1] * 4 + [2] * 4 + [0]]
    assert (made["labels"] == np.where(made["completion_mask"], made["input_ids"], -100)).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fields": ("prompt", "chosen")}, "a prompt and two answers"),
        ({"outputs": ("lengths",)}, "outputs must be one of"),
        ({"truncation": "end"}, "truncation must be one of"),
        ({"max_length": 0}, "max_length must be at least 1"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PreferencePairs(**options)
