"""Files with tables, on a disk or at a URL: Parquet, and the Arrow files of ``save_to_disk``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stoker.errors import ConfigError, SourceError, StokerError
from stoker.urls import is_url

from ..containers.external import expand, is_pattern
from ..dataset.columns import each
from ..remote.store import RangeFile, Store
from ..threads import bounded_map
from .archives import free_name
from .image_files import holds_without_images
from .listing import ListedBlocks, Listing, Skip
from .source import Source
from .source_reader import source_status

_Rows = TypeVar("_Rows", pa.Table, pa.RecordBatch)

_PARQUET = ".parquet"
_ARROW = ".arrow"
_STATE = "state.json"  # of save_to_disk
_SPLITS = "dataset_dict.json"
_REQUEST = 4 << 20  # bytes of a column that are read at once


@dataclass(frozen=True)
class TableFile:
    """A file with a table, which is read in blocks: row groups of Parquet, record batches of Arrow."""

    path: str  # Its path or URL
    size: int  # Its bytes
    modified: int  # Time of its last change, nanoseconds since 1970; 0 where the storage does not state it
    schema: pa.Schema  # Names, types and metadata of its columns
    rows: tuple[int, ...]  # Number of rows of each block
    bytes: tuple[dict[str, int], ...]  # Bytes of each block, by the path of a column, such as ``image.bytes``

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Return some columns of all rows."""
        with reading_table(self.path), opened_table(self.path, self.size) as file:
            if isinstance(file, pq.ParquetFile):
                return checked(file.read(list(columns)))
            return pa.Table.from_batches([checked(batch.select(list(columns))) for batch in file])


def is_table(source: Source) -> bool:
    """Return whether a source is a table by its name, or a folder of tables without images."""
    text = os.fspath(source.path).rstrip("/")
    if text.endswith(_PARQUET):
        return True
    if is_url(text):
        if is_pattern(text) or Path(text).suffix:
            return False
        there = any("/" not in name for name in source.folder.names(_PARQUET))
        return text.startswith("hf://") or (there and not len(source.folder.images()[0]))
    folder = Path(text)
    if not folder.is_dir():
        return False
    if (folder / _STATE).is_file() or (folder / _SPLITS).is_file():
        return True
    return holds_without_images(folder, _PARQUET)


def find_tables(source: Source) -> list[str]:
    """Return the paths or URLs of the files of a source, in the order of their names or of their state."""
    text = os.fspath(source.path).rstrip("/")
    if text.endswith(_PARQUET):
        return expand(text)
    if is_url(text):
        files = [f"{text}/{name}" for name in source.folder.names(_PARQUET)]
    elif (Path(text) / _SPLITS).is_file():
        splits = _parsed(Path(text) / _SPLITS)["splits"]
        raise SourceError(
            f"the folder has several datasets: {', '.join(splits)}",
            path=source.path,
            hint=f"convert each to a folder of its own: stoker convert {text}/{splits[0]} TARGET",
        )
    elif (Path(text) / _STATE).is_file():
        state = _parsed(Path(text) / _STATE)
        files = [str(Path(text).resolve() / Path(file["filename"]).name) for file in state["_data_files"]]
    else:
        files = sorted(str(file) for file in Path(text).resolve().iterdir() if file.suffix == _PARQUET)
    if not files:
        raise SourceError(
            "there is no Parquet file", path=source.path, hint="name the files: 'URL/data/*.parquet'"
        )
    return files


def _parsed(file: Path) -> Any:
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise SourceError(
            f"the file cannot be read: {error}", path=file, hint="copy the folder again"
        ) from error


def open_table(path: str) -> TableFile:
    """Read the description of the table in a file."""
    size, modified = source_status(path, "table")
    with reading_table(path), opened_table(path, size) as file:
        if isinstance(file, pq.ParquetFile):
            groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
            columns = [[group.column(i) for i in range(group.num_columns)] for group in groups]
            return TableFile(
                path,
                size,
                modified,
                file.schema_arrow,
                tuple(group.num_rows for group in groups),
                tuple(
                    {one.path_in_schema: one.total_uncompressed_size for one in group} for group in columns
                ),
            )
        batches = list(map(checked, file))
        stated = tuple({name: batch.column(name).nbytes for name in batch.schema.names} for batch in batches)
        return TableFile(path, size, modified, file.schema, tuple(map(len, batches)), stated)


def checked(rows: _Rows) -> _Rows:
    """Check lengths and offsets of rows, which Arrow itself trusts, and return the rows."""
    rows.validate(full=True)
    return rows


