"""Tests of the sample index: columns, concatenation, and refused files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stoker.errors import DatasetError, StaleIndexError
from stoker.formats.codecs.codec import Codec
from stoker.formats.dataset.index import Index, Samples, concat_indexes, write_index
from stoker.formats.dataset.manifest import INDEX_NAME


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


def test_columns_are_read_with_their_types(tmp_path: Path) -> None:
    write_index(tmp_path / "i", columns(25, score=np.linspace(0, 1, 25, dtype=np.float32)))
    index = Index.open(tmp_path / "i")
    assert len(index) == 25
    assert index.types["label"] == "int64"
    dtypes = {"shard": np.int32, "crc": np.uint32, "codec": np.uint8, "offset": np.int64, "score": np.float32}
    for name, dtype in dtypes.items():
        assert index.column(name).dtype == dtype
    for name, values in columns(25).items():
        if name != "key":
            assert index.column(name).tolist() == values.tolist()
    assert index.keys([3, 0]) == ["class/ünïcode-3.jpg", "class/ünïcode-0.jpg"]
    samples = index.samples([24, 0, 24])
    assert isinstance(samples, Samples)
    assert (samples.row.tolist(), samples.height.tolist()) == ([24, 0, 24], [25, 1, 25])


def test_opening_reads_no_column(tmp_path: Path) -> None:
    """Opening an index of 600,000 rows reads kilobytes from the disk or the cache."""
    n = 600_000
    constant = pa.array(np.zeros(n, np.int32))
    some = columns(0) | dict.fromkeys(("shard", "record", "offset", "length", "crc"), constant)
    some |= dict.fromkeys(("codec", "height", "width", "orientation", "label"), constant)
    some["key"] = pa.array([""], pa.large_string()).take(constant)
    write_index(tmp_path / "i", some)
    assert (tmp_path / "i").stat().st_size > 20_000_000
    Index.open(tmp_path / "i")  # the first call sets things up

    def faults() -> int:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        return int(fields[7]) + int(fields[9])  # minor and major

    counts = []
    for _ in range(5):  # a machine that needs its memory may take pages of this process meanwhile
        before = faults()
        index = Index.open(tmp_path / "i")
        assert len(index) == n
        assert index.keys([n - 1]) == [""]
        counts.append(faults() - before)
    assert min(counts) < 500, "twenty megabytes are 5,000 pages"


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
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
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


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_compressed_index_is_refused_before_it_is_inflated(
    make_dataset: Callable[..., Path], compression: str
) -> None:
    folder = make_dataset()
    index = Index.open(folder / INDEX_NAME)
    batch = pa.record_batch([index.arrow(name) for name in index.types], schema=index.schema)
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with (
        pa.OSFile(str(folder / "new"), "wb") as sink,
        pa.ipc.new_file(sink, index.schema, options=options) as file,
    ):
        file.write_batch(batch)
    before = pa.total_allocated_bytes()
    with pytest.raises(StaleIndexError, match="compressed"):
        Index.open(folder / "new")
    assert pa.total_allocated_bytes() == before


def test_an_index_with_dictionaries_is_refused(tmp_path: Path) -> None:
    batch = pa.record_batch({"key": pa.array(["a", "a"]).dictionary_encode()})
    with pa.OSFile(str(tmp_path / "x"), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as file:
        file.write_batch(batch)
    with pytest.raises(StaleIndexError, match="compressed"):
        Index.open(tmp_path / "x")
