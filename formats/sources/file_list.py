"""Entries of a list of images: CSV with a header line, a JSON array, JSON Lines, lines of path and number."""

from __future__ import annotations

import csv
import json
import os
import posixpath
import re
import stat
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple, NoReturn, TextIO

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from stoker.errors import SourceError
from stoker.urls import is_url, without_credentials

from ..containers.registry import is_local_shard
from ..dataset.index import KNOWN_COLUMNS
from ..files import is_regular, leaves_folder, open_regular, printable_name
from ..remote.store import Store, local_copies
from .entry_columns import EntryColumns
from .image_files import IMAGE_SUFFIXES, FileTable
from .json_stream import stream_array
from .listing import INDEX_SHARDS, ListedFiles, Listing, Skip, no_images_error
from .options import SOURCE_DESCRIPTIONS
from .source import Source

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


_TRIED = 20  # paths; a mistake in a prefix is in all of them
_FOLDERS = 100  # subfolders that may be the missing prefix


def likely_cause(folder: str, paths: Sequence[str]) -> str:
    """Return a change after which most of the paths lead to files, or else the path that was tried.

    ``paths`` is not empty, and relative ones start in ``folder``.
    """
    first_paths = sorted(paths)[:_TRIED]
    for change, words in _changes(folder, first_paths[0]):
        if sum(os.path.isfile(change(path)) for path in first_paths) > len(first_paths) / 2:  # noqa: PTH113 - tried often
            return words
    tried = os.path.join(folder, first_paths[0])  # noqa: PTH118 - the path may be absolute
    return f"relative paths start at {folder}: the first file would be {tried}"


def _changes(folder: str, first: str) -> Iterator[tuple[Callable[[str], str], str]]:
    """Yield functions that change a path, each with the hint if the changed paths lead to files."""
    for base in dict.fromkeys((os.getcwd(), os.path.dirname(folder))):  # noqa: PTH109, PTH120 - texts
        yield (
            partial(os.path.join, base),
            f"relative paths start at the folder of the list, and these files are in {base}: "
            "put the list there, or write absolute paths",
        )
    parts = first.split("/")
    for count in range(1, len(parts)):
        prefix = "/".join(parts[:count]) + "/"
        words = f"the files are there without the prefix {prefix!r} of their paths: remove it from the list"
        yield partial(_without, folder, prefix), words
    for name in _subfolders(folder):
        words = f"the files are there with the prefix {name + '/'!r}: write it before each path"
        yield partial(os.path.join, folder, name), words
    for suffix in IMAGE_SUFFIXES:
        words = f"the files are there with the suffix {suffix!r}: add it: --suffix {suffix}"
        yield partial(_with_suffix, folder, suffix), words


def _without(folder: str, prefix: str, path: str) -> str:
    return os.path.join(folder, path.removeprefix(prefix))  # noqa: PTH118 - the path may be absolute


def _with_suffix(folder: str, suffix: str, path: str) -> str:
    return os.path.join(folder, path) + suffix  # noqa: PTH118 - the path may be absolute


def _subfolders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())[:_FOLDERS]
    except OSError:
        return []


def is_list(source: Source) -> bool:
    """Whether a source is a file, but not a YAML of YOLO; at a URL, whether it has the name of a list."""
    path = source.path
    if is_url(path):
        return has_list_suffix(path) or os.fspath(path).lower().endswith(".txt")
    return not Path(path).is_dir() and not os.fspath(path).lower().endswith((".yaml", ".yml"))


def list_named_images(source: Source) -> Listing:
    """List the images that a list on a disk or at a URL names.

    Raises: As :func:`list_file`, and StorageError where a URL cannot be read.
    """
    folder = os.fspath(source.path).rpartition("/")[0] if is_url(source.path) else None
    usual = ListColumns()
    columns = ListColumns(
        source.options.path_column or usual.path,
        source.options.label_column or usual.label,
        source.options.suffix or usual.suffix,
        needs_label=source.caption_column is None,
    )
    with local_copies([source.path]) as (file,):
        return list_file(
            file, source.options.images or folder, columns, follow_links=source.options.follow_links
        )


class NamedFiles(NamedTuple):
    """Files that a list names, sorted by key; ``entries``, (N,) int64, has their indexes in the list."""

    files: ListedFiles
    entries: npt.NDArray[np.int64]