@contextmanager
def opened_table(path: str, size: int, metadata: Any = None) -> Iterator[Any]:
    """Open a file: a ParquetFile, or a reader of the record batches of an Arrow stream.

    The ``metadata`` of an earlier ParquetFile are not read again.
    """
    options: dict[str, Any] = {
        "metadata": metadata,
        "page_checksum_verification": True,
        "buffer_size": _REQUEST,  # pages are read as they are needed, not a whole column of a row group
        "pre_buffer": False,
    }
    if is_url(path):
        folder, _, name = path.rpartition("/")
        stream = pa.PythonFile(RangeFile(Store(folder), name, size), mode="r")
        with stream, pq.ParquetFile(stream, **options) as file:
            yield file
    elif path.endswith(_ARROW):
        with pa.memory_map(path) as source, pa.ipc.open_stream(source) as reader:
            yield reader
    else:
        with pq.ParquetFile(path, **options) as file:
            yield file


@contextmanager
def reading_table(path: str) -> Iterator[None]:
    """Turn the errors of reading a table into SourceError, which names the file."""
    try:
        yield
    except StokerError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise SourceError(
            f"the table cannot be read: {reason}", path=path, hint="copy or download the file again"
        ) from error


_IMAGE_NAMES = ("image", "img", "picture", "photo")
_HUGGING_FACE = b"huggingface"


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table that samples take."""

    image: str  # Column of the images: binary, or structs with a field ``bytes``
    label: str | None  # Column of the labels; None if there is none
    classes: tuple[str, ...]  # Names of the classes, by label; empty where the table does not name them
    key: str | None  # Column of the names of samples; None where they are numbered
    values: Mapping[str, str]  # Name in the dataset of each column of numbers or texts

    @property
    def listed(self) -> list[str]:
        """Names of the columns to read before any image."""
        return list(dict.fromkeys([*(name for name in (self.label, self.key) if name), *self.values]))


def find_columns(tables: list[TableFile], fields: Mapping[str, str | None]) -> TableColumns:
    """Find the use of each column of some tables, which must have the same columns.

    ``fields`` has image, label, key, or the name in the dataset, by the name of a column; None omits one.
    """
    schema = tables[0].schema
    for table in tables[1:]:
        if not table.schema.equals(schema):
            raise SourceError(
                f"its columns differ from those of {tables[0].path}",
                path=table.path,
                hint="convert tables of different columns each to a folder of its own",
            )
    unlabelled = fields.get("") == "label"
    fields = {name: role for name, role in fields.items() if name}
    if missing := [name for name in fields if name not in schema.names]:
        raise ConfigError(f"the table has no column {missing[0]!r}", hint=f"it has {', '.join(schema.names)}")
    features = _features(schema)
    roles = {role: name for name, role in fields.items() if role in ("image", "label", "key")}
    image = roles.get("image") or _image(schema, features, fields)
    label = None if unlabelled else roles.get("label") or _label(schema, features, fields)
    key = roles.get("key") or ("key" if "key" in schema.names and "key" not in fields else None)
    taken = {image, label, key}
    others = [name for name in schema.names if name not in taken and fields.get(name, "") is not None]
    return TableColumns(
        image,
        label,
        tuple(_class_names(features.get(label or "", {}))),
        key,
        {
            name: fields.get(name) or free_name(name)
            for name in others
            if _is_value(schema.field(name).type) or (name in fields and holds_texts(schema.field(name).type))
        },
    )


def _features(schema: pa.Schema) -> dict[str, Any]:
    """Return the features of Hugging Face's datasets by column, as the schema's metadata states them."""
    try:
        stated = json.loads((schema.metadata or {})[_HUGGING_FACE])["info"]["features"]
        return {name: feature for name, feature in stated.items() if isinstance(feature, dict)}
    except (KeyError, TypeError, ValueError):
        return {}


def _class_names(feature: dict[str, Any]) -> list[str]:
    """Return the names of a ClassLabel, or of a sequence of them."""
    inner = feature.get("feature")
    names = feature.get("names") or (inner.get("names") if isinstance(inner, dict) else None) or []
    return [str(name) for name in names]


def _image(schema: pa.Schema, features: dict[str, Any], fields: Mapping[str, str | None]) -> str:
    held: list[str] = [one.name for one in schema if _holds_bytes(one.type) and one.name not in fields]
    stated = [name for name in held if features.get(name, {}).get("_type") == "Image"]
    candidates = stated or [name for name in held if name in _IMAGE_NAMES] or held
    if len(candidates) == 1:
        return candidates[0]
    message = (
        f"several columns may be the image: {', '.join(candidates)}"
        if candidates
        else "no column holds images"
    )
    raise ConfigError(
        f"{message}; the table has {', '.join(schema.names)}",
        hint="name it with --image NAME (fields={'NAME': 'image'})",
    )


def _label(schema: pa.Schema, features: dict[str, Any], fields: Mapping[str, str | None]) -> str | None:
    free = [name for name in schema.names if name not in fields]
    if "label" in free:
        return "label"
    of_classes: list[str] = [name for name in free if features.get(name, {}).get("_type") == "ClassLabel"]
    if len(of_classes) > 1:
        raise ConfigError(
            f"the table has several labels: {', '.join(of_classes)}",
            hint="choose one with --label NAME (fields={'NAME': 'label'}); others are columns of numbers",
        )
    return of_classes[0] if of_classes else None


def _holds_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        at = kind.get_field_index("bytes")
        return at >= 0 and _holds_bytes(kind.field(at).type)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def holds_texts(kind: pa.DataType) -> bool:
    """Return whether a column holds lists of texts, such as the captions of an image."""
    if not pa.types.is_list(kind) and not pa.types.is_large_list(kind):
        return False
    return bool(pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type))


def _is_value(kind: pa.DataType) -> bool:
    """Return whether a column holds numbers, truth values or texts, which the index can hold."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_boolean, pa.types.is_integer)
    return any(test(kind) for test in tests) or pa.types.is_floating(kind)


