"""Tests that py-lmdb reads Stoker's shards, and that the page walker reads shards of py-lmdb."""

import errno
import os
import pickle
import struct
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import lmdb as py_lmdb
import numpy as np
import pytest
from helpers.datasets import jpeg

from stoker.errors import CorruptRecordError, MissingDependencyError
from stoker.formats.containers import lmdb
from stoker.formats.containers.lmdb import walk
from stoker.formats.files import open_regular
from stoker.formats.in_place.shards import index

# Near the sizes at which LMDB changes from leaf to overflow pages, and from one overflow page to two.
SIZES = [0, 1, 100, 1900, 2000, 2036, 2100, 4000, 4079, 4080, 4081, 8176, 8177, 50_000]


def write(path: Path, values: list[bytes]) -> lmdb.WrittenShard:
    with lmdb.LMDBWriter(path) as writer:
        for i, value in enumerate(values):
            writer.write(b"name-%d" % i, b"<", value, b">>")
        return writer.finish()


def test_py_lmdb_reads_a_written_shard(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = [rng.bytes(SIZES[i % len(SIZES)]) for i in range(200)]
    write(tmp_path / "s.lmdb", values)
    with py_lmdb.open(os.fspath(tmp_path / "s.lmdb"), readonly=True, lock=False) as env, env.begin() as txn:
        stored = list(txn.cursor())
    assert stored == [(b"%08d_name-%d" % (i, i), b"<" + value + b">>") for i, value in enumerate(values)]
    assert [path.name for path in (tmp_path / "s.lmdb").iterdir()] == ["data.mdb"]
    path = tmp_path / "s.lmdb" / "data.mdb"
    assert lmdb.LMDB.data_file(tmp_path / "s.lmdb") == lmdb.LMDB.data_file(path) == path


def test_writing_needs_the_package_and_reading_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "s.lmdb", [b"abc"])
    monkeypatch.setitem(sys.modules, "lmdb", None)
    (record,) = lmdb.scan(tmp_path / "s.lmdb" / "data.mdb")
    assert bytes(record.view) == b"<abc>>"
    with pytest.raises(MissingDependencyError, match="writing LMDB needs the package lmdb") as caught:
        lmdb.LMDBWriter(tmp_path / "t.lmdb")
    assert caught.value.hint == "Install it: pip install lmdb"
    assert not (tmp_path / "t.lmdb").exists()


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    # 36 MB: more than one transaction.
    values = [np.random.default_rng(i).bytes(90_000) for i in range(400)]
    first, second = (write(tmp_path / name, values) for name in ("a.lmdb", "b.lmdb"))
    assert first.digests == second.digests
    assert (tmp_path / "a.lmdb/data.mdb").read_bytes() == (tmp_path / "b.lmdb/data.mdb").read_bytes()


def test_the_map_grows_with_the_shard(tmp_path: Path) -> None:
    path = tmp_path / "s.lmdb" / "data.mdb"
    with lmdb.LMDBWriter(tmp_path / "s.lmdb") as writer:
        for i in range(7):
            writer.write(b"%d" % i, b"", bytes(8 << 20), b"")
            assert path.stat().st_size > i * (8 << 20), "memory holds few records"
        assert writer.finish().records == 7
    # The file stores the size of its map, which has room for what values take beside their bytes.
    with path.open("rb") as file:
        assert {struct.unpack_from("<Q", file.read(4096), 32)[0] for _ in range(2)} == {256 << 20}


def test_long_names_are_cut_to_the_keys_that_lmdb_allows(tmp_path: Path) -> None:
    with lmdb.LMDBWriter(tmp_path / "s.lmdb") as writer:
        for _ in range(2):
            writer.write(b"n" * 2000, b"", b"abc", b"")
        writer.finish()
    keys = [record.key for record in lmdb.scan(tmp_path / "s.lmdb" / "data.mdb")]
    assert keys == [b"%08d_" % i + b"n" * 502 for i in range(2)]


