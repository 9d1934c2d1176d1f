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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import shorten
from typing import Any, NoReturn, TextIO

from stoker.errors import SourceError
from stoker.urls import is_url

from ..dataset.index import KNOWN_COLUMNS
from ..files import open_regular, printable_name
from ..remote.store import local_copies
from .columns import EntryColumns
from .image_files import IMAGE_SUFFIXES, LISTED_TWICE, NamedFiles, find_files, resolve
from .json_stream import stream_array
from .listing import Listing, Skip, no_images_error
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


def list_named_images(source: Source) -> Listing:
    """List the images that a list on a disk or at a URL names; each of them once."""
    options = source.options
    folder = resolve(options.images or source.folder_of_file)
    with local_copies([source.path]) as (file,):
        is_csv = file.suffix.lower() == ".csv"
        values = EntryColumns(cells=is_csv, path=file, captions=source.caption_column)
        paths = values.gather(_read_entries(file, options, needs_label=source.caption_column is None))
        named, skipped = find_files(folder, paths, follow_links=options.follow_links)
        if not len(named.files) and not skipped:
            _fail(file, "the list has no entries")
        if not len(named.files):
            hint = None if is_url(folder) else _likely_cause(folder, [skip.key for skip in skipped])
            raise no_images_error("the list names no image that can be read", file, skipped, hint)
        skipped = _check_repeated(file, named, skipped, values, source.caption_column)
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


def _check_repeated(
    file: Path, named: NamedFiles, skipped: list[Skip], values: EntryColumns, caption: str | None
) -> list[Skip]:
    """The skips, which name the columns in which the entries of one image differ; its labels may not."""
    differing = values.differing(named.repeated)
    key_of = dict(zip(named.entries.tolist(), named.files.names(), strict=True)) if differing else {}
    for name in (one for one in ("label", caption) if one in differing):
        first = differing[name][0]
        found = " and ".join("|".join(texts) for texts in values.texts(name, first))
        images = len(set(differing[name][:, 0].tolist()))
        raise SourceError(
            f"rows of the same image differ in their {name}: "
            f"{key_of[first[0]]} has {found} (images: {images:,})",
            path=file,
            hint="Write all of them in one row (labels: cat|dog in CSV, a list in JSON; captions: a list in "
            "JSON), or keep the row that is right.",
        )
    columns: dict[str, list[str]] = {}
    for name, pairs in differing.items():
        for entry in set(pairs[:, 0].tolist()):
            columns.setdefault(key_of[entry], []).append(name)
    return [
        skip._replace(reason=f"{LISTED_TWICE} with different values", detail=", ".join(columns[skip.key]))
        if skip.reason == LISTED_TWICE and skip.key in columns
        else skip
        for skip in skipped
    ]


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
    suffix = file.suffix.lower()
    if suffix not in _READERS:
        if suffix == ".gz":
            _fail(file, "the source is packed by gzip, as only COCO's JSON may be: unpack it")
        _fail(file, "the source is neither a folder nor a .csv, .json, .jsonl or .txt file")
    usual = {options.path_column or "path": "path", options.label_column or "label": "label"}
    try:
        for number, entry in enumerate(_READERS[suffix](file)):
            where = f"entry {number + 1}"
            if not isinstance(entry, dict):
                _fail(file, f"{where} is not an object")
            renamed = {usual.get(name, name): value for name, value in entry.items()}
            _check_names(file, "the header" if suffix == ".csv" else where, renamed, needs_label)
            _check(file, where, renamed, needs_label)
            renamed["path"] += options.suffix or ""
            yield renamed
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


def _read_csv(file: Path) -> Iterator[Entry]:
    with _open(file, newline="") as stream:
        rows = csv.reader(stream, strict=True)
        header = next(rows, [])
        if len(set(header)) != len(header):
            _fail(file, "two columns have the same name")
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


def _read_json(file: Path) -> Iterator[Any]:
    try:
        yield from stream_array(file)
    except SourceError as error:
        _fail(file, error.message)


def _read_jsonl(file: Path) -> Iterator[Any]:
    with _open(file, newline="\n") as stream:
        for number, line in enumerate(stream):
            if line.strip():
                try:
                    yield json.loads(line)
                except json.JSONDecodeError as error:
                    _fail(file, f"line {number + 1} is not JSON: {error.msg}, at character {error.pos}")


def _read_lines(file: Path) -> Iterator[Entry]:
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


def _check_names(file: Path, where: str, entry: Entry, needs_label: bool) -> None:
    if "image_id" in entry and not {"bbox", "segmentation"}.isdisjoint(entry):
        _fail(
            file,
            f"{where} is an annotation, such as those in COCO's results: give the object that has images, "
            "annotations and categories",
        )
    if {"label", _SEVERAL} <= entry.keys():
        _fail(file, f"the columns label and {_SEVERAL} exclude each other")
    for name in ("path", "label"):
        if name not in entry and (name == "path" or (needs_label and _SEVERAL not in entry)):
            names = shorten(", ".join(entry), _MOST_SHOWN, placeholder=" ...") or "nothing"
            _fail(file, f"{where} has no {name}: it has {names}")


def _check(file: Path, where: str, entry: Entry, needs_label: bool) -> None:
    """Check the values of an entry, and name its labels ``label``."""
    if not isinstance(entry.get(_SEVERAL, []), list):
        _fail(file, f"{where} has {_SEVERAL} that are not a list: {entry[_SEVERAL]!r}")
    entry.setdefault("label", entry.pop(_SEVERAL, None))
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
    tried = sorted(paths)[:_TRIED]
    for base, prefix, suffix, words in _changes(folder, tried[0]):
        changed = (os.path.join(base, path.removeprefix(prefix)) + suffix for path in tried)  # noqa: PTH118 - may be absolute
        if sum(map(os.path.isfile, changed)) > len(tried) / 2:
            return words
    first = os.path.join(folder, tried[0])  # noqa: PTH118 - the path may be absolute
    return f"Relative paths start at {folder}: the first file would be {first}."


def _changes(folder: str, first: str) -> Iterator[tuple[str, str, str, str]]:
    """Other folders, prefixes to remove and suffixes to add, each with the hint if it leads to files."""
    for base in dict.fromkeys((os.getcwd(), os.path.dirname(folder))):  # noqa: PTH109, PTH120 - as text
        words = f"Relative paths start at the folder of the list, and these files are in {base}: "
        yield base, "", "", f"{words}put the list there, or write absolute paths."
    parts = first.split("/")
    for count in range(1, len(parts)):
        prefix = "/".join(parts[:count]) + "/"
        words = f"The files are there without the prefix {prefix!r} of their paths: remove it from the list."
        yield folder, prefix, "", words
    folders: list[str] = []
    with suppress(OSError), os.scandir(folder) as entries:
        folders = sorted(entry.name for entry in entries if entry.is_dir())[:_FOLDERS]
    for name in folders:
        words = f"The files are there with the prefix {name + '/'!r}: write it before each path."
        yield f"{folder}/{name}", "", "", words
    for ending in IMAGE_SUFFIXES:
        words = f"The files are there with the suffix {ending!r}: add it with suffix={ending!r}."
        yield folder, "", ending, words
