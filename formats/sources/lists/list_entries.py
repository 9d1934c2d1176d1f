"""Entries of a list of images: CSV with a header line, a JSON array, JSON Lines, lines of path and number."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any, NoReturn, TextIO

from stoker.errors import SourceError

from ...containers.registry import is_local_shard
from ...dataset.index import KNOWN_COLUMNS
from ...files import open_regular, printable_name
from ..format_names import SOURCE_DESCRIPTIONS
from ..no_images import INDEX_SHARDS
from .json_stream import stream_array

_RESERVED = {*KNOWN_COLUMNS, "label", "row", "image"}
_SUFFIXES = (".csv", ".json", ".jsonl")
_INTEGER = re.compile(r"-?\d{1,18}")
_LARGEST = 1 << 63
_MOST_SHOWN = 200  # characters of names in a message
_SEVERAL, _BETWEEN = "labels", "|"
_OTHERS = [text for name, text in SOURCE_DESCRIPTIONS.items() if name != "list"]

Entry = dict[str, Any]


@dataclass(frozen=True)
class ListColumns:
    """The names of the columns of a list that have the path and the label of an entry."""

    path: str = "path"  # Name of the column with the path
    label: str = "label"  # Name of the column with the label
    suffix: str = ""  # Text to append to every path, such as ``.jpg`` where the list has names without it
    # Whether every entry has a label; otherwise that of an entry without one is None
    needs_label: bool = True

    def renamed(self, names: Iterable[str]) -> list[str]:
        """Return names of columns, with ``path`` and ``label`` for these two."""
        usual = {self.path: "path", self.label: "label"}
        return [usual.get(name, name) for name in names]


_USUAL = ListColumns()


def fail(file: Path, message: str) -> NoReturn:
    """Raise the error for a file that is no list, with the forms that a source may have."""
    raise SourceError(
        message,
        path=file,
        hint="give CSV with a header line, a JSON array of objects, or JSON Lines, each with path and "
        "label (or labels, several; --path-column and --label-column name others), or a .txt with a path and "
        f"a number in each line; or {'; '.join(_OTHERS)}",
    )


def has_list_suffix(path: str | os.PathLike[str]) -> bool:
    """Whether a path or URL has the name of a list; a .txt may be something else."""
    return os.path.splitext(path)[1].lower() in _SUFFIXES  # noqa: PTH122 - it may be a URL


def has_cells(file: Path) -> bool:
    """Whether all values of a list are text that may stand for numbers, as in CSV."""
    return file.suffix.lower() == ".csv"


def read_entries(file: Path, columns: ListColumns = _USUAL) -> Iterator[Entry]:
    """Entries of a list; each has a ``path`` and a ``label``, which may be a list of labels, or None."""
    reader = _READERS.get(file.suffix.lower())
    if reader is None and is_local_shard(file):
        raise SourceError("the source is a shard of another program", path=file, hint=INDEX_SHARDS)
    if reader is None and file.suffix.lower() == ".gz":
        fail(file, "the source is packed by gzip, as only COCO's JSON may be: unpack it")
    if reader is None:
        fail(file, "the source is neither a folder nor a .csv, .json, .jsonl or .txt file")
    try:
        for number, entry in enumerate(reader(file, columns)):
            _check(file, number, entry, columns)
            entry["path"] += columns.suffix
            yield entry
    except OSError as error:
        raise SourceError(f"the list cannot be read: {error.strerror or error}", path=file) from error
    except SourceError:
        raise
    except (ValueError, RecursionError, csv.Error) as error:
        fail(file, f"the list cannot be parsed: {error}")


@contextmanager
def _open(file: Path, newline: str) -> Iterator[TextIO]:
    # utf-8-sig: spreadsheets write a byte order mark.
    with (
        open_regular(file) as (descriptor, _),
        os.fdopen(os.dup(descriptor), encoding="utf-8-sig", newline=newline) as stream,
    ):
        yield stream


def _read_csv(file: Path, columns: ListColumns) -> Iterator[Entry]:
    with _open(file, newline="") as stream:
        rows = csv.reader(stream, strict=True)
        header = columns.renamed(next(rows, []))
        if len(set(header)) != len(header):
            fail(file, "two columns have the same name")
        if {"label", _SEVERAL} <= set(header):
            fail(file, f"the columns label and {_SEVERAL} exclude each other")
        if header:
            label = _SEVERAL if _SEVERAL in header else "label"
            _check_names(file, "the header", header, label if columns.needs_label else "path")
        for row in rows:
            if row and len(row) != len(header):
                fail(file, f"line {rows.line_num} has {len(row)} fields where the header has {len(header)}")
            if row:
                yield _split_labels(dict(zip(header, row, strict=True)))


def _split_labels(entry: Entry) -> Entry:
    """Replace the text ``labels`` by a list, with each label once."""
    if _SEVERAL in entry:
        words = (word.strip() for word in entry[_SEVERAL].split(_BETWEEN))
        entry[_SEVERAL] = list(dict.fromkeys(filter(None, words)))
    return entry


def _read_json(file: Path, columns: ListColumns) -> Iterator[Entry]:
    try:
        yield from (_renamed(entry, columns) for entry in stream_array(file))
    except SourceError as error:
        fail(file, error.message)


def _renamed(entry: Any, columns: ListColumns) -> Any:
    if columns == _USUAL or not isinstance(entry, dict):
        return entry
    return dict(zip(columns.renamed(entry), entry.values(), strict=True))


def _read_lines(file: Path, columns: ListColumns) -> Iterator[Entry]:
    """Entries of a list as Caffe and DIGITS take it: in each line a path, and the number of its class."""
    with _open(file, newline="\n") as stream:
        for number, line in enumerate(stream):
            if not line.strip():
                continue
            path, *label = line.strip().rsplit(maxsplit=1)
            if len(label) != 1 or not _INTEGER.fullmatch(label[0]):
                shown = shorten(line.strip(), _MOST_SHOWN)
                fail(file, f"line {number + 1} is not a path and a number: {shown}")
            yield {"path": path, "label": int(label[0])}


def _read_jsonl(file: Path, columns: ListColumns) -> Iterator[Entry]:
    with _open(file, newline="\n") as stream:
        for number, line in enumerate(stream):
            if line.strip():
                try:
                    yield _renamed(json.loads(line), columns)
                except json.JSONDecodeError as error:
                    fail(file, f"line {number + 1} is no JSON: {error.msg}, at character {error.pos}")


_READERS = {".csv": _read_csv, ".json": _read_json, ".jsonl": _read_jsonl, ".txt": _read_lines}


def _check_names(file: Path, where: str, names: Collection[str], label: str) -> None:
    if "image_id" in names and not {"bbox", "segmentation"}.isdisjoint(names):
        fail(
            file,
            f"{where} is an annotation, such as those in COCO's results: give the object that has images, "
            "annotations and categories",
        )
    for name in ("path", label):
        if name not in names:
            listed_names = shorten(", ".join(names), _MOST_SHOWN, placeholder=" ...") or "nothing"
            fail(file, f"{where} has no {name}: it has {listed_names}")


def _check(file: Path, number: int, entry: Any, columns: ListColumns) -> None:
    where = f"entry {number + 1}"
    if not isinstance(entry, dict):
        fail(file, f"{where} is no object")
    if "label" not in entry and _SEVERAL in entry:
        if not isinstance(entry[_SEVERAL], list):
            fail(file, f"{where} has {_SEVERAL} that are no list: {entry[_SEVERAL]!r}")
        entry["label"] = entry.pop(_SEVERAL)
    if not columns.needs_label:
        entry.setdefault("label", None)
    _check_names(file, where, entry, "label")
    if not isinstance(entry["path"], str) or not entry["path"] or "\0" in entry["path"]:
        fail(file, f"{where} has a path that is no file name: {entry['path']!r}")
    if entry["label"] is not None or columns.needs_label:
        _check_labels(file, where, entry["label"])
    if reserved := ", ".join(sorted(_RESERVED & entry.keys() - {"label"})):
        fail(file, f"{where} has a column with a name that the index uses: {reserved}")
    if wrong := [name for name in entry if not name.isascii() and printable_name(name) != name]:
        fail(file, f"{where} has a column whose name is no Unicode: {printable_name(wrong[0])}")


def _check_labels(file: Path, where: str, labels: Any) -> None:
    for label in labels if isinstance(labels, list) else [labels]:
        if type(label) not in (int, str) or (isinstance(label, int) and abs(label) >= _LARGEST):
            fail(file, f"{where} has a label that is neither number nor name: {label!r}")
        if label == "":
            fail(file, f"{where} has an empty label; use labels where an image may have none")