def list_file(
    path: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    columns: ListColumns | None = None,
    *,
    follow_links: bool = True,
) -> Listing:
    """List the images that a file names; each of them once.

    Relative paths start in the folder or URL ``root``, by default the folder of the file.
    """
    file = Path(path)
    folder = resolve(file.parent if root is None else root)
    values = EntryColumns(cells=has_cells(file))
    entries = read_entries(file, columns or ListColumns())
    named, skipped = find_files(folder, values.gather(entries), follow_links=follow_links)
    if not len(named.files) and not skipped:
        fail(file, "the list has no entries")
    if not len(named.files):
        hint = None if is_url(folder) else likely_cause(folder, [skip.key for skip in skipped])
        raise no_images_error("the list names no image that can be read", file, skipped, hint)
    try:
        labels, classes = values.labels(named.entries) if values.has_labels() else (None, ())
        missing = set(values.class_names()) - set(classes) if classes and skipped else set()
    except ValueError as error:
        fail(file, str(error))
    return Listing(
        **vars(named.files),
        labels=labels,
        classes=classes,
        columns=values.others(named.entries),
        skipped=tuple(sorted(skipped)),
        missing_classes=tuple(Skip(name, "no image of it can be read") for name in sorted(missing)),
    )


def resolve(folder: str | os.PathLike[str]) -> str:
    """The real path of a folder; its URL as it is."""
    return os.fspath(folder).rstrip("/") if is_url(folder) else os.path.realpath(folder)


def find_files(
    root: str, paths: Iterable[str], *, follow_links: bool = True
) -> tuple[NamedFiles, list[Skip]]:
    """The files that a list names, each once; and the others, as skips.

    Relative paths start in ``root``, from :func:`resolve`, and stay there.
    """
    look: Callable[[str], tuple[str, int, int] | Skip] = partial(_look_at, root, follow_links)
    if is_url(root):
        paths = list(paths)
        look = _in_store(Store(root), paths)
    table, entries = FileTable(), array("q")
    skipped: list[Skip] = []
    for number, path in enumerate(paths):
        looked = look(path)
        if isinstance(looked, Skip):
            skipped.append(looked)
        else:
            table.add(*looked)
            entries.append(number)
    files, order = table.sorted(root, follow_links=follow_links)
    named = NamedFiles(files, np.frombuffer(entries, np.int64)[order])
    again = np.zeros(len(files), bool)
    again[1:] = pc.equal(files.keys[1:], files.keys[:-1]).to_numpy(zero_copy_only=False)
    if again.any():
        skipped += [Skip(key, "listed twice") for key in files.keys.filter(again).to_pylist()]
        named = NamedFiles(files.take(np.flatnonzero(~again)), named.entries[~again])
    return named, skipped


def _look_at(root: str, follow_links: bool, path: str) -> tuple[str, int, int] | Skip:
    """Key, bytes and time of a file; or a skip."""
    if is_url(path):
        return Skip(without_credentials(printable_name(path)), "URL in a list on a disk")
    key = os.path.normpath(path)
    if not key.startswith("/") and leaves_folder(key):
        return Skip(printable_name(key), "path that leaves the source")
    target = os.path.join(root, key)  # noqa: PTH118 - a path object would take longer
    try:
        key.encode()
        status = os.stat(target, follow_symlinks=follow_links)  # noqa: PTH116 - a path object would take longer
    except UnicodeEncodeError:
        return Skip(printable_name(key), "name is not UTF-8")
    except (OSError, ValueError) as error:
        return Skip(printable_name(key), "unreadable", getattr(error, "strerror", None) or str(error))
    is_link = not follow_links and (stat.S_ISLNK(status.st_mode) or _is_linked(target, key))
    if is_link or not is_regular(status):
        return Skip(printable_name(key), "link" if is_link else "not a regular file")
    return key, status.st_size, status.st_mtime_ns


def _is_linked(target: str, key: str) -> bool:
    """Whether a folder on a relative path is a link; those of an absolute path are its writer's choice."""
    return not key.startswith("/") and os.path.realpath(target) != target


def _in_store(store: Store, paths: Sequence[str]) -> Callable[[str], tuple[str, int, int] | Skip]:
    """A function like :func:`_look_at` for a URL, whose storage is asked once for all paths."""

    def key_of(path: str) -> str:
        """Name in the store; empty if the path leads out of it."""
        relative = path.removeprefix(f"{store.url}/")
        key = posixpath.normpath(relative)
        return "" if key.startswith(("/", "../")) or "://" in relative else key

    files = {file.name: file for file in store.files({key_of(path) for path in paths} - {""})}

    def look_at(path: str) -> tuple[str, int, int] | Skip:
        key = key_of(path)
        if not key:
            return Skip(without_credentials(printable_name(path)), "path that leaves the source")
        file = files.get(key)
        if file is None:
            return Skip(printable_name(key), "unreadable", "No such file or directory")
        return key, file.size, file.modified

    return look_at