_DIGITS = 8  # of the number of a row in its key


def key_column(name: str, rows: int) -> pa.Array:
    """Return the keys of the rows of a file, (N,) large_string: its name and their numbers."""
    numbers = pc.utf8_lpad(pa.array(np.arange(rows)).cast(pa.large_string()), _DIGITS, "0")
    prefix = pa.scalar(f"{name}/", pa.large_string())
    return pc.binary_join_element_wise(prefix, numbers, pa.scalar("", pa.large_string()))


def value_column(values: pa.ChunkedArray) -> pa.Array | None:
    """Return a column of the index: NaN for a missing number, an empty text for a missing one.

    A list of texts becomes JSON.
    """
    # -> (N,)
    kind = values.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        values = values.cast(kind)
    if values.null_count == len(values):
        return None
    if holds_texts(kind):
        lists = (json.dumps(some, ensure_ascii=False) if some else "" for some in each(values))
        return pa.array(lists, pa.large_string())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return values.cast(pa.large_string()).fill_null("").combine_chunks()
    if pa.types.is_boolean(kind):
        values, kind = values.cast(pa.uint8()), pa.uint8()
    if values.null_count:
        number = kind if pa.types.is_floating(kind) else pa.float64()
        values = values.cast(number, safe=False).fill_null(pa.scalar(np.nan, number))
    return values.combine_chunks()


def label_column(
    values: pa.ChunkedArray, columns: TableColumns, source: Any
) -> tuple[pa.Array, tuple[str, ...]]:
    """Return the labels of the rows, and the names of the classes.

    Names are numbered in sorted order. If the table names classes, -1 stands for a missing label, as in
    Hugging Face's datasets.
    """
    # -> (N,) int64
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    array = values.combine_chunks()
    if not pa.types.is_list(array.type) and not pa.types.is_large_list(array.type):
        numbers, classes = _numbered(array, columns, source)
        if columns.classes:
            numbers = pc.if_else(pc.equal(numbers, -1), pa.scalar(None, pa.int64()), numbers)
        _check(numbers, columns, source)
        return numbers, classes
    lists = array.cast(pa.large_list(array.type.value_type))
    numbers, classes = _numbered(lists.flatten(), columns, source)
    _check(numbers, columns, source)
    if numbers.null_count:
        raise _bad(columns, "a list of labels has a missing one", source)
    counts = np.asarray(pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False), np.int64)
    starts = pa.array(np.concatenate(([0], np.cumsum(counts))))
    mask = pa.array(lists.is_null().to_numpy(zero_copy_only=False)) if lists.null_count else None
    return pa.LargeListArray.from_arrays(starts, numbers, mask=mask), classes


def _numbered(array: pa.Array, columns: TableColumns, source: Any) -> tuple[pa.Array, tuple[str, ...]]:
    """Return labels as numbers, (N,) int64, and the names of their classes."""
    kind = array.type
    if pa.types.is_boolean(kind):
        return array.cast(pa.uint8()).cast(pa.int64()), columns.classes
    if pa.types.is_integer(kind):
        return array.cast(pa.int64()), columns.classes
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = array.cast(pa.large_string())
        names = sorted(name for name in pc.unique(text).to_pylist() if name is not None)
        return pc.index_in(text, value_set=pa.array(names, pa.large_string())).cast(pa.int64()), tuple(names)
    raise _bad(columns, f"the labels are {kind}, neither whole numbers nor texts", source)


def _check(numbers: pa.Array, columns: TableColumns, source: Any) -> None:
    limits = pc.min_max(numbers).as_py()
    low, high = limits["min"], limits["max"]
    if columns.classes and low is not None and not 0 <= low <= high < len(columns.classes):
        wrong = low if low < 0 else high
        message = f"a row has label {wrong}, and the table names {len(columns.classes)} classes"
        raise _bad(columns, message, source)


