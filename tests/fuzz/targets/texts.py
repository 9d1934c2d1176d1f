"""Texts as JSON Lines, plain lines and compressed ones: chats with tools and nulls, pairs, fields."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from mutations import as_text, mutate, mutate_document, pick

import stoker

_CALL = {"type": "function", "function": {"name": "look", "arguments": {"at": "näme", "unit": None}}}
_CHAT: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}], "weight": None},
        {"role": "assistant", "content": None, "tool_calls": [_CALL]},
        {"role": "tool", "content": "7", "name": "look"},
        {"role": "assistant", "content": "<think>so</think>seven", "weight": 0},
    ],
    "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}, None],
    "chat_template_kwargs": {"enable_thinking": False},
    "source": None,
}
_SHAREGPT = {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "there"}]}
_PAIR = {"prompt": [_CHAT["messages"][1]], "chosen": "yes", "rejected": "no", "text": "näme\n", "label": 1}
_DOCUMENTS: list[tuple[Any, dict[str, Any]]] = [
    (_CHAT, {"training": stoker.Training(messages="messages", chat_template="chatml")}),
    (_SHAREGPT, {"training": stoker.Training(messages="conversations", chat_template="chatml")}),
    (_PAIR, {"fields": ("text",), "label": "label"}),
    (_PAIR, {"fields": ("prompt", "chosen"), "training": stoker.Training(train_on="chosen")}),
]


def _tables() -> dict[str, bytes]:
    """A table in each form that is read: dictionary-encoded texts, a label in an object, a null."""
    texts = pa.array(["one", "two", None, "one"]).dictionary_encode()
    table = pa.table({"text": texts, "at": [{"label": n % 2} for n in range(4)]})
    parquet, arrow = pa.BufferOutputStream(), pa.BufferOutputStream()
    pq.write_table(table, parquet)
    with pa.ipc.new_stream(arrow, table.schema) as stream:
        stream.write_table(table)
    return {
        ".csv": b'text,at.label\none,1\n"two\n",0\n',
        ".parquet": parquet.getvalue().to_pybytes(),
        ".arrow": arrow.getvalue().to_pybytes(),
    }


_TABLES = _tables()


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with files of several lines; accepted if there is a whole dataset."""
    names = (
        "x.jsonl",
        "x.json",
        "x.jsonl.gz",
        "x.txt",
        "x.jsonl.zst",
        "x.csv",
        "x.parquet",
        "x.arrow",
        "array",
    )
    files = [scratch / name for name in names]
    target = scratch / "target"

    def attack(rng: np.random.Generator) -> bool:
        document, options = pick(_DOCUMENTS, rng)
        lines = [document, mutate_document(document, rng), mutate_document(document, rng), document]
        data = b"\n".join(
            as_text(line, rng) if i in (1, 2) else json.dumps(line).encode() for i, line in enumerate(lines)
        )
        file = pick(files, rng)
        if file.suffix in _TABLES:
            data, options = _TABLES[file.suffix], {"fields": ("text",), "label": "at.label"}
        elif file.name == "array":
            data = json.dumps(lines).encode()
        if rng.random() < 0.3:
            data = mutate(data, rng, edits=2)
        if file.suffix == ".gz":
            data = mutate(gzip.compress(data), rng, edits=1) if rng.random() < 0.2 else gzip.compress(data)
        if file.suffix == ".zst":
            data = pa.compress(data, "zstd", asbytes=True)
        file.write_bytes(data)
        given = {} if rng.random() < 0.1 else options
        stoker.convert_text(
            file, target, tokenizer="bytes", num_threads=1, processes=0, overwrite=True, **given
        )
        dataset = stoker.open(target)
        assert len(dataset) > 0
        assert stoker.verify(target, num_threads=1).ok
        return True

    return attack
