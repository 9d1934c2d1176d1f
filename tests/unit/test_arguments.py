"""Arguments that several public functions have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.datasets import WORDS

import stoker
from stoker.errors import ConfigError
from stoker.formats.in_place.shards import index as make_index
from stoker.formats.remote.stage import stage


@pytest.mark.parametrize(
    "call",
    [
        lambda folder: stoker.convert(folder, folder / "d", progress=True),
        lambda folder: stoker.convert_text(folder / "t.txt", folder / "d", progress=True, tokenizer=WORDS),
        lambda folder: make_index([folder / "t.tfrecord"], folder / "d", progress=True),
        lambda folder: stage(folder, folder / "d", progress=True),
        lambda folder: stoker.verify(folder, progress=True),
    ],
)
def test_progress_that_is_no_function_is_refused(tmp_path: Path, call: Callable[[Path], Any]) -> None:
    with pytest.raises(ConfigError, match="progress must be a function, found True"):
        call(tmp_path)
    assert not (tmp_path / "d").exists()
