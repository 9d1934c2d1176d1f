"""A list of images as a source: CSV with a header line, JSON (an array of objects) or JSON Lines.

Every entry has ``path`` and ``label``; whatever else it has becomes a column of the index: integers,
floats, or text. A label is a number, or a name, and then the sorted names are the classes. Where images
have several labels or none, there is ``labels`` instead of ``label``: in JSON a list of either, which
``label`` may hold, too, in CSV a text with ``|`` between them.

A relative path starts at the folder of the list and stays in it, links included: a list from
somewhere else must not gather files that nobody meant. An absolute path says what it means and is
taken as it is.
"""

from __future__ import annotations

import csv
import json
import os
import posixpath
import re
from array import array
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stoker.errors import SourceError
from stoker.formats.annotation_columns import MASK_COLUMNS, OBJECT_COLUMNS
from stoker.formats.file_table import FileTable
from stoker.formats.files import open_regular
from stoker.formats.index import IMAGE_COLUMNS, REQUIRED_COLUMNS
from stoker.formats.listing import ListedFiles, Listing, Skip, inside, is_regular, printable
from stoker.formats.remote.store import Store, is_url

__all__ = ["Found", "find_files", "list_file", "resolve"]

_RESERVED = {*REQUIRED_COLUMNS, *IMAGE_COLUMNS, *OBJECT_COLUMNS, *MASK_COLUMNS, "label", "row", "image"}
_LARGEST = 1 << 63
_SEVERAL, _BETWEEN = "labels", "|"

Entry = Mapping[str, Any]


class Found(NamedTuple):
    """Files that a list names, sorted by key; ``entries`` is the place of each in the list, (N,) int64."""

    files: ListedFiles
    entries: npt.NDArray[np.int64]


def list_file(path: str | os.PathLike[str], root: str | os.PathLike[str] | None = None) -> Listing:
    """List the images that a file names; each of them once.

    Args:
        path: The file.
        root: Folder where relative paths start, or its URL; that of the file by default.

    Raises:
        SourceError: The file is no such list; says in which entry and why.
    """
    file = Path(path)
    entries = _read(file)
    for number, entry in enumerate(entries):
        _check(file, number, entry)
    folder = resolve(file.parent if root is None else root)
    found, skipped = find_files(folder, [entry["path"] for entry in entries])
    if not len(found.files):
        raise SourceError("the list names no image that can be read", path=file)
    kept = [entries[number] for number in found.entries.tolist()]
    labels, classes = _labels(file, [entry["label"] for entry in kept])
    return Listing(
        **vars(found.files),
        labels=labels,
        classes=classes,
        columns=_columns(kept),
        skipped=tuple(sorted(skipped)),
    )


def _fail(file: Path, message: str) -> NoReturn:
    raise SourceError(
        message,
        path=file,
        hint="expected is CSV with a header line, a JSON array of objects, or JSON Lines, each with path "
        "and label (or labels, several); or a folder of classes, COCO's JSON object, or a folder of Pascal "
        "VOC or YOLO",
    )


def _read(file: Path) -> list[Entry]:
    reader = {".csv": _read_csv, ".json": _read_json, ".jsonl": _read_jsonl}.get(file.suffix.lower())
    if reader is None:
        _fail(file, "the source is neither a folder nor a .csv, .json or .jsonl file")
    try:
        with open_regular(file) as (descriptor, _), os.fdopen(os.dup(descriptor), "rb") as stream:
            # utf-8-sig: spreadsheets write a byte order mark.
            return reader(file, stream.read().decode("utf-8-sig"))
    except OSError as error:
        raise SourceError(f"the list cannot be read: {error.strerror or error}", path=file) from error
    except SourceError:
        raise
    except (ValueError, RecursionError, csv.Error) as error:
        _fail(file, f"the list cannot be parsed: {error}")


def _read_csv(file: Path, text: str) -> list[Entry]:
    rows = csv.reader(text.splitlines(keepends=True), strict=True)
    header = next(rows, [])
    if len(set(header)) != len(header):
        _fail(file, "two columns have the same name")
    entries: list[Entry] = []
    for row in rows:
        if row and len(row) != len(header):
            _fail(file, f"line {rows.line_num} has {len(row)} fields where the header has {len(header)}")
        if row:
            entries.append(dict(zip(header, row, strict=True)))
    for name in header:
        if name not in ("path", _SEVERAL):
            _convert_column(entries, name)
    if _SEVERAL in header:
        if "label" in header:
            _fail(file, "there are both a column label and a column labels")
        _split_labels(entries)
    return entries


def _split_labels(entries: list[Entry]) -> None:
    """Make a list ``label`` of the text ``labels``, each label once; numbers where there is nothing else."""
    parts = [[part.strip() for part in entry[_SEVERAL].split(_BETWEEN)] for entry in entries]
    words = [list(dict.fromkeys(filter(None, some))) for some in parts]
    numeric = all(re.fullmatch(r"[+-]?\d{1,18}", word) for some in words for word in some)
    for entry, some in zip(entries, words, strict=True):
        del entry[_SEVERAL]  # type: ignore[attr-defined]  # these are dicts of our own
        entry["label"] = list(map(int, some)) if numeric else some  # type: ignore[index]  # likewise


def _convert_column(entries: list[Entry], name: str) -> None:
    """Make numbers of a column of text in which there is nothing else."""
    if any("_" in entry[name] for entry in entries):
        return  # which Python takes for digits set apart, and nobody else does
    for kind in (int, float):
        try:
            values = [kind(entry[name]) for entry in entries]
        except ValueError:
            continue
        for entry, value in zip(entries, values, strict=True):
            entry[name] = value  # type: ignore[index]  # these are dicts of our own
        return