def _bad(columns: TableColumns, message: str, source: Any) -> SourceError:
    return SourceError(
        f"column {columns.label!r} holds no classes: {message}",
        path=source,
        hint="name another column with --label NAME (fields={'NAME': 'label'}), or none with --label ''",
    )


Rows = npt.NDArray[np.int64]

_CONCURRENT = 16  # files that are opened at a time, which at URLs take several requests each


def list_table(source: Source) -> Listing:
    """List the rows of tables, in the order of the files and of their rows."""
    files = find_tables(source)
    with ThreadPoolExecutor(_CONCURRENT, thread_name_prefix="stoker-table") as pool:
        opened = bounded_map(pool, ((file, partial(open_table, file)) for file in files), _CONCURRENT)
        tables = [table for _, table in opened]
        if not any(sum(table.rows) for table in tables):
            raise SourceError("the table has no rows", path=source.path, hint="name a table with samples")
        columns = find_columns(tables, source.parts)
        parts = _read_listed(pool, tables, columns)
    root = os.path.commonpath([os.path.dirname(file) for file in files]) if len(files) > 1 else ""  # noqa: PTH120 - may be URLs
    keys = _keys(files, tables, columns, parts, root)
    listing = _listing(tables, columns, parts, keys)
    return _labelled(listing, columns, parts, source)


def _read_listed(
    pool: ThreadPoolExecutor, tables: list[TableFile], columns: TableColumns
) -> dict[str, pa.ChunkedArray]:
    """Return the columns of all rows that are read before any image."""
    if not columns.listed:
        return {}
    tasks = ((table, partial(table.read, columns.listed)) for table in tables)
    whole = pa.concat_tables([read for _, read in bounded_map(pool, tasks, _CONCURRENT)])
    return {name: whole.column(name) for name in columns.listed}


def _keys(
    files: list[str],
    tables: list[TableFile],
    columns: TableColumns,
    parts: dict[str, pa.ChunkedArray],
    root: str,
) -> pa.Array:
    """Return the names of the samples: those of the table, or file and row."""
    numbered = []
    for file, table in zip(files, tables, strict=True):
        name = file[len(root) :].lstrip("/") if root else file.rpartition("/")[2]
        numbered.append(key_column(name.rpartition(".")[0], sum(table.rows)))
    keys = pa.chunked_array(numbered, pa.large_string())
    if columns.key is not None:
        keys = pc.coalesce(parts[columns.key].cast(pa.large_string()), keys)
    return keys.combine_chunks()


def _listing(
    tables: list[TableFile], columns: TableColumns, parts: dict[str, pa.ChunkedArray], keys: pa.Array
) -> Listing:
    """Return the listing of all rows, without labels."""
    blocks = [len(table.rows) for table in tables]
    file_of_block = np.repeat(np.arange(len(tables)), blocks)
    counts = np.array([count for table in tables for count in table.rows], np.int64)
    means = np.array(
        [
            _image_bytes(stated, columns.image) // max(count, 1)
            for table in tables
            for count, stated in zip(table.rows, table.bytes, strict=True)
        ],
        np.int64,
    )
    number = np.concatenate([np.arange(count) for count in blocks])
    first = np.cumsum(counts) - counts
    file = np.repeat(file_of_block, counts).astype(np.int32)
    listed_blocks = ListedBlocks(
        tuple(table.path for table in tables),
        tuple(table.size for table in tables),
        columns.image,
        file,
        np.repeat(number, counts).astype(np.int32),
        (np.arange(len(keys)) - np.repeat(first, counts)).astype(np.int32),
    )
    values = {new: value_column(parts[name]) for name, new in columns.values.items()}
    return Listing(
        tables[0].path.rpartition("/")[0],
        keys,
        np.repeat(np.maximum(means, 1), counts),
        np.array([table.modified for table in tables], np.int64)[file],
        labels=None,
        classes=(),
        columns={name: array for name, array in values.items() if array is not None},
        blocks=listed_blocks,
    )


def _image_bytes(stated: dict[str, int], image: str) -> int:
    return sum(size for name, size in stated.items() if name in (image, f"{image}.bytes"))


def _labelled(
    listing: Listing, columns: TableColumns, parts: dict[str, pa.ChunkedArray], source: Source
) -> Listing:
    """Return the listing with its labels, without the rows that have none; all rows where none has one."""
    if columns.label is None:
        return listing
    labels, classes = label_column(parts[columns.label], columns, source.path)
    known = np.asarray(labels.is_valid().to_numpy(zero_copy_only=False), bool)
    if not known.any():
        return listing
    missing = [Skip(key, "row without a label") for key in listing.keys.filter(pa.array(~known)).to_pylist()]
    rows: Rows = np.flatnonzero(known)
    kept = listing.take(rows) if missing else listing
    return replace(kept, labels=labels.take(pa.array(rows)), classes=classes, skipped=tuple(missing))
