"""Tests of the sample index: columns, concatenation, and refused files."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stoker.errors import DatasetError, StaleIndexError
from stoker.formats.codecs.codec import Codec
from stoker.formats.dataset.index import Index, concat_indexes, write_index


def columns(n: int, start: int = 0, **more: Any) -> dict[str, Any]:
    at = np.arange(start, start + n)
    return {
        "shard": at // 10,
        "record": at % 10,
        "offset": at * 100,
        "length": np.full(n, 100),
        "crc": (at * 0x9E3779B1) & 0xFFFFFFFF,
        "codec": np.full(n, Codec.JPEG),
        "height": at + 1,
        "width": at + 2,
        "orientation": at % 8 + 1,
        "label": at % 3,
        "key": [f"class/ünïcode-{i}.jpg" for i in at],
        **more,
    }


def test_opening_reads_no_column(tmp_path: Path) -> None:
    """An index of millions of rows opens at once: its columns are views of the mapped file."""
    write_index(tmp_path / "i", columns(25))
    before = pa.total_allocated_bytes()
    index = Index.open(tmp_path / "i")
    offsets = index.column("offset")
    assert pa.total_allocated_bytes() == before
    assert (offsets.flags.owndata, offsets.flags.writeable) == (False, False)
    with (tmp_path / "i").open("r+b") as file:  # what is written into the file later is read
        file.seek((tmp_path / "i").read_bytes().index(offsets.tobytes()))
        file.write(np.full(25, 7).tobytes())
    assert offsets.tolist() == [7] * 25


def test_concatenated_parts_are_the_bytes_of_an_index_written_at_once(tmp_path: Path) -> None:
    starts, sizes = [0, 7, 7, 20], [7, 0, 13, 5]
    labels = [
        [[i % 3, 9][: i % 3] for i in range(start, start + n)] for start, n in zip(starts, sizes, strict=True)
    ]
    parts = []
    for number, (start, n) in enumerate(zip(starts, sizes, strict=True)):
        parts.append(tmp_path / f"part-{number}")
        write_index(parts[-1], columns(n, start, tags=labels[number], object_boxes=labels[number]))
    concat_indexes(parts, tmp_path / "all")
    every = [tags for some in labels for tags in some]
    write_index(tmp_path / "once", columns(25, tags=every, object_boxes=every))  # int64 and float32
    together, once = Index.open(tmp_path / "all"), Index.open(tmp_path / "once")
    assert together.schema == once.schema
    for name in once.schema.names:
        assert together.arrow(name).equals(once.arrow(name)), name
    assert together.keys(range(25)) == columns(25)["key"]
    assert (tmp_path / "all").read_bytes() == (tmp_path / "once").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["all", "once", *(p.name for p in parts)]
    )


def test_concatenation_takes_no_memory_for_each_row(tmp_path: Path) -> None:
    part = tmp_path / "part"
    write_index(part, columns(20_000))
    write_index(tmp_path / "warm", columns(1))
    concat_indexes([tmp_path / "warm"], tmp_path / "out")
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    concat_indexes([part] * 20, tmp_path / "out")
    assert len(Index.open(tmp_path / "out")) == 400_000
    assert pool.bytes_allocated() - before < 1 << 20


def test_an_index_that_cannot_be_read_back_is_not_written(tmp_path: Path) -> None:
    write_index(tmp_path / "a", columns(3))
    write_index(tmp_path / "b", columns(3, more=np.arange(3)))
    with pytest.raises(ValueError, match="other columns"):
        concat_indexes([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    with pytest.raises(ValueError, match="no index"):
        concat_indexes([], tmp_path / "out")
    lacking = {name: values for name, values in columns(3).items() if name != "crc"}
    with pytest.raises(ValueError, match="needs the columns crc"):
        write_index(tmp_path / "i", lacking)
    with pytest.raises(ValueError, match="null"):
        write_index(tmp_path / "i", columns(2, label=pa.array([1, None])))
    with pytest.raises(StaleIndexError, match="missing"):
        Index.open(tmp_path / "none")


def test_a_column_is_read_only_as_what_it_is(tmp_path: Path) -> None:
    write_index(tmp_path / "i", columns(2, key=["", ""]))
    index = Index.open(tmp_path / "i")
    assert index.keys([1, 0]) == ["", ""]
    with pytest.raises(DatasetError, match=r"no column 'mask'.*\n.*label"):
        index.column("mask")
    with pytest.raises(DatasetError, match="holds large_string, not numbers"):
        index.column("key")
    with pytest.raises(DatasetError, match="holds int64, not lists of numbers"):
        index.lists("label")
    with pytest.raises(DatasetError, match="holds int64, not strings"):
        index.strings("label", [0])


def _rewrite(path: Path, change: str) -> None:
    """Write an index that Arrow accepts and Stoker must refuse."""
    batch = pa.ipc.open_file(path).get_batch(0)
    if change == "version":
        batch = batch.replace_schema_metadata({"stoker.index.version": "2"})
    elif change == "type":
        field = batch.schema.get_field_index("offset")
        batch = batch.set_column(field, "offset", batch.column(field).cast(pa.int32()))
    elif change == "column":
        batch = batch.drop_columns(["crc"])
    elif change == "twice":
        batch = batch.add_column(0, "label", batch.column(0))
    elif change == "nulls":
        batch = batch.append_column("more", pa.array([None] * len(batch), pa.int64()))
    elif change == "nulls in lists":
        batch = batch.append_column("more", pa.array([[1, None]] * len(batch), pa.large_list(pa.int64())))
    path.unlink()  # the old one is mapped
    with pa.ipc.new_file(path, batch.schema) as writer:
        for _ in range(2 if change == "batches" else 1):
            writer.write_batch(batch)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("version", "version b'2'"),
        ("type", "'offset' is int32, not int64"),
        ("column", "no column 'crc'"),
        ("twice", "same name"),
        ("nulls", "null values"),
        ("nulls in lists", "null values"),
        ("batches", "2 record batches"),
    ],
)
def test_an_index_that_stoker_would_not_write_is_refused(tmp_path: Path, change: str, message: str) -> None:
    write_index(tmp_path / "i", columns(5))
    _rewrite(tmp_path / "i", change)
    with pytest.raises(StaleIndexError, match=message) as caught:
        Index.open(tmp_path / "i")
    assert caught.value.hint


def test_a_key_out_of_bounds_is_refused(tmp_path: Path) -> None:
    write_index(tmp_path / "i", columns(5, key=list("abcde")))
    data = (tmp_path / "i").read_bytes()
    starts = np.arange(6, dtype=np.int64).tobytes()
    assert data.count(starts) == 1
    (tmp_path / "i").write_bytes(data.replace(starts, np.array([0, 1, 99, 3, 4, 5]).tobytes()))
    index = Index.open(tmp_path / "i")
    assert index.keys([0, 3, 4]) == ["a", "d", "e"]
    for row in (1, 2):
        with pytest.raises(StaleIndexError, match=f"key of row {row} is out of bounds"):
            index.keys([row])


def test_starts_of_another_width_are_refused(tmp_path: Path) -> None:
    write_index(tmp_path / "i", columns(25, tags=[[i] for i in range(25)]))
    data = (tmp_path / "i").read_bytes()
    length = (26 * 8).to_bytes(8, "little")  # of the starts of names and of tags
    assert data.count(length) >= 2
    (tmp_path / "i").write_bytes(data.replace(length, (26 * 8 + 1).to_bytes(8, "little")))
    with pytest.raises(StaleIndexError, match="starts that are not integers of 64 bits"):
        Index.open(tmp_path / "i")


@pytest.mark.parametrize("compression", ["zstd", "lz4", "dictionaries"])
def test_an_index_that_would_be_inflated_is_refused_before(tmp_path: Path, compression: str) -> None:
    write_index(tmp_path / "i", columns(25))
    batch, options = pa.ipc.open_file(tmp_path / "i").get_batch(0), pa.ipc.IpcWriteOptions()
    if compression == "dictionaries":
        batch = pa.record_batch({"key": pa.array(["a", "a"]).dictionary_encode()})
    else:
        options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(tmp_path / "x", batch.schema, options=options) as file:
        file.write_batch(batch)
    before = pa.total_allocated_bytes()
    with pytest.raises(StaleIndexError, match="compressed"):
        Index.open(tmp_path / "x")
    assert pa.total_allocated_bytes() == before
