"""Encoded records of token ids, compared with the slow encoder of protocol buffers."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.chats import FOLDER, make_chats
from helpers.datasets import read_files
from helpers.options import convert_text
from hypothesis import given
from hypothesis import strategies as st

import stoker
from stoker._native import encode_token_records
from stoker.errors import ConfigError, SourceError
from stoker.formats.containers.protobuf import delimited, varint
from stoker.formats.text import convert as record_processes
from stoker.formats.text.chats import find_composer
from stoker.formats.text.convert import TextRecords, choose_processes
from stoker.formats.text.listing import open_text
from stoker.formats.tokenization import ByteTokenizer, FileTokenizer

# The smallest and the largest numbers whose varints have each number of bytes.
EDGES = [0, *(number for bits in (7, 14, 21, 28) for number in ((1 << bits) - 1, 1 << bits)), 2**31 - 1]
ids = st.lists(st.sampled_from(EDGES) | st.integers(0, 2**31 - 1), max_size=40)


def entry(name: str, kind: int, value: bytes) -> bytes:
    """An entry of ``Features.feature``; kind 1 is a bytes_list, and 3 an int64_list."""
    feature = delimited(kind, delimited(1, value))
    return delimited(1, delimited(1, name.encode()) + delimited(2, feature))


def slow_record(names: Sequence[str], fields: Sequence[list[int]], dtype: str) -> tuple[bytes, bytes]:
    payload = np.array([number for field in fields for number in field], np.int64).astype(dtype).tobytes()
    entries = [
        entry(name, 3, b"".join(map(varint, field))) for name, field in zip(names, fields, strict=True)
    ]
    record = delimited(1, b"".join([*entries, entry("all", 1, payload)]))
    return record[: len(record) - len(payload)], payload


@given(st.lists(st.tuples(ids, ids), max_size=4), st.sampled_from(["<u2", "<i4"]))
def test_records_are_those_of_the_slow_encoder(
    samples: list[tuple[list[int], list[int]]], dtype: str
) -> None:
    names = ("text", "é" * 70)
    fields = []
    for index, name in enumerate(names):
        numbers = np.array([number for sample in samples for number in sample[index]], np.int32)
        fields.append((name, numbers, np.array([len(sample[index]) for sample in samples], np.int64)))
    encoded = encode_token_records(fields, "all", np.dtype(dtype).itemsize)
    assert encoded == [slow_record(names, sample, dtype) for sample in samples]


@pytest.mark.parametrize("lengths", [[[3]], [[1]], [[-1, 3]], [[2], [1, 1]]])
def test_lengths_that_do_not_fit_the_ids_are_refused(lengths: list[list[int]]) -> None:
    fields: list[Any] = [
        (str(i), np.arange(2, dtype=np.int32), np.array(of_field)) for i, of_field in enumerate(lengths)
    ]
    with pytest.raises(OSError, match=r"lengths do not add up|different numbers of samples"):
        encode_token_records(fields, "all", 2)


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


@pytest.mark.parametrize("tokenizer", [TOKENIZER, "bytes"])
def test_processes_change_no_byte_and_no_error(source: Path, tmp_path: Path, tokenizer: Any) -> None:
    options: dict[str, Any] = {"tokenizer": tokenizer, "messages": "messages", "chat_template": "chatml"}
    for number in (0, 2):
        summary = convert_text(source, tmp_path / str(number), processes=number, seed=3, shards=3, **options)
        assert summary.skipped == {"a message without a role in 'messages'": 1, "not JSON": 1}
        with pytest.raises(SourceError, match="without a role") as caught:
            convert_text(source, tmp_path / "strict", processes=number, strict=True, **options)
        assert "chats.jsonl:6" in str(caught.value)
    assert read_files(tmp_path / "0") == read_files(tmp_path / "2")


@pytest.mark.parametrize("make", [ByteTokenizer, lambda: FileTokenizer(TOKENIZER)])
def test_a_pickled_encoder_makes_the_same_records(source: Path, make: Callable[[], Any]) -> None:
    composer, tokenizer = find_composer(None, stoker.Training("messages", "chatml"), ByteTokenizer()), make()
    listing = open_text([source], ["messages"], source.parent, messages=True)
    records = TextRecords(listing.format, tokenizer, "uint16", composer)
    samples = listing.read(np.arange(len(listing)))
    expected = records.encode(samples)  # this also fills the caches of the objects
    assert pickle.loads(pickle.dumps(records)).encode(samples) == expected


CHATS = find_composer(None, stoker.Training("messages", "chatml"), ByteTokenizer())
JOINED = find_composer(["q", "a"], stoker.Training(train_on="a"), ByteTokenizer())


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
    with pytest.raises(ConfigError, match="processes must be"):
        convert_text(["x.txt"], tmp_path / "d", processes=number)
