"""The tokens of a dataset of text, as ``stoker info`` describes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.command_line import run
from helpers.datasets import WORDS

import stoker

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


def info(*arguments: object) -> str:
    return " ".join(run("info", *arguments).split())


def test_info_has_the_tokens_of_each_field(tmp_path: Path) -> None:
    rows = [{"q": "w " * (i + 1), "a": "one two"} for i in range(100)]
    stoker.convert_text(rows, tmp_path / "d", fields=["q", "a"], tokenizer=WORDS)
    tokens = json.loads(info(tmp_path / "d", "--json"))["tokens"]
    assert tokens["q"] == {
        "tokens": 5050,
        "percentiles": {"50": 50, "90": 90, "99": 99},
        "longest": 100,
        "longest_key": "00000099",
        "trained": None,
    }
    assert tokens["a"]["percentiles"] == {"50": 2, "90": 2, "99": 2}
    output = info(tmp_path / "d")
    assert "tokens, q 5,050: 50 % up to 50, 90 % up to 90, 99 % up to 99, longest 100 (00000099)" in output
    assert "trained" not in output


def test_info_has_the_share_of_trained_tokens(tmp_path: Path) -> None:
    rows = [{"q": "one two three ", "a": "four"}] * 3
    stoker.convert_text(
        rows, tmp_path / "d", fields=["q", "a"], tokenizer=WORDS, training=stoker.Training(train_on="a")
    )
    assert "trained, text 3, 25.0% of the tokens" in info(tmp_path / "d")
