"""A list of images as a source: CSV, a JSON array, JSON Lines, or a .txt as Caffe and DIGITS take it.

Every entry has ``path`` and ``label``, or columns of other names that the user gives; its other values become
columns of the index. A label is a number or a name; the sorted names are the classes. Where images have
several labels or none, entries have ``labels`` instead of ``label``: in JSON a list of numbers or names,
which ``label`` may hold, too; in CSV text with ``|`` between labels. A line of a .txt is a path and a number.

A relative path starts at the folder of the list, or at the folder of images that the user names, and stays in
it. An absolute path is taken as it is. Both may be links.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any, NoReturn, TextIO

from stoker.errors import SourceError
from stoker.urls import is_url

from ..containers.container import is_local_shard
from ..dataset.index import KNOWN_COLUMNS
from ..files import open_regular, printable_name
from ..remote.store import local_copies
from .columns import EntryColumns
from .image_files import IMAGE_SUFFIXES, find_files, resolve
from .json_stream import stream_array
from .listing import INDEX_SHARDS, Listing, Skip, no_images_error
from .options import SOURCE_DESCRIPTIONS, SourceOptions
from .source import Source

_RESERVED = {*KNOWN_COLUMNS, "label", "row", "image"}
_INTEGER = re.compile(r"-?\d{1,18}")
_LARGEST = 1 << 63
_MOST_SHOWN = 200  # characters of names in a message
_SEVERAL, _BETWEEN = "labels", "|"
_OTHERS = [text for name, text in SOURCE_DESCRIPTIONS.items() if name != "list"]
_TRIED = 20  # paths that are not there; a mistake in a prefix is in all of them
_FOLDERS = 100  # subfolders that may be the missing prefix

Entry = dict[str, Any]
Names = Mapping[str, str]  # the usual name of a column, path or label, by its name in the list


def list_named_images(source: Source) -> Listing:
    """List the images that a list on a disk or at a URL names; each of them once."""
    options = source.options
    folder = resolve(options.images or source.folder_of_file)
    with local_copies([source.path]) as (file,):
        values = EntryColumns(cells=file.suffix.lower() == ".csv")
        paths = values.gather(_read_entries(file, options, needs_label=source.caption_column is None))
        named, skipped = find_files(folder, paths, follow_links=options.follow_links)
        if not len(named.files) and not skipped:
            _fail(file, "the list has no entries")
        if not len(named.files):
            hint = None if is_url(folder) else _likely_cause(folder, [skip.key for skip in skipped])
            raise no_images_error("the list names no image that can be read", file, skipped, hint)
        try:
            labels, classes = values.labels(named.entries) if values.has_labels() else (None, ())
            missing = set(values.class_names()) - set(classes) if classes and skipped else set()
        except ValueError as error:
            _fail(file, str(error))
    return Listing(
        **vars(named.files),
        labels=labels,
        classes=classes,
        columns=values.others(named.entries),
        skipped=tuple(sorted(skipped)),
        missing_classes=tuple(Skip(name, "no image of it can be read") for name in sorted(missing)),
    )


def _fail(file: Path, message: str) -> NoReturn:
    raise SourceError(
        message,
        path=file,
        hint="Give CSV with a header line, a JSON array of objects, or JSON Lines, each with path and label "
        "(or labels, several; path_column and label_column name others), or a .txt with a path and a number "
        f"in each line; or {'; '.join(_OTHERS)}.",
    )


def _read_entries(file: Path, options: SourceOptions, *, needs_label: bool) -> Iterator[Entry]:
    """Entries of a list; each has a ``path`` and a ``label``, which may be a list of labels, or None."""
    reader = _READERS.get(file.suffix.lower())
    if reader is None and is_local_shard(file):
        raise SourceError("the source is a shard of another program", path=file, hint=INDEX_SHARDS)
    if reader is None and file.suffix.lower() == ".gz":
        _fail(file, "the source is packed by gzip, as only COCO's JSON may be: unpack it")
    if reader is None:
        _fail(file, "the source is neither a folder nor a .csv, .json, .jsonl or .txt file")
    usual = {options.path_column or "path": "path", options.label_column or "label": "label"}
    try:
        for number, entry in enumerate(reader(file, usual, needs_label)):
            _check(file, f"entry {number + 1}", entry, needs_label=needs_label)
            entry["path"] += options.suffix or ""
            yield entry
    except OSError as error:
        raise SourceError(f"the list cannot be read: {error.strerror or error}", path=file) from error
    except SourceError:
        raise
    except (ValueError, RecursionError, csv.Error) as error:
        _fail(file, f"the list cannot be parsed: {error}")


@contextmanager
def _open(file: Path, newline: str) -> Iterator[TextIO]:
    # utf-8-sig: spreadsheets write a byte order mark.
    with (
        open_regular(file) as (descriptor, _),
        os.fdopen(os.dup(descriptor), encoding="utf-8-sig", newline=newline) as stream,
    ):
        yield stream


def _read_csv(file: Path, usual: Names, needs_label: bool) -> Iterator[Entry]:
    with _open(file, newline="") as stream:
        rows = csv.reader(stream, strict=True)
        header = [usual.get(name, name) for name in next(rows, [])]
        if len(set(header)) != len(header):
            _fail(file, "two columns have the same name")
        if {"label", _SEVERAL} <= set(header):
            _fail(file, f"the columns label and {_SEVERAL} exclude each other")
        if header:
            label = _SEVERAL if _SEVERAL in header else "label"
            _check_names(file, "the header", header, label if needs_label else "path")
        for row in rows:
            if not row:
                continue
            if len(row) != len(header):
                _fail(file, f"line {rows.line_num} has {len(row)} fields where the header has {len(header)}")
            entry: Entry = dict(zip(header, row, strict=True))
            if _SEVERAL in entry:
                words = (word.strip() for word in entry[_SEVERAL].split(_BETWEEN))
                entry[_SEVERAL] = list(dict.fromkeys(filter(None, words)))
            yield entry


def _read_json(file: Path, usual: Names, needs_label: bool) -> Iterator[Entry]:
    try:
        yield from (_renamed(entry, usual) for entry in stream_array(file))
    except SourceError as error:
        _fail(file, error.message)


def _read_jsonl(file: Path, usual: Names, needs_label: bool) -> Iterator[Entry]:
    with _open(file, newline="\n") as stream:
        for number, line in enumerate(stream):
            if line.strip():
                try:
                    yield _renamed(json.loads(line), usual)
                except json.JSONDecodeError as error:
                    _fail(file, f"line {number + 1} is not JSON: {error.msg}, at character {error.pos}")


def _renamed(entry: Any, usual: Names) -> Any:
    if not isinstance(entry, dict) or all(name == new for name, new in usual.items()):
        return entry
    return {usual.get(name, name): value for name, value in entry.items()}


def _read_lines(file: Path, usual: Names, needs_label: bool) -> Iterator[Entry]:
    """Entries of a list as Caffe and DIGITS take it: in each line a path, and the number of its class."""
    with _open(file, newline="\n") as stream:
        for number, line in enumerate(stream):
            if not line.strip():
                continue
            path, *label = line.strip().rsplit(maxsplit=1)
            if len(label) != 1 or not _INTEGER.fullmatch(label[0]):
                shown = shorten(line.strip(), _MOST_SHOWN)
                _fail(file, f"line {number + 1} is not a path and a number: {shown}")
            yield {"path": path, "label": int(label[0])}


_READERS = {".csv": _read_csv, ".json": _read_json, ".jsonl": _read_jsonl, ".txt": _read_lines}


def _check_names(file: Path, where: str, names: Collection[str], label: str) -> None:
    if "image_id" in names and not {"bbox", "segmentation"}.isdisjoint(names):
        _fail(
            file,
            f"{where} is an annotation, such as those in COCO's results: give the object that has images, "
            "annotations and categories",
        )
    for name in ("path", label):
        if name not in names:
            listed_names = shorten(", ".join(names), _MOST_SHOWN, placeholder=" ...") or "nothing"
            _fail(file, f"{where} has no {name}: it has {listed_names}")


def _check(file: Path, where: str, entry: Any, *, needs_label: bool) -> None:
    if not isinstance(entry, dict):
        _fail(file, f"{where} is not an object")
    if "label" not in entry and _SEVERAL in entry:
        if not isinstance(entry[_SEVERAL], list):
            _fail(file, f"{where} has {_SEVERAL} that are not a list: {entry[_SEVERAL]!r}")
        entry["label"] = entry.pop(_SEVERAL)
    if not needs_label:
        entry.setdefault("label", None)
    _check_names(file, where, entry, "label")
    if not isinstance(entry["path"], str) or not entry["path"] or "\0" in entry["path"]:
        _fail(file, f"{where} has a path that is not a file name: {entry['path']!r}")
    if entry["label"] is not None or needs_label:
        _check_labels(file, where, entry["label"])
    if reserved := ", ".join(sorted(_RESERVED & entry.keys() - {"label"})):
        _fail(file, f"{where} has a column with a name that the index uses: {reserved}")
    if wrong := [name for name in entry if not name.isascii() and printable_name(name) != name]:
        _fail(file, f"{where} has a column whose name is not Unicode: {printable_name(wrong[0])}")


def _check_labels(file: Path, where: str, labels: Any) -> None:
    for label in labels if isinstance(labels, list) else [labels]:
        if type(label) not in (int, str) or (isinstance(label, int) and abs(label) >= _LARGEST):
            _fail(file, f"{where} has a label that is neither number nor name: {label!r}")
        if label == "":
            _fail(file, f"{where} has an empty label; use labels where an image may have none")


def _likely_cause(folder: str, paths: Sequence[str]) -> str:
    """A change after which most of some missing paths lead to files, or else the path that was tried."""
    first_paths = sorted(paths)[:_TRIED]
    for change, words in _changes(folder, first_paths[0]):
        if sum(os.path.isfile(change(path)) for path in first_paths) > len(first_paths) / 2:  # noqa: PTH113 - tried often
            return words
    tried = os.path.join(folder, first_paths[0])  # noqa: PTH118 - the path may be absolute
    return f"Relative paths start at {folder}: the first file would be {tried}."


def _changes(folder: str, first: str) -> Iterator[tuple[Callable[[str], str], str]]:
    """Functions that change a path, each with the hint if the changed paths lead to files."""
    for base in dict.fromkeys((os.getcwd(), os.path.dirname(folder))):  # noqa: PTH109, PTH120 - as text
        yield (
            partial(os.path.join, base),
            f"Relative paths start at the folder of the list, and these files are in {base}: "
            "put the list there, or write absolute paths.",
        )
    parts = first.split("/")
    for count in range(1, len(parts)):
        prefix = "/".join(parts[:count]) + "/"
        words = f"The files are there without the prefix {prefix!r} of their paths: remove it from the list."
        yield partial(_joined, folder, prefix, ""), words
    for name in _subfolders(folder):
        words = f"The files are there with the prefix {name + '/'!r}: write it before each path."
        yield partial(os.path.join, folder, name), words
    for suffix in IMAGE_SUFFIXES:
        words = f"The files are there with the suffix {suffix!r}: add it with suffix={suffix!r}."
        yield partial(_joined, folder, "", suffix), words


def _joined(folder: str, prefix: str, suffix: str, path: str) -> str:
    return os.path.join(folder, path.removeprefix(prefix)) + suffix  # noqa: PTH118 - the path may be absolute


def _subfolders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())[:_FOLDERS]
    except OSError:
        return []
