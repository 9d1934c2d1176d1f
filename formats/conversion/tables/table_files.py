"""Files with tables, on a disk or at a URL: Parquet, and the Arrow files of ``save_to_disk``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator  # noqa: TC003 - contextmanager's annotation
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from stoker.errors import SourceError, StokerError

from ...remote.file_system import file_system
from ...remote.store import Store, is_url
from ...sources.archives.names import expand, is_pattern
from ...sources.folders.suffixes import has_image_suffix

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["TableFile", "find_tables", "is_table", "open_table"]

PARQUET = ".parquet"
_ARROW = ".arrow"
_STATE = "state.json"  # of save_to_disk
_SPLITS = "dataset_dict.json"
_ROWS = 64  # of a batch: images of a few megabytes each stay within a gigabyte


@dataclass(frozen=True)
class TableFile:
    """A file with a table.

    Attributes:
        path: Its path or URL.
        schema: Names, types and metadata of its columns.
        rows: Number of rows.
        nulls: Number of rows without a value, by column; -1 where the file does not say.
    """

    path: str
    schema: pa.Schema
    rows: int
    nulls: dict[str, int]

    @property
    def name(self) -> str:
        """Its name without folder and suffix."""
        return os.path.basename(self.path).rpartition(".")[0]  # noqa: PTH119 - may be a URL

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some columns; one row group of Parquet is in memory at a time.

        Raises:
            SourceError: The file is damaged or cannot be read.
        """
        with _reading(self.path), _opened(self.path) as file:
            if isinstance(file, pq.ParquetFile):
                for group in range(file.num_row_groups):
                    yield from file.iter_batches(_ROWS, row_groups=[group], columns=list(columns))
            else:
                for batch in file:
                    some = batch.select(list(columns))
                    yield from (some.slice(start, _ROWS) for start in range(0, len(some), _ROWS))


def is_table(path: str | os.PathLike[str]) -> bool:
    """Return whether a source is a table by its name, or a folder of tables without images."""
    text = os.fspath(path).rstrip("/")
    if text.endswith(PARQUET):
        return True
    if is_url(text):
        return text.startswith("hf://") and not is_pattern(text) and not Path(text).suffix
    try:
        return _is_table_folder(Path(text))
    except OSError:  # listing the source says what is wrong with it
        return False


def _is_table_folder(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    if (folder / _STATE).is_file() or (folder / _SPLITS).is_file():
        return True
    files = [file for file in folder.iterdir() if not file.name.startswith(".")]
    others = any(file.is_dir() or has_image_suffix(file.name) for file in files)
    return not others and any(file.suffix == PARQUET for file in files)


def find_tables(path: str | os.PathLike[str]) -> list[str]:
    """Return the paths or URLs of the files of a source, in the order of their names or of their state.

    Raises:
        SourceError: There is none, or the folder has several datasets.
        StorageError: A URL cannot be listed.
    """
    text = os.fspath(path).rstrip("/")
    if text.endswith(PARQUET):
        return expand(text)
    if is_url(text):
        found = [f"{text}/{file.name}" for file in Store(text).files() if file.name.endswith(PARQUET)]
    elif (Path(text) / _SPLITS).is_file():
        splits = json.loads((Path(text) / _SPLITS).read_text())["splits"]
        raise SourceError(
            f"the folder has several datasets: {', '.join(splits)}",
            path=path,
            hint=f"convert each to a folder of its own: stoker convert {text}/{splits[0]} TARGET",
        )
    elif (Path(text) / _STATE).is_file():
        state = json.loads((Path(text) / _STATE).read_text())
        found = [str(Path(text) / Path(file["filename"]).name) for file in state["_data_files"]]
    else:
        found = sorted(str(file) for file in Path(text).iterdir() if file.suffix == PARQUET)
    if not found:
        raise SourceError("there is no Parquet file", path=path, hint="name the files: 'URL/data/*.parquet'")
    return found


def open_table(path: str) -> TableFile:
    """Return what a file says of its table.

    Raises:
        SourceError: It is damaged or cannot be read.
    """
    with _reading(path), _opened(path) as file:
        if isinstance(file, pq.ParquetFile):
            return TableFile(path, file.schema_arrow, file.metadata.num_rows, _nulls(file.metadata))
        rows, nulls = 0, dict.fromkeys(file.schema.names, 0)
        for batch in file:
            rows += len(batch)
            for name in nulls:
                nulls[name] += batch.column(name).null_count
        return TableFile(path, file.schema, rows, nulls)


def _nulls(metadata: Any) -> dict[str, int]:
    """Return the number of nulls of the flat columns of a Parquet file, as its statistics state them."""
    found: dict[str, int] = {}
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for number in range(row_group.num_columns):
            column = row_group.column(number)
            name, stated = column.path_in_schema, column.statistics
            known = stated is not None and stated.has_null_count and found.get(name, 0) >= 0
            found[name] = found.get(name, 0) + stated.null_count if known else -1
    return found


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    """Open a file: a ParquetFile, or an iterable of the record batches of an Arrow stream."""
    if is_url(path):
        system, name = file_system(path)
        with (
            system.open(name, "rb", block_size=4 << 20) as stream,
            pq.ParquetFile(stream, page_checksum_verification=True) as file,
        ):
            yield file
    elif path.endswith(_ARROW):
        with pa.memory_map(path) as source, pa.ipc.open_stream(source) as reader:
            yield reader
    else:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield file


@contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except StokerError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise SourceError(
            f"the table cannot be read: {reason}", path=path, hint="copy or download the file again"
        ) from error