def test_the_walker_reads_databases_with_deleted_records(tmp_path: Path) -> None:
    """Random order, deletions and replacements leave free pages and half-empty ones."""
    rng = np.random.default_rng(1)
    expected: dict[bytes, bytes] = {}
    path = tmp_path / "data.mdb"
    with py_lmdb.open(os.fspath(path), subdir=False, map_size=1 << 28, lock=False) as env:
        for _ in range(10):
            with env.begin(write=True) as txn:
                for _ in range(300):
                    key = b"%x" % rng.integers(1000)
                    if rng.random() < 0.3:
                        txn.delete(key)
                        expected.pop(key, None)
                    else:
                        expected[key] = rng.bytes(int(rng.choice(SIZES)))
                        txn.put(key, expected[key])
    data = path.read_bytes()
    with open_regular(path) as (descriptor, size):
        found = {node.key: data[node.offset : node.offset + node.length] for node in walk(descriptor, size)}
    assert found == expected
    assert list(found) == sorted(expected)


@pytest.mark.parametrize("flags", [0x02, 0x04, 0x08])  # reverse keys, sorted duplicates, integer keys
def test_databases_with_flags_are_refused(tmp_path: Path, flags: int) -> None:
    write(tmp_path / "s.lmdb", [b"abc"])
    path = tmp_path / "s.lmdb" / "data.mdb"
    data = bytearray(path.read_bytes())
    for page in (0, 4096):
        data[page + 16 + 24 + 48 + 4] = flags  # of the main database, in a meta page
    path.write_bytes(data)
    with pytest.raises(CorruptRecordError, match=f"flags {flags:#x}"):
        list(lmdb.scan(path))


def test_named_databases_and_files_that_are_not_lmdb_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.mdb"
    with py_lmdb.open(os.fspath(path), subdir=False, lock=False, max_dbs=2) as env:
        env.open_db(b"images")
    with pytest.raises(CorruptRecordError, match="named or sorted-duplicate"):
        list(lmdb.scan(path))
    for data in (b"", b"\0" * 200, b"SQLite format 3\0" + bytes(9000)):
        path.write_bytes(data)
        with pytest.raises(CorruptRecordError, match="no LMDB meta page"):
            list(lmdb.scan(path))


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], None]:
    """``fail(error)``: transactions of LMDB raise the error, which no valid use of it raises."""
    opened = py_lmdb.open

    def refusing(error: Exception, *arguments: Any, **options: Any) -> Any:
        env = opened(*arguments, **options)
        return SimpleNamespace(begin=Mock(side_effect=error), close=env.close)

    return lambda error: monkeypatch.setattr(py_lmdb, "open", partial(refusing, error))


def test_an_error_of_lmdb_that_is_not_of_the_operating_system_is_not_changed(
    tmp_path: Path, fail: Callable[[Exception], None]
) -> None:
    fail(py_lmdb.MapFullError("mdb_put: MDB_MAP_FULL: Environment mapsize limit reached"))
    with lmdb.LMDBWriter(tmp_path / "s.lmdb") as writer, pytest.raises(py_lmdb.MapFullError):
        writer.finish()


@pytest.mark.parametrize(("free", "code"), [(4096, errno.ENOSPC), (1 << 30, errno.EIO)])
def test_a_short_write_is_a_full_disk_if_the_disk_has_no_space(
    tmp_path: Path,
    fail: Callable[[Exception], None],
    monkeypatch: pytest.MonkeyPatch,
    free: int,
    code: int,
) -> None:
    """LMDB reports EIO for both, and a test cannot fill a disk; so the free space is made up."""
    fail(py_lmdb.Error("mdb_txn_commit: Input/output error"))
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free))
    with lmdb.LMDBWriter(tmp_path / "s.lmdb") as writer:
        writer.write(b"", b"", b"x", b"")
        with pytest.raises(OSError, match=r"s\.lmdb") as caught:
            writer.finish()
    assert caught.value.errno == code


def test_pickles_and_texts_of_recognition_are_left_out_by_name(tmp_path: Path) -> None:
    with py_lmdb.open(str(tmp_path / "ocr"), map_size=1 << 22) as env, env.begin(write=True) as transaction:
        transaction.put(b"image-000000001", jpeg(0))
        transaction.put(b"label-000000001", b"hello")
        transaction.put(b"num-samples", b"1")
        transaction.put(b"0", pickle.dumps((jpeg(1), 1)))
    manifest = index([tmp_path / "ocr"], tmp_path / "out")
    assert (manifest.index.rows, manifest.skipped) == (
        1,
        {"pickled record, which is never unpacked": 1, "text of text recognition, which is not read": 2},
    )
