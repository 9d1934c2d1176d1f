"""The container LMDB: folders with a file ``data.mdb``, as Caffe and DALI's ``readers.caffe`` open them.

Shards are written with py-lmdb and read as flat files, see :mod:`stoker.formats.containers.lmdb_pages`.
"""

from __future__ import annotations

import os
import shutil
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EIO, ENOSPC, errorcode
from pathlib import Path
from typing import Any

import lmdb
import numpy as np

from stoker._native import crc32c
from stoker.errors import CorruptRecordError

from ..files.reading import file_digests, open_regular, read_at
from .base import Container, ReadStart, Record, Writing, WrittenShard
from .lmdb_pages import BadPageError, walk
from .messages.datum import parse_image, wrap_arrays, wrap_image

_DATA_FILE = "data.mdb"
_MAGIC = b"\xde\xc0\xef\xbe"
_MAGIC_OFFSET = 16  # in the first meta page
_LONGEST_KEY = 511
_TRANSACTION = 2 << 20
_LEAST_MAP = 64 << 20
_LEAST_FREE = 1 << 20  # bytes; a disk with fewer is full


def _data_file(shard: Path) -> Path:
    """Return ``data.mdb`` in the folder of the shard, or the shard itself if it is a file."""
    return shard if shard.is_file() else shard / _DATA_FILE


def _data_url(shard: str) -> str:
    """Return the data file by the name of the shard, which is a folder unless the name ends in ``.mdb``."""
    return shard if shard.endswith(".mdb") else f"{shard}/{_DATA_FILE}"


def _recognizes(read_start: ReadStart) -> bool:
    """Return whether the shard is a folder with ``data.mdb``, or a file with LMDB's magic number."""
    size = _MAGIC_OFFSET + len(_MAGIC)
    if read_start(_DATA_FILE, size) is not None:
        return True
    return (read_start("", size) or b"")[_MAGIC_OFFSET:] == _MAGIC


class LMDBWriter:
    """Writes one LMDB shard, see :class:`stoker.formats.containers.base.ShardWriter`.

    Keys are Caffe's: the record's number in eight digits, an underscore and the sample's name
    (tools/convert_imageset.cpp), cut to the 511 bytes that LMDB allows. The same records give the
    same bytes: the size of the map, which LMDB stores, depends only on the records.
    """

    def __init__(self, path: Path) -> None:
        self._path = Path(path)
        self._path.mkdir()
        self._values: list[tuple[bytes, bytes]] = []
        self._pending = 0
        self._written = 0
        self._map_size = _LEAST_MAP
        self._records = 0
        self._payloads = array("q")  # for each: the bytes before it, its bytes and its checksum
        options = {"lock": False, "sync": False, "metasync": False, "meminit": True}
        with _os_errors(self._path):
            self._env = lmdb.open(os.fspath(self._path), map_size=self._map_size, **options)

    def __enter__(self) -> LMDBWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self._env.close()

    def write(self, key: bytes, prefix: bytes, payload: Any, suffix: bytes) -> None:
        """Append a record whose value is ``prefix + payload + suffix``."""
        value = b"".join((prefix, payload, suffix))
        size = memoryview(payload).nbytes
        self._payloads.extend((len(prefix), size, crc32c(payload)))
        self._values.append((b"%08d_%b" % (self._records, key), value))
        self._records += 1
        self._pending += len(value)
        if self._pending >= _TRANSACTION:
            self._commit()

    def _commit(self) -> None:
        # A value takes less than twice its bytes; a small one takes a page.
        self._written += 2 * self._pending + 8192 * len(self._values)
        with _os_errors(self._path):
            while self._map_size < self._written + _LEAST_MAP // 2:
                self._map_size *= 2
                self._env.set_mapsize(self._map_size)
            with self._env.begin(write=True) as transaction:
                for key, value in self._values:
                    stored = transaction.put(key[:_LONGEST_KEY], value, append=True)
                    assert stored, "keys ascend, because they start with the number"
        self._values.clear()
        self._pending = 0

    def finish(self) -> WrittenShard:
        """Write the remaining records, close the file, and find the payloads in it."""
        self._commit()
        self._env.close()
        path = _data_file(self._path)
        prefix, length, crc = np.array(self._payloads).reshape(-1, 3).T
        with open_regular(path) as (descriptor, size):
            values = np.fromiter((node.offset for node in walk(descriptor, size)), np.int64, len(prefix))
        return WrittenShard(
            files=(path,),
            data_bytes=size,
            records=len(prefix),
            digests=file_digests(path),
            offset=values + prefix,
            length=length.copy(),
            crc=crc.astype(np.uint32),
        )


def scan(path: Path) -> Iterator[Record]:
    """Yield the records of an LMDB data file in the order of their keys.

    LMDB stores no checksums: a damaged page is found, but a damaged value is not.
    """
    number = 0
    with open_regular(path) as (descriptor, size):
        try:
            for node in walk(descriptor, size):
                value = memoryview(read_at(descriptor, node.offset, node.length))
                if len(value) < node.length:
                    raise BadPageError("the file became shorter while it was read")
                yield Record(number, node.key, node.offset, node.length, value)
                number += 1
        except BadPageError as error:
            shard = path.parent.name if path.name == _DATA_FILE else path.name
            raise CorruptRecordError(str(error), path=path, shard=shard, record=number) from error


@contextmanager
def _os_errors(path: Path) -> Iterator[None]:
    """Raise an OSError for an error of the operating system that py-lmdb reports."""
    try:
        yield
    except lmdb.Error as error:
        words = str(error).rpartition(": ")[2]  # py-lmdb 2 has no error numbers
        code = next((number for number in errorcode if os.strerror(number) == words), None)
        if code is None:
            raise
        # LMDB reports a write that the disk took in part as EIO (mdb_page_flush in mdb.c).
        if code == EIO and shutil.disk_usage(path).free < _LEAST_FREE:
            code = ENOSPC
        raise OSError(code, os.strerror(code), os.fspath(path)) from error


LMDB = Container(
    name="lmdb",
    recognizes=_recognizes,
    data_file=_data_file,
    data_url=_data_url,
    scan=scan,
    parse_image=parse_image,
    writing=Writing(suffix=".lmdb", writer=LMDBWriter, wrap_image=wrap_image, wrap_arrays=wrap_arrays),
)
