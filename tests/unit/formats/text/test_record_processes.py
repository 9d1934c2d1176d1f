"""Records from other processes: the same datasets, skips and errors as without processes."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.chats import FOLDER, make_chats
from helpers.data.file_trees import read_files

import stoker
from stoker.errors import ConfigError, SourceError
from stoker.formats.text import record_processes
from stoker.formats.text.listing.text_listing import open_text
from stoker.formats.text.record_processes import choose_processes
from stoker.formats.text.records import TextRecords
from stoker.formats.text.training.text_composer import find_composer
from stoker.formats.tokenization.tokenizers import ByteTokenizer, FileTokenizer, WhitespaceTokenizer

pytest.importorskip("jinja2")
pytest.importorskip("tokenizers")
pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

TOKENIZER = FOLDER / "tokenizer.json"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    chats = [json.dumps(one) for one in make_chats()]
    path = tmp_path / "chats.jsonl"
    path.write_text("\n".join([*chats[:5], '{"messages": [{"content": "no role"}]}', "no JSON", *chats[5:]]))
    return path


@pytest.mark.parametrize("tokenizer", [TOKENIZER, "whitespace"])
def test_processes_change_no_byte_and_no_error(source: Path, tmp_path: Path, tokenizer: Any) -> None:
    options: dict[str, Any] = {
        "tokenizer": tokenizer,
        "messages": "messages",
        "chat_template": "chatml",
        "seed": 3,
        "shards": 3,
    }
    for number in (0, 2):
        summary = stoker.convert_text(source, tmp_path / str(number), processes=number, **options)
        assert summary.skipped == {"a message without a role in 'messages'": 1, "not JSON": 1}
    assert read_files(tmp_path / "0") == read_files(tmp_path / "2")
    for number in (0, 2):
        with pytest.raises(
            SourceError, match=r"without a role.*chats\.jsonl:6|chats\.jsonl:6.*without a role"
        ):
            stoker.convert_text(
                source, tmp_path / "strict", processes=number, strict=True, **options | {"seed": None}
            )


@pytest.mark.parametrize(
    "make", [ByteTokenizer, lambda: WhitespaceTokenizer(("how", "many")), lambda: FileTokenizer(TOKENIZER)]
)
def test_a_pickled_encoder_makes_the_same_records(source: Path, make: Callable[[], Any]) -> None:
    composer, tokenizer = find_composer(None, "messages", "chatml", None, "bytes"), make()
    with open_text([source], ["messages"], source.parent, messages=True) as listing:
        records = TextRecords(listing.format, tokenizer, "uint16", composer)
        samples = listing.read(np.arange(len(listing)))
    expected = records.encode(samples)  # this also fills the caches of the objects
    assert pickle.loads(pickle.dumps(records)).encode(samples) == expected


CHATS = find_composer(None, "messages", "chatml", None, "bytes")
JOINED = find_composer(["q", "a"], None, None, "a", "bytes")


@pytest.mark.parametrize(
    ("composer", "size", "threads", "forks", "expected"),
    [
        (CHATS, 1 << 30, 3, True, 3),
        (CHATS, 1 << 20, 3, True, 0),
        (CHATS, 1 << 30, 1, True, 0),
        (CHATS, 1 << 30, 3, False, 0),
        (JOINED, 1 << 30, 3, True, 0),
        (None, 1 << 30, 3, True, 0),
    ],
)
def test_by_default_only_large_chats_are_rendered_in_processes(
    monkeypatch: pytest.MonkeyPatch, composer: Any, size: int, threads: int, forks: bool, expected: int
) -> None:
    # The start method of multiprocessing depends on the version of Python, and can be set only once.
    monkeypatch.setattr(record_processes, "can_fork", lambda: forks)
    assert choose_processes(None, composer, size, threads) == expected
    assert choose_processes(2, composer, size, threads) == 2


@pytest.mark.parametrize("number", [-1, 4097, True, 1.5, "2"])
def test_a_number_of_processes_that_is_no_integer_from_0_to_4096_is_refused(
    tmp_path: Path, number: Any
) -> None:
    with pytest.raises(ConfigError, match="processes must be an integer from 0 to 4096, not"):
        stoker.convert_text(["x.txt"], tmp_path / "d", processes=number)
