"""Files with tables, on a disk or at a URL: Parquet, and the Arrow files of ``save_to_disk``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from stoker.errors import SourceError, StokerError
from stoker.urls import is_url

from ...containers.external import expand, is_pattern
from ...remote.store import RangeFile, Store
from ..folders.suffixes import holds_without_images
from ..source import Source
from ..source_status import source_status

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


def holds_tables(source: Source) -> bool:
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
