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
    found = [stoker.convert_text(source, tmp_path / str(n), processes=n, **options) for n in (0, 2)]
    assert (
        found[0].skipped == found[1].skipped == {"a message without a role in 'messages'": 1, "not JSON": 1}
    )
    assert read_files(tmp_path / "0") == read_files(tmp_path / "2")
    for number in (0, 2):
        with pytest.raises(SourceError, match=r"chats.jsonl:6.*without a role|without a role.*chats.jsonl:6"):
            stoker.convert_text(
                source, tmp_path / "strict", processes=number, strict=True, **options | {"seed": None}
            )


@pytest.mark.parametrize(
    "make", [ByteTokenizer, lambda: WhitespaceTokenizer(("how", "many")), lambda: FileTokenizer(TOKENIZER)]
)
def test_what_makes_records_can_be_pickled(source: Path, make: Callable[[], Any]) -> None:
    composer, tokenizer = find_composer(None, "messages", "chatml", None, "bytes"), make()
    with open_text([source], ["messages"], source.parent, messages=True) as listing:
        records = TextRecords(listing.format, tokenizer, "uint16", composer)
        samples = listing.read(np.arange(len(listing)))
    expected = records.encode(samples)  # this also fills the caches of the objects
    assert pickle.loads(pickle.dumps(records)).encode(samples) == expected


def test_chats_of_some_size_are_rendered_in_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    chats = find_composer(None, "messages", "chatml", None, "bytes")
    joined = find_composer(["q", "a"], None, None, "a", "bytes")
    monkeypatch.setattr(record_processes, "can_fork", lambda: True)
    found = [
        choose_processes(None, each, size, 3) for each in (chats, joined, None) for size in (1 << 20, 1 << 30)
    ]
    assert found == [0, 3, 0, 0, 0, 0]
    assert choose_processes(2, None, 0, 8) == 2
    assert choose_processes(None, chats, 1 << 30, 1) == 0
    monkeypatch.setattr(record_processes, "can_fork", lambda: False)
    assert choose_processes(None, chats, 1 << 30, 3) == 0


@pytest.mark.parametrize("given", [-1, 4097, True, 1.5, "2"])
def test_a_number_of_processes_that_makes_no_sense_is_refused(tmp_path: Path, given: Any) -> None:
    with pytest.raises(ConfigError, match="processes must be an integer from 0 to 4096, not"):
        stoker.convert_text(["x.txt"], tmp_path / "d", processes=given)
