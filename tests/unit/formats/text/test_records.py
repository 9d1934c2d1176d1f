"""Encoded records of token ids, compared with the slow encoder of protocol buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker._native import encode_token_records
from stoker.formats.containers.protobuf import delimited, varint

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
