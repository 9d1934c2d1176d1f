"""Token ids that C++ reads from payloads, compared with NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stoker._native import Shards, crc32c, read_tokens

COUNT = 40


class Case:
    """Payloads of two fields in two files, with slices and kept tails."""

    def __init__(self, folder: Path, stored: str) -> None:
        random = np.random.default_rng(len(stored))
        width = np.dtype(stored).itemsize
        self.tokens = random.integers(0, 9, (COUNT, 2))
        self.ids = [random.integers(0, 60_000, n).astype(stored) for n in self.tokens.sum(axis=1)]
        contents = [b"".join([b"x" * i + one.tobytes() for i, one in enumerate(self.ids)])] * 2
        paths = [folder / "a", folder / "b"]
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        self.shards = Shards([str(path) for path in paths], [len(one) for one in contents])
        length = self.tokens.sum(axis=1) * width
        offset = np.cumsum(length) - length + np.cumsum(np.arange(COUNT))
        starts = np.stack((np.zeros(COUNT, np.int64), self.tokens[:, 0]), axis=1)
        ends = starts + self.tokens
        begin = starts + random.integers(0, 2, (COUNT, 2)).clip(max=self.tokens)
        tail = ends - random.integers(0, 2, (COUNT, 2)).clip(max=ends - begin)
        stop = (tail - random.integers(0, 3, (COUNT, 2))).clip(min=begin)
        self.edges = np.stack((begin, stop, tail, ends), axis=2)
        self.columns: dict[str, Any] = {
            "shard": np.arange(COUNT, dtype=np.int32) % 2,
            "offset": offset,
            "length": length,
            "expected": length.copy(),
            "crc": np.array([crc32c(one.tobytes()) for one in self.ids], np.uint32),
            "checked": np.ones(COUNT, bool),
            "edges": self.edges * width,
            "stored_bytes": width,
        }

    def expected(self, field: int, dtype: str) -> Any:
        parts = [
            one[a:b]
            for one, (begin, stop, tail, end) in zip(self.ids, self.edges[:, field].tolist(), strict=True)
            for a, b in ((begin, stop), (tail, end))
        ]
        return np.concatenate(parts).astype(dtype)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("stored", ["<u2", "<i4"])
def test_ids_are_joined_and_widened_as_by_numpy(tmp_path: Path, stored: str, dtype: str) -> None:
    case = Case(tmp_path, stored)
    expected = [case.expected(field, dtype) for field in range(2)]
    ids = [np.empty_like(one) for one in expected]
    assert read_tokens(case.shards, **case.columns, ids=ids) is None
    for found, wanted in zip(ids, expected, strict=True):
        assert np.array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_the_ids_of_each_payload_are_padded_in_its_row(tmp_path: Path, dtype: str) -> None:
    case = Case(tmp_path, "<u2")
    widths = case.edges[:, :, 1] - case.edges[:, :, 0] + case.edges[:, :, 3] - case.edges[:, :, 2]
    rows = [np.empty((COUNT, width), dtype) for width in (widths[:, 0].max(), widths[:, 1].max() + 3)]
    assert read_tokens(case.shards, **case.columns, ids=rows, fill=-7) is None
    for field, found in enumerate(rows):
        mask = np.arange(found.shape[1]) < widths[:, field, None]
        assert (found[mask] == case.expected(field, dtype)).all()
        assert (found[~mask] == -7).all()
    with pytest.raises(OSError, match="more tokens than the array has room for"):
        read_tokens(case.shards, **case.columns, ids=[rows[0][:, :-1].copy(), rows[1]])
    with pytest.raises(ValueError, match="payloads, row"):
        read_tokens(case.shards, **case.columns, ids=[rows[0][:-1], rows[1]])


def test_batches_that_are_read_at_once_have_the_rows_of_each_alone(tmp_path: Path) -> None:
    case = Case(tmp_path, "<u2")
    whole = [np.empty((COUNT, 9), "int64"), np.empty((COUNT, 11), "int64")]
    read_tokens(case.shards, **case.columns, ids=whole)
    parts = [np.empty_like(one[each]) for each in (slice(7), slice(7, COUNT)) for one in whole]
    assert read_tokens(case.shards, **case.columns, ids=parts) is None
    for field in range(2):
        assert np.array_equal(np.concatenate(parts[field::2]), whole[field])
    case.columns["crc"][9] += 1
    bad = read_tokens(case.shards, **case.columns, ids=parts)
    assert bad is not None
    assert bad[0] == 9
    with pytest.raises(ValueError, match="a row for each payload"):
        read_tokens(case.shards, **case.columns, ids=[*parts, *parts])
    with pytest.raises(ValueError, match="for each field"):
        read_tokens(case.shards, **case.columns, ids=parts[:3])


def test_the_first_bad_payload_is_named(tmp_path: Path) -> None:
    case = Case(tmp_path, "<u2")
    ids = [case.expected(field, "int32") for field in range(2)]
    bad = {
        "crc": (7, 0, "checksum"),
        "expected": (5, 99, "its tokens take 99"),
        "offset": (9, 1 << 40, "cannot be read"),
    }
    for name, (at, value, reason) in bad.items():
        column = case.columns[name].copy()
        column[at:] = value
        found = read_tokens(case.shards, **{**case.columns, name: column}, ids=ids)
        assert found is not None
        assert found[0] == at
        assert reason in found[1]
    unchecked = {"crc": np.zeros(COUNT, np.uint32), "checked": np.zeros(COUNT, bool)}
    assert read_tokens(case.shards, **{**case.columns, **unchecked}, ids=ids) is None


def test_arrays_and_edges_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    case = Case(tmp_path, "<u2")
    ids = [case.expected(field, "int32") for field in range(2)]
    for wrong in ([ids[0], ids[1][:-1]], [np.append(ids[0], 0).astype(np.int32), ids[1]]):
        with pytest.raises(OSError, match="tokens than the array"):
            read_tokens(case.shards, **case.columns, ids=wrong)
    with pytest.raises(OSError, match="outside its payload"):
        read_tokens(case.shards, **{**case.columns, "edges": case.columns["edges"] + 4000}, ids=ids)
    with pytest.raises(ValueError, match="4 or 8 bytes"):
        read_tokens(case.shards, **case.columns, ids=[one.astype(np.int16) for one in ids])
