"""Tables as a source, on a disk or at a URL: Parquet, and the Arrow files of Hugging Face's ``save_to_disk``.

A row is a sample, and its image stays in its block (a row group of Parquet, a record batch of Arrow) until it
is read. Listing reads the labels and values of all rows, and no image. So the size of an image is an
estimate, the mean of its block.

A conversion reads images in the order of the rows or in any other order. A block can be read from its start
alone. In the order of the rows, a few blocks are open, and only the last rows of each are in memory. In a
shuffled order, the images of a block are copied to a temporary file when the first of them is needed.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stoker.arguments import some_of
from stoker.errors import ConfigError, SourceError, StokerError, with_details
from stoker.log import EventLog
from stoker.urls import is_url, join_url, split_query, split_url

from ..containers.shard_names import check_complete, expand, files_in
from ..dataset.columns import each
from ..dataset.index import free_name
from ..files import is_of_machine, modified_ns, open_regular, read_at, read_regular, reason_of, storage_error
from ..remote.store import RangeFile, Store
from ..splits import Door, call, check_one_split
from ..threads import bounded_map
from ..token_columns import join_captions
from .archives import mds_images
from .columns import (
    PREDICT,
    check_names,
    holds_captions,
    holds_text_lists,
    holds_values,
    label_column,
    names_in_types,
    split_labels,
    value_column,
)
from .detection import PARQUET, SAVED_SPLITS, SAVED_STATE
from .image_files import RESUMES
from .listing import ListedBlocks, Listing, Skip, check_damage
from .source import Source
from .table_objects import (
    check_box_format,
    fields_of_type,
    list_objects,
    names_of_type,
    objects_of,
    warn_of_others,
)

_LOG = EventLog("conversion")
_Rows = TypeVar("_Rows", pa.Table, pa.RecordBatch)

_ARROW = ".arrow"
_MOST_SHOWN = 200  # characters of names in a message
_REQUEST = 4 << 20  # bytes of a column that are read at once
_CONCURRENT = 16  # files that are opened at a time, which at URLs take several requests each
_IMAGE_NAMES = ("image", "img", "picture", "photo")
_DIGITS = 8  # of the number of a row in its key


def list_table(source: Source) -> Listing:
    """List the rows of tables, in the order of the files and of their rows."""
    files = _find_tables(source)
    with ThreadPoolExecutor(_CONCURRENT, thread_name_prefix="stoker-table") as pool:
        opened = bounded_map(pool, ((file, partial(_read_or_error, file)) for file in files), _CONCURRENT)
        tables, damaged = _readable([table for _, table in opened], source)
        uses = _find_columns(tables, source.parts)
        names = list(dict.fromkeys(filter(None, [uses.label, uses.key, uses.objects, *uses.values])))
        values: dict[str, pa.ChunkedArray] = {}
        if names:
            tasks = ((table, partial(table.read_columns, names)) for table in tables)
            whole = pa.concat_tables([read for _, read in bounded_map(pool, tasks, _CONCURRENT)])
            values = {name: whole.column(name) for name in names}
    for name, role in source.parts.items():
        if role == source.caption_name and name in values and holds_captions(values[name].type):
            texts = pa.array(map(join_captions, each(values[name])), pa.large_string())
            values[name] = pa.chunked_array([texts])
    listing = replace(_listing(tables, uses, values, _keys(tables, uses, values)), damaged=tuple(damaged))
    if uses.objects is not None:
        return _with_objects(source, listing, uses, values)
    return listing if uses.label is None else _with_labels(source, listing, uses, values[uses.label])


def _with_labels(source: Source, listing: Listing, uses: _ColumnUses, column: pa.ChunkedArray) -> Listing:
    options = source.options
    try:
        texts = split_labels(column, options.label_separator)
        labels, classes = label_column(texts, uses.classes, options.label_type)
        if options.label_separator is None and not uses.classes:
            check_names(classes)
    except SourceError as error:
        raise with_details(error, path=source.path) from error
    except ValueError as error:
        raise SourceError(
            f"column {uses.label!r} holds no classes: {error}",
            path=source.path,
            hint=f"Name another column with label_column. {PREDICT}",
        ) from error
    known = np.asarray(labels.is_valid().to_numpy(zero_copy_only=False), bool)
    if not known.any():
        return listing
    missing = [Skip(key, "row without a label") for key in listing.keys.filter(pa.array(~known)).to_pylist()]
    listing = replace(listing, labels=labels, classes=classes, skipped=tuple(missing))
    return listing.take(np.flatnonzero(known)) if missing else listing


def _with_objects(
    source: Source, listing: Listing, uses: _ColumnUses, values: dict[str, pa.ChunkedArray]
) -> Listing:
    rows = values[uses.objects or ""].to_pylist()
    kind, where = values[uses.objects or ""].type, f"column {uses.objects!r}"
    fields = fields_of_type(kind)
    warn_of_others(names_of_type(kind), fields, where)
    sides = [
        values[name].to_pylist() if name in values else [None] * len(rows) for name in ("height", "width")
    ]
    boxes = [(one["box"], row) for row, value in enumerate(rows) for one in objects_of(value, fields)]
    sizes = [(sides[0][row], sides[1][row]) for _, row in boxes]
    try:
        box_format = check_box_format([box for box, _ in boxes], sizes, source.options.box_format, where)
        objects, classes, skipped = list_objects(
            rows, listing.keys.to_pylist(), fields, uses.classes, box_format
        )
    except SourceError as error:
        raise SourceError(error.message, path=source.path, hint=error.hint) from error
    return replace(listing, objects=objects, classes=classes, skipped=tuple(skipped))


def _find_tables(source: Source) -> list[str]:
    """Paths or URLs of the files of a source, in the order of their names or of their state."""
    text = os.fspath(source.path).rstrip("/")
    is_file = split_query(text)[0].endswith(PARQUET)
    if is_file:  # perhaps a folder, as Spark, Dask and Ray write it
        found = (
            [one] if is_url(one) or not Path(one).is_dir() else files_in(one, PARQUET) for one in expand(text)
        )
        files = [file for some in found for file in some]
    elif is_url(text):
        files = [join_url(text, name) for name in source.folder.names(PARQUET)]
    elif (saved := saved_files(text, "convert")) is not None:
        files = saved
    else:
        files = files_in(text, PARQUET)
    if not files:
        raise SourceError(
            "there is no Parquet file", path=source.path, hint="Name the files: 'URL/data/*.parquet'."
        )
    check_one_split([source.path], files, "convert")
    if not is_file:  # expand has checked it
        check_complete(files)
    return files


def saved_files(folder: str, door: Door) -> list[str] | None:
    """Paths of the Arrow files in a folder of ``save_to_disk``, in their order; None for another folder."""
    if (Path(folder) / SAVED_SPLITS).is_file():
        splits = _parsed(Path(folder) / SAVED_SPLITS)["splits"]
        calls = [call(door, f"{folder}/{one}", one) for one in splits]
        raise SourceError(
            f"the folder has several datasets: {', '.join(splits)}",
            path=folder,
            hint=f"Take each by itself: {'; '.join(calls)}.",
        )
    if not (Path(folder) / SAVED_STATE).is_file():
        return None
    state = _parsed(Path(folder) / SAVED_STATE)
    return [str(Path(folder).resolve() / Path(file["filename"]).name) for file in state["_data_files"]]


def _parsed(file: Path) -> Any:
    with reading_table(str(file)):
        return json.loads(read_regular(file))


@dataclass(frozen=True)
class TableFile:
    """A file with a table, which is read in blocks: row groups of Parquet, record batches of Arrow."""

    path: str  # Its path or URL
    size: int  # Its bytes
    modified: int  # Time of its last change, nanoseconds since 1970; at a URL the number of Store.status
    schema: pa.Schema
    rows: tuple[int, ...]  # Number of rows of each block
    bytes: tuple[dict[str, int], ...]  # Bytes of each block, by the path of a column, such as ``image.bytes``

    @classmethod
    def read(cls, path: str) -> TableFile:
        """Read the description of the table in a file."""
        with reading_table(path):
            size, modified = file_status(path)
        with reading_table(path), opened_table(path, size) as file:
            names_in_types(file.schema_arrow if isinstance(file, pq.ParquetFile) else file.schema)
            if isinstance(file, pq.ParquetFile):
                groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
                stated = tuple(
                    {one.path_in_schema: one.total_uncompressed_size for one in row_group_columns(group)}
                    for group in groups
                )
                rows = tuple(group.num_rows for group in groups)
                return cls(path, size, modified, file.schema_arrow, rows, stated)
            batches = list(map(checked, file))
            names = file.schema.names
            stated = tuple({name: batch.column(name).nbytes for name in names} for batch in batches)
            return cls(path, size, modified, file.schema, tuple(map(len, batches)), stated)

    def read_columns(self, names: Sequence[str]) -> pa.Table:
        """Some columns of all rows."""
        with reading_table(self.path), opened_table(self.path, self.size) as file:
            if isinstance(file, pq.ParquetFile):
                table = checked(file.read(list(names)))
            else:
                table = pa.Table.from_batches([checked(batch.select(list(names))) for batch in file])
            if len(table) != sum(self.rows):
                raise pa.ArrowInvalid(f"its columns have {len(table)} rows, and it states {sum(self.rows)}")
            return table


def _readable(
    found: list[TableFile | SourceError], source: Source
) -> tuple[list[TableFile], list[SourceError]]:
    """The tables among ``found``, some of which have rows, and the errors about others."""
    tables = [table for table in found if isinstance(table, TableFile)]
    damaged = [table for table in found if isinstance(table, SourceError)]
    if not tables:
        check_damage(damaged, 0, None, "")
    if not any(sum(table.rows) for table in tables):
        raise SourceError("the table has no rows", path=source.path, hint="Name a table with samples.")
    return tables, damaged


def _read_or_error(path: str) -> TableFile | SourceError:
    try:
        return TableFile.read(path)
    except SourceError as error:
        return error


def file_status(path: str) -> tuple[int, int]:
    """Bytes of a file, and its last change in nanoseconds since 1970; at a URL, see :meth:`Store.status`."""
    if not is_url(path):
        status = Path(path).stat()
        return status.st_size, modified_ns(status)
    folder, name = split_url(path)
    if (there := Store(folder).status(name)) is None:
        raise SourceError("there is no such file", path=path, hint="Check the spelling of its name.")
    return there


def checked(rows: _Rows) -> _Rows:
    """Check lengths and offsets of rows, which Arrow itself trusts, and return the rows."""
    rows.validate(full=True)
    return rows


def row_group_columns(group: Any) -> list[Any]:
    """What a row group of Parquet states about each of its columns."""
    return [group.column(number) for number in range(group.num_columns)]


@contextmanager
def opened_table(path: str, size: int, metadata: Any = None) -> Iterator[Any]:
    """Open a file: a ParquetFile, or a reader of the record batches of an Arrow stream."""
    # The ``metadata`` of an earlier ParquetFile are not read again.
    options: dict[str, Any] = {
        "metadata": metadata,
        "page_checksum_verification": True,
        "buffer_size": _REQUEST,  # pages are read as they are needed, not a whole column of a row group
        "pre_buffer": False,
    }
    if is_url(path):
        folder, name = split_url(path)
        stream = pa.PythonFile(RangeFile(Store(folder), name, size), mode="r")
        with stream, pq.ParquetFile(stream, **options) as file:
            yield file
        return
    with open_regular(path):  # a FIFO would block the open of Arrow
        pass
    if path.endswith(_ARROW):
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
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        if is_of_machine(reason := reason_of(error)):
            raise storage_error(reason, path, hint=RESUMES) from error
        message = f"the table cannot be read: {reason}"
        raise SourceError(message, path=path, hint="Copy or download the file again.") from error


class _ColumnUses(NamedTuple):
    """The columns of a table that samples take."""

    image: str  # Column of the images: binary, or structs with a field ``bytes``
    label: str | None
    classes: tuple[str, ...]  # Names of the classes, by label; empty where the table does not name them
    key: str | None  # Column of the names of samples; None where they are numbered
    values: Mapping[str, str]  # Name in the dataset of each column of numbers or text
    objects: str | None  # Column of the objects


def _find_columns(tables: list[TableFile], fields: Mapping[str, str | None]) -> _ColumnUses:
    """Find the use of each column of some tables, which must have the same columns."""
    # ``fields`` has image, label, key, or the name in the dataset, by the name of a column; None omits one.
    schema = tables[0].schema
    for table in tables[1:]:
        if not table.schema.equals(schema):
            raise SourceError(
                f"its columns differ from the columns of {tables[0].path}",
                path=table.path,
                hint="Convert tables of different columns each to a folder of its own.",
            )
    unlabelled = fields.get("") == "label"
    fields = {name: role for name, role in fields.items() if name}
    if missing := [name for name in fields if name not in schema.names]:
        message = f"the table has no column {missing[0]!r}"
        raise ConfigError(message, hint=f"It has {some_of(schema.names)}.")
    features = _features(schema)
    roles = {role: name for name, role in fields.items() if role in ("image", "label", "key")}
    image = roles.get("image") or _image(schema, features, fields)
    if not _holds_bytes(schema.field(image).type):
        raise ConfigError(
            f"the image column must hold bytes, or structs with bytes, found {image!r} of "
            f"{shorten(str(schema.field(image).type), _MOST_SHOWN)}",
            path=tables[0].path,
            hint="Write a row for each image of a list, and images that are named by their paths as a list "
            "of path and label.",
        )
    label = None if unlabelled else roles.get("label") or _label(schema, features, fields)
    objects = None if "label" in roles else _objects(schema, fields)
    if objects is not None and label is not None:
        raise ConfigError(
            f"the table has labels and objects, in the columns {label!r} and {objects!r}",
            path=tables[0].path,
            hint=f"Choose the objects by label_column='', or the labels by label_column={label!r}.",
        )
    key = roles.get("key") or ("key" if "key" in schema.names and "key" not in fields else None)
    values = {
        name: fields.get(name) or free_name(name, schema.names)
        for name in schema.names
        if name not in (image, label, key, objects)
        and fields.get(name, "") is not None
        and (
            holds_values(schema.field(name).type)
            or (name in fields and holds_text_lists(schema.field(name).type))
        )
    }
    chosen = {image, label, key, objects, *values, *fields}
    if left_out := [f"{one.name} ({str(one.type)[:60]})" for one in schema if one.name not in chosen]:
        _LOG.warning(tables[0].path, f"columns of {tables[0].path} are left out: {', '.join(left_out)}")
    for name, role in fields.items():
        kind = schema.field(name).type
        if role is not None and name not in (image, label, key, *values) and not pa.types.is_null(kind):
            raise ConfigError(
                f"column {name!r} holds {kind}, and a column of the index is of numbers or texts",
                path=tables[0].path,
                hint="Captions are texts or lists of texts. Name another column.",
            )
    labels = label
    if objects is not None:
        labels = f"{objects}.{fields_of_type(schema.field(objects).type)['category']}"
    _check_class_names(tables, [*([labels] if labels else []), *values])
    return _ColumnUses(image, label, _class_names(features, labels), key, values, objects)


def _objects(schema: pa.Schema, fields: Mapping[str, str | None]) -> str | None:
    return next((one.name for one in schema if one.name not in fields and fields_of_type(one.type)), None)


def _check_class_names(tables: list[TableFile], columns: list[str]) -> None:
    """Raise SourceError where the numbers of a column stand for other classes than in the first table."""
    first = tables[0]
    for table in tables[1:]:
        if table.schema.metadata == first.schema.metadata:
            continue
        found, expected = _features(table.schema), _features(first.schema)
        for name in columns:
            if (names := _class_names(found, name)) != (before := _class_names(expected, name)):
                raise SourceError(
                    f"the classes of column {name!r} must be those of {first.path}, "
                    f"{_shown(before)}, found {_shown(names)}",
                    path=table.path,
                    hint="Convert the files of each numbering apart; stoker.append and stoker.merge match "
                    "classes by their names.",
                )


def _class_names(features: dict[str, Any], column: str | None) -> tuple[str, ...]:
    """The names of a ClassLabel, or of a sequence of them; empty for another feature."""
    outer, _, inner = (column or "").rpartition(".")
    feature = features.get(column or "", {})
    if not feature and outer in features:  # a field of structs, in a list or of lists
        of_rows = features[outer].get("feature", features[outer])
        feature = of_rows.get(inner, {}) if isinstance(of_rows, dict) else {}
    feature = {"feature": feature[0]} if isinstance(feature, list) and feature else feature
    found = feature.get("feature", feature) if isinstance(feature, dict) else {}
    return tuple(map(str, (isinstance(found, dict) and found.get("names")) or ()))


def _shown(names: tuple[str, ...]) -> str:
    return shorten(", ".join(names), _MOST_SHOWN, placeholder=" ...") or "no names"


def _features(schema: pa.Schema) -> dict[str, Any]:
    """Features of Hugging Face's datasets by column, as the schema's metadata states them."""
    try:
        stated = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        # A list with the feature of its values is the old form of a sequence.
        features = {
            n: {"feature": one[0]} if isinstance(one, list) and one else one for n, one in stated.items()
        }
        return {name: feature for name, feature in features.items() if isinstance(feature, dict)}
    except (KeyError, TypeError, ValueError):
        return {}


def _image(schema: pa.Schema, features: dict[str, Any], fields: Mapping[str, str | None]) -> str:
    held: list[str] = [one.name for one in schema if _holds_bytes(one.type) and one.name not in fields]
    stated = [name for name in held if features.get(name, {}).get("_type") == "Image"]
    candidates = stated or [name for name in held if name in _IMAGE_NAMES] or held
    if len(candidates) == 1:
        return candidates[0]
    several = f"several columns may be the image: {some_of(candidates)}"
    raise ConfigError(
        f"{several if candidates else 'no column holds images'}; the table has {some_of(schema.names)}",
        hint="Name it with image_column.",
    )


def _label(schema: pa.Schema, features: dict[str, Any], fields: Mapping[str, str | None]) -> str | None:
    free = [name for name in schema.names if name not in fields]
    of_classes: list[str] = [name for name in free if features.get(name, {}).get("_type") == "ClassLabel"]
    if "label" in free or not of_classes:
        return "label" if "label" in free else None
    if len(of_classes) > 1:
        raise ConfigError(
            f"the table has several labels: {some_of(of_classes)}",
            hint="Choose one with label_column; others are columns of numbers.",
        )
    return of_classes[0]


def _holds_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        at = kind.get_field_index("bytes")
        return at >= 0 and _holds_bytes(kind.field(at).type)
    return str(kind) in ("binary", "large_binary", "binary_view")


def _keys(tables: list[TableFile], uses: _ColumnUses, values: dict[str, pa.ChunkedArray]) -> pa.Array:
    """Names of the samples, (N,) large_string: as the table has them, or file and row."""
    paths = [split_query(one.path)[0] for one in tables]
    root = os.path.commonpath(map(os.path.dirname, paths)) if len(tables) > 1 else ""
    numbered = []
    for table, path in zip(tables, paths, strict=True):
        name = path[len(root) :].lstrip("/") if root else path.rpartition("/")[2]
        numbers = pa.array(np.arange(sum(table.rows))).cast(pa.large_string())
        prefix = pa.scalar(f"{name.rpartition('.')[0]}/", pa.large_string())
        padded = pc.utf8_lpad(numbers, _DIGITS, "0")
        numbered.append(pc.binary_join_element_wise(prefix, padded, pa.scalar("", pa.large_string())))
    keys = pa.chunked_array(numbered, pa.large_string())
    if uses.key is not None:
        keys = pc.coalesce(values[uses.key].cast(pa.large_string()), keys)
    return keys.combine_chunks()


def _listing(
    tables: list[TableFile], uses: _ColumnUses, values: dict[str, pa.ChunkedArray], keys: pa.Array
) -> Listing:
    """The listing of all rows, without labels."""
    image = (uses.image, f"{uses.image}.bytes")
    blocks = [
        (count, sum(size for name, size in stated.items() if name in image))
        for table in tables
        for count, stated in zip(table.rows, table.bytes, strict=True)
    ]
    counts = np.array([count for count, _ in blocks], np.int64)
    means = np.array([size // max(count, 1) for count, size in blocks], np.int64)
    blocks_of_file = [len(table.rows) for table in tables]
    file = np.repeat(np.repeat(np.arange(len(tables)), blocks_of_file), counts).astype(np.int32)
    block = np.repeat(np.concatenate([np.arange(count) for count in blocks_of_file]), counts)
    row = np.arange(len(keys)) - np.repeat(np.cumsum(counts) - counts, counts)
    columns = {new: value_column(values[name], name, tables[0].path) for name, new in uses.values.items()}
    return Listing(
        split_url(tables[0].path)[0],
        keys,
        np.repeat(np.maximum(means, 1), counts),
        np.array([table.modified for table in tables], np.int64)[file],
        labels=None,
        classes=(),
        columns={name: array for name, array in columns.items() if array is not None},
        blocks=ListedBlocks(
            tuple(table.path for table in tables),
            tuple(table.size for table in tables),
            uses.image,
            file,
            block.astype(np.int32),
            row.astype(np.int32),
        ),
    )


_PIECE = 1 << 20  # bytes of images that are decompressed at once
_MOST_ROWS = 64
_MOST_FILES = 16  # whose footers are kept


class BlockImages:
    """The images of a listing that lie in blocks of files. Threads may share it; a copy has no open file.

    Images in a shuffled order are read through a temporary file in ``folder``; for others it is None.
    """

    def __init__(self, blocks: ListedBlocks, folder: str | None, num_threads: int) -> None:
        self._blocks = blocks
        self._folder = folder
        self._num_threads = num_threads
        self._lock = threading.Lock()
        self._open: OrderedDict[tuple[int, int], _OpenBlock] = OrderedDict()
        self._metadata: OrderedDict[int, Any] = OrderedDict()
        self._spool: _Spool | None = None
        self._most_open = 4 + 2 * num_threads  # the rows of a thread may lie in two blocks

    def __reduce__(self) -> tuple[Any, ...]:
        return BlockImages, (self._blocks, self._folder, self._num_threads)

    def read(self, file: int, block: int, row: int) -> bytes | None:
        """The bytes in a row of a block; None if it has none."""
        if self._folder is not None:
            with self._lock:
                self._spool = self._spool or _Spool(self._folder)
            return self._spool.read((file, block), row, partial(self._pieces, file, block))
        return self._block(file, block).read(row)

    def close(self) -> None:
        """Close all files; the object can be used again."""
        with self._lock:
            opened = list(self._open.values())
            self._open.clear()
            self._spool = None
        for block in opened:
            block.close()

    def _block(self, file: int, block: int) -> _OpenBlock:
        """An open block; of the others, those that were not used for longest are closed."""
        unused = []
        with self._lock:
            opened = self._open.get((file, block))
            if opened is None:
                most = (16 + 2 * self._num_threads) << 20  # more than between the rows that threads read
                opened = self._open[file, block] = _OpenBlock(partial(self._pieces, file, block), most)
            self._open.move_to_end((file, block))
            while len(self._open) > self._most_open:
                unused.append(self._open.popitem(last=False)[1])
        for closing in unused:
            closing.close()  # waits for its reader, which may need the lock of this object meanwhile
        return opened

    def _pieces(self, file: int, block: int) -> Generator[pa.Array]:
        """The images of a block, some rows at a time."""
        path, size, column = self._blocks.files[file], self._blocks.file_sizes[file], self._blocks.column
        with ExitStack() as stack:
            stack.enter_context(reading_table(path))
            if os.path.lexists(path) and (found := os.stat(path).st_size) != size:  # noqa: PTH116 - may be a URL
                raise ValueError(f"it had {size} bytes when it was listed, and has {found}")
            if self._blocks.kind == "mds":
                yield from mds_images(path, column)
                return
            opened = stack.enter_context(opened_table(path, size, self._metadata.get(file)))
            if isinstance(opened, pq.ParquetFile):
                with self._lock:
                    self._metadata[file] = opened.metadata
                    while len(self._metadata) > _MOST_FILES:
                        self._metadata.popitem(last=False)
                group = opened.metadata.row_group(block)
                left, most = group.num_rows, _piece_rows(group, column)
                batches = opened.iter_batches(most, row_groups=[block], columns=[column], use_threads=False)
            else:
                whole = next(batch for number, batch in enumerate(opened) if number == block)
                rows = checked(whole.select([column]))
                left = len(rows)
                batches = (rows.slice(start, _MOST_ROWS) for start in range(0, left, _MOST_ROWS))
            for batch in batches:
                left -= len(batch)
                if not left:
                    break
                yield _images(batch.column(column))
            # The memory of the file is free before its last images are used: a new file takes the same.
            del batches
        yield _images(batch.column(column))


def _images(column: pa.Array) -> pa.Array:
    images = pc.struct_field(column, "bytes") if pa.types.is_struct(column.type) else column
    return images.cast(pa.large_binary()) if str(images.type) == "binary_view" else images


def _piece_rows(group: Any, column: str) -> int:
    """Number of rows of a row group with about a megabyte of images."""
    paths = (column, f"{column}.bytes")
    size = sum(one.total_uncompressed_size for one in row_group_columns(group) if one.path_in_schema in paths)
    return int(min(max(_PIECE * group.num_rows // max(size, 1), 1), _MOST_ROWS))


@dataclass(eq=False)
class _Piece:
    """Some rows of a block: the first one, their images, and the number of rows not yet asked for."""

    first: int
    images: pa.Array
    unread: int


class _OpenBlock:
    """A block that is read from its start to its end, with the rows that are not yet asked for.

    Threads ask for rows nearly in order, and for each once. A row that is no longer in memory restarts the
    block.
    """

    def __init__(self, pieces: Callable[[], Generator[pa.Array]], most: int) -> None:
        self._begin = pieces
        self._lock = threading.Lock()
        self._most = most
        self._restart()

    def _restart(self) -> None:
        self._pieces = self._begin()
        self._kept: list[_Piece] = []
        self._next = 0

    def read(self, row: int) -> bytes | None:
        """The bytes in a row; None if it has none."""
        with self._lock:
            piece = self._find(row)
            piece.unread -= 1
            if not piece.unread:  # its memory serves the next piece
                self._kept.remove(piece)
            value: bytes | None = piece.images[row - piece.first].as_py()
        return value

    def close(self) -> None:
        """Close the file; a row that is read later opens it again."""
        with self._lock:
            self._pieces.close()
            self._restart()

    def _find(self, row: int) -> _Piece:
        if row < self._next:
            holding = [piece for piece in self._kept if piece.first <= row < piece.first + len(piece.images)]
            if holding:
                return holding[0]
            self._restart()
        while row >= self._next:
            if (images := next(self._pieces, None)) is None:
                raise ValueError("a block has fewer rows than when it was listed")
            self._kept.append(_Piece(self._next, images, len(images)))
            self._next += len(images)
            while len(self._kept) > 2 and sum(piece.images.nbytes for piece in self._kept) > self._most:
                self._kept.pop(0)
        return self._kept[-1]


class _Spool:
    """A temporary file with the images of blocks, in the folder or the nearest one above it that exists."""

    def __init__(self, folder: str) -> None:
        existing = next((path for path in [Path(folder), *Path(folder).parents] if path.is_dir()), None)
        with tempfile.TemporaryFile(dir=existing) as file:
            self._file = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._file)
        self._size = 0
        self._lock = threading.Lock()
        self._locks: defaultdict[tuple[int, int], threading.Lock] = defaultdict(threading.Lock)
        # Of each block the first byte and the length of each image, (2, N) int64; length -1 for no image.
        self._blocks: dict[tuple[int, int], npt.NDArray[np.int64]] = {}

    def read(
        self, block: tuple[int, int], row: int, pieces: Callable[[], Iterator[pa.Array]]
    ) -> bytes | None:
        """The bytes in a row of a block; None if it has none."""
        with self._lock:
            lock = self._locks[block]
        with lock:
            if block not in self._blocks:
                self._blocks[block] = self._copy(pieces())
        start, length = self._blocks[block][:, row].tolist()
        return None if length < 0 else read_at(self._file, start, length)

    def _copy(self, pieces: Iterator[pa.Array]) -> npt.NDArray[np.int64]:
        """Copy the images of a block to the end of the file, where other blocks are copied to as well."""
        places = []
        for images in pieces:
            lengths = pc.fill_null(pc.cast(pc.binary_length(images), pa.int64()), -1)
            sizes = np.asarray(lengths.to_numpy(zero_copy_only=False), np.int64)
            stored = np.maximum(sizes, 0)
            with self._lock:
                at, self._size = self._size, self._size + int(stored.sum())
            places.append(np.stack((at + np.cumsum(stored) - stored, sizes)))
            left = memoryview(b"".join(image.as_buffer() for image in images if image.is_valid))
            while left:
                written = os.pwrite(self._file, left, at)
                left, at = left[written:], at + written
        return np.concatenate(places, axis=1)