def _read_json(file: Path, text: str) -> list[Entry]:
    document = json.loads(text)
    if not isinstance(document, list):
        _fail(file, "the JSON is no array")
    return document


def _read_jsonl(_: Path, text: str) -> list[Entry]:
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def _check(file: Path, number: int, entry: Any) -> None:
    where = f"entry {number + 1}"
    if not isinstance(entry, dict):
        _fail(file, f"{where} is no object")
    if "label" not in entry and isinstance(entry.get(_SEVERAL), list):
        entry["label"] = entry.pop(_SEVERAL)
    for name in ("path", "label"):
        if name not in entry:
            _fail(file, f"{where} has no {name}")
    if not isinstance(entry["path"], str) or not entry["path"] or "\0" in entry["path"]:
        _fail(file, f"{where} has a path that is no file name: {entry['path']!r}")
    labels = entry["label"] if isinstance(entry["label"], list) else [entry["label"]]
    for label in labels:
        if type(label) not in (int, str) or (isinstance(label, int) and abs(label) >= _LARGEST):
            _fail(file, f"{where} has a label that is neither number nor name: {label!r}")
        if label == "":
            _fail(file, f"{where} has an empty label; what may have none is a list of labels")
    if reserved := ", ".join(sorted(_RESERVED & entry.keys() - {"label"})):
        _fail(file, f"{where} has a column whose name the index uses itself: {reserved}")


def resolve(folder: str | os.PathLike[str]) -> str:
    """A folder without links, or its URL as it is."""
    return os.fspath(folder).rstrip("/") if is_url(folder) else os.path.realpath(folder)


def find_files(root: str, paths: Iterable[str]) -> tuple[Found, list[Skip]]:
    """The files that a list names, each once, and why the others are not taken.

    Args:
        root: Folder where relative paths start, and in which they stay; as :func:`resolve` has it.
        paths: As the list has them.
    """
    look = _in_store(Store(root)) if is_url(root) else partial(_look_at, root)
    table, entries = FileTable(), array("q")
    skipped: list[Skip] = []
    for number, path in enumerate(paths):
        looked = look(path)
        if isinstance(looked, Skip):
            skipped.append(looked)
        else:
            table.add(*looked)
            entries.append(number)
    files, order = table.sorted(root)
    again = np.zeros(len(files), bool)
    again[1:] = pc.equal(files.keys[1:], files.keys[:-1]).to_numpy(zero_copy_only=False)
    skipped += [Skip(key, "listed twice") for key in files.keys.filter(again).to_pylist()]
    once = np.flatnonzero(~again)
    return Found(files.take(once), np.frombuffer(entries, np.int64)[order][once]), skipped


def _look_at(root: str, path: str) -> tuple[str, int, int] | Skip:
    """Key, bytes and time of a file, or why it is not taken."""
    key = os.path.normpath(path)
    try:
        key.encode()
        target = os.path.realpath(os.path.join(root, key))  # noqa: PTH118 - a path object a file costs more
        if not key.startswith("/") and not inside(target, root):
            return Skip(printable(key), "path that leaves the source")
        status = os.stat(target)  # noqa: PTH116 - likewise
    except UnicodeEncodeError:
        return Skip(printable(key), "name is not UTF-8")
    except (OSError, ValueError) as error:
        return Skip(printable(key), "unreadable", getattr(error, "strerror", None) or str(error))
    if not is_regular(status):
        return Skip(printable(key), "not a regular file")
    return key, status.st_size, status.st_mtime_ns


def _in_store(store: Store) -> Callable[[str], tuple[str, int, int] | Skip]:
    """What :func:`_look_at` does, at a URL, all of whose files are listed once."""
    there = {file.name: file for file in store.files()}

    def look_at(path: str) -> tuple[str, int, int] | Skip:
        relative = path.removeprefix(f"{store.url}/")
        key = posixpath.normpath(relative)
        if key.startswith(("/", "../")) or "://" in relative:
            return Skip(printable(relative), "path that leaves the source")
        file = there.get(key)
        if file is None:
            return Skip(printable(key), "unreadable", "No such file or directory")
        return key, file.size, file.modified

    return look_at


def _labels(file: Path, labels: list[Any]) -> tuple[pa.Array, tuple[str, ...]]:
    several = any(isinstance(label, list) for label in labels)
    lists = [label if isinstance(label, list) else [label] for label in labels]
    kinds = {type(label) for some in lists for label in some}
    if len(kinds) > 1:
        _fail(file, "some labels are numbers and some are names")
    classes: tuple[str, ...] = ()
    if kinds == {str}:
        classes = tuple(sorted({label for some in lists for label in some}))
        number = {name: i for i, name in enumerate(classes)}
        lists = [[number[label] for label in some] for some in lists]
    if several:
        return pa.array(lists, pa.large_list(pa.int64())), classes
    return pa.array([some[0] for some in lists], pa.int64()), classes


def _columns(entries: list[Entry]) -> dict[str, pa.Array]:
    """Further columns: int64 or float64 where all values are such numbers, else text."""
    names = sorted({name for entry in entries for name in entry} - {"path", "label"})
    return {name: _column([entry.get(name) for entry in entries]) for name in names}


def _column(values: list[Any]) -> pa.Array:
    kinds = {type(value) for value in values}
    if kinds == {int} and all(abs(value) < _LARGEST for value in values):
        return pa.array(values, pa.int64())
    if kinds <= {int, float, type(None)} and kinds != {type(None)}:
        return pa.array([float("nan") if value is None else float(value) for value in values], pa.float64())
    return pa.array([_text(value) for value in values], pa.large_string())


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
