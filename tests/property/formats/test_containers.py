"""Containers of shards, with any records and any bytes."""

import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker._native import crc32c
from stoker.errors import CorruptRecordError
from stoker.formats.containers.container import find_container, find_writing, writable
from stoker.formats.files import file_digests

RECORDS = st.lists(
    st.tuples(
        st.binary(max_size=600),  # key
        st.binary(max_size=40),
        st.one_of(st.binary(max_size=60), st.integers(0, 20_000).map(bytes)),
        st.binary(max_size=40),
    ),
    max_size=30,
)


@pytest.mark.parametrize("container", writable())
@settings(deadline=None, max_examples=60)
@given(records=RECORDS)
def test_records_lie_at_the_offsets_that_the_writer_returns(
    container: str, records: list[tuple[bytes, ...]]
) -> None:
    module = find_container(container)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"shard{find_writing(container).suffix}"
        with find_writing(container).writer(path) as writer:
            for record in records:
                writer.write(*record)
            shard = writer.finish()
        file = module.data_file(path)
        data = file.read_bytes()
        scanned = list(module.scan(file))
        assert [bytes(record.view) for record in scanned] == [b"".join(parts) for _, *parts in records]
        assert all(data[r.offset : r.offset + r.length] == bytes(r.view) for r in scanned)
        assert (shard.records, shard.data_bytes, shard.digests) == (
            len(records),
            len(data),
            file_digests(file),
        )
        for (_, _, payload, _), offset, length, crc in zip(
            records, shard.offset, shard.length, shard.crc, strict=True
        ):
            assert data[offset : offset + length] == payload
            assert crc32c(payload) == crc


@pytest.mark.parametrize("container", writable())
@settings(deadline=None)
@given(data=st.binary(max_size=9000))
def test_any_bytes_that_are_no_shard_are_refused(container: str, data: bytes) -> None:
    module = find_container(container)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.mdb"
        path.write_bytes(data)
        with suppress(CorruptRecordError):
            assert list(module.scan(path)) == []
            assert container == "tfrecord"
            assert data == b""
