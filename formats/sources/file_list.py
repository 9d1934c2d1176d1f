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

from stoker.errors import SourceError, with_details
from stoker.urls import is_url

from ..dataset.index import free_name
from ..files import check_unpacked, open_regular, printable_name
from ..remote.store import local_copies
from .columns import PREDICT, EntryColumns, check_names, is_missing, split_label
from .image_files import IMAGE_SUFFIXES, LISTED_TWICE, NamedFiles, find_files, has_image_suffix, resolve
from .json_stream import stream_array
from .listing import Listing, Skip, no_images_error
from .options import SourceOptions
from .source import Source

_INTEGER = re.compile(r"-?\d{1,18}")
_SEVERAL_NUMBERS = re.compile(r"\.[A-Za-z]{3,4}(\s+-?[\d.]+)+$")  # behind a name with a suffix
_LARGEST = 1 << 63
_MOST_SHOWN = 200  # characters of names in a message
_SEVERAL, _BETWEEN = "labels", "|"
_USUAL = {"label": "label", _SEVERAL: _SEVERAL}
_MARKS = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False, "-1": False}
_BETWEEN_CELLS = (",", ";", "\t")
_LONGEST_HEADER = 1 << 16
_FORM = (
    "A list is CSV with a header line, a JSON array of objects, or JSON Lines, each with path and label, or "
    "a .txt with a path and a number in each line."
)
_ONE_FORM = "Write the labels in one form: numbers, names, or lists of them."
_TRIED = 20  # paths that are not there; a mistake in a prefix is in all of them
_FOLDERS = 100  # subfolders that may be the missing prefix

Entry = dict[str, Any]


def list_named_images(source: Source) -> Listing:
    """List the images that a list on a disk or at a URL names; each of them once."""
    options = source.options
    folder = resolve(options.images or source.folder_of_file)
    needs_label = source.caption_column is None and not options.unlabelled
    with local_copies([source.path]) as (file,):
        columns = _Columns(file, options, needs_label)
        values = EntryColumns(cells=columns.cells, path=file, captions=source.caption_column)
        paths = values.gather(_read_entries(file, columns))
        named, skipped = find_files(folder, paths, follow_links=options.follow_links, outside=options.outside)
        if not len(named.files) and not skipped:
            _fail(file, "the list has no entries")
        if not len(named.files):
            hint = None if is_url(folder) else _likely_cause(folder, [skip.key for skip in skipped])
            raise no_images_error("the list names no image that can be read", file, skipped, hint)
        skipped = _check_repeated(file, named, skipped, values, source.caption_column)
        try:
            labels, classes = (
                values.labels(named.entries, columns.label_type) if values.has_labels() else (None, ())
            )
            classes = columns.classes or classes
            if options.label_separator is None:
                check_names(classes)
            missing = set(values.class_names()) - set(classes) if classes and skipped else set()
        except SourceError as error:
            raise with_details(error, path=file) from error
        except ValueError as error:
            _fail(file, str(error), PREDICT if "no integers" in str(error) else _ONE_FORM)
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


def _fail(file: Path, message: str, hint: str = _FORM) -> NoReturn:
    raise SourceError(message, path=file, hint=hint)


def _read_entries(file: Path, columns: _Columns) -> Iterator[Entry]:
    """Entries of a list; each has a ``path`` and a ``label``, which may be a list of labels, or None."""
    suffix = file.suffix.lower()
    if suffix not in _READERS:
        check_unpacked(file)
        _fail(
            file,
            "the source is neither a folder nor a .csv, .tsv, .json, .jsonl or .txt file",
            "Give the folder of the images, or a list in one of these formats.",
        )
    try:
        for number, entry in enumerate(_READERS[suffix](file, columns)):
            where = "the header" if columns.cells else f"entry {number + 1}"
            if not isinstance(entry, dict):
                _fail(file, f"{where} is not an object")
            found = columns.use(where, entry)
            _check(file, f"entry {number + 1}", found, columns.needs_label)
            found["path"] += columns.suffix
            yield found
    except OSError as error:
        raise SourceError(f"the list cannot be read: {error.strerror or error}", path=file) from error
    except SourceError as error:
        raise with_details(error, path=file) from error
    except UnicodeDecodeError as error:
        _fail(file, f"the list cannot be parsed: it is not UTF-8: {error.reason}", "Save the list as UTF-8.")
    except (ValueError, RecursionError) as error:
        _fail(file, f"the list cannot be parsed: {error}")
    columns.check_separator()


class _Columns:
    """The use of each column of a list: its path, its labels, and further columns of the index."""

    def __init__(self, file: Path, options: SourceOptions, needs_label: bool) -> None:
        self.cells = file.suffix.lower() in (".csv", ".tsv")  # whether values are the text of cells
        self.needs_label = needs_label
        self.path, self.suffix = options.path_column or "path", options.suffix or ""
        self.classes: tuple[str, ...] = ()  # the columns that each stand for a class
        self.label_type = options.label_type
        self._file, self._options = file, options
        self._names: dict[tuple[str, ...], dict[str, str]] = {}  # of the columns in the dataset, by theirs
        self._marks: set[str] = set()  # values of columns that each stand for a class
        self._joined = ""  # the first cell of ``labels`` that may have a separator that is not named
        self._is_split = False

    def use(self, where: str, entry: Entry) -> Entry:
        """An entry with the names of the dataset, whose ``label`` may be a list."""
        key = tuple(entry)
        if key not in self._names:
            self._names[key] = self._find(where, entry)
        found = {new: entry[name] for name, new in self._names[key].items()}
        if self.classes:
            ones: list[Any] = [
                str(label) if self.cells else label
                for label, name in enumerate(self.classes)
                if self._has(name, entry[name])
            ]
            if self._options.label_type == "one-hot" and len(ones) != 1:
                _fail(
                    self._file,
                    f"{where} must have one 1 in the columns of classes, found {len(ones)}",
                    "With label_type='multi-hot', an image may have several classes.",
                )
            found["label"] = ones[0] if self._options.label_type == "one-hot" else ones
            return found
        several = _SEVERAL in found and "label" not in found
        if several:
            found["label"] = found.pop(_SEVERAL)
        if self._options.unlabelled:
            found["label"] = None
        elif isinstance(found.get("label"), str) and (self.cells or self._options.label_separator):
            found["label"] = self._labels(found["label"], several=several)
        elif several and not isinstance(found["label"], list):
            _fail(
                self._file,
                f"{where} has {_SEVERAL} that are not a list: {found['label']!r}",
                "Write a list, or name what is between labels in a text with label_separator.",
            )
        return found

    def _of_classes(self, entry: Entry) -> list[str]:
        """The columns that the label column names, with commas between; each is a class."""
        named = self._options.label_column or ""
        return [named] if named in entry else [name.strip() for name in named.split(",")]

    def _find(self, where: str, entry: Entry) -> dict[str, str]:
        label = self._options.label_column
        if "image_id" in entry and not {"bbox", "segmentation"}.isdisjoint(entry):
            _fail(
                self._file,
                f"{where} is an annotation, such as those in COCO's results: give the object that has "
                "images, annotations and categories",
            )
        wanted = [self.path, *(self._of_classes(entry) if label else [])]
        if not label and self.needs_label:
            wanted.append("label" if _SEVERAL not in entry else _SEVERAL)
        if missing := [name for name in wanted if name not in entry]:
            names = shorten(", ".join(entry), _MOST_SHOWN, placeholder=" ...") or "nothing"
            _fail(self._file, f"{where} has no {missing[0]}: it has {names}", self._hint(entry))
        if not label and not self._options.unlabelled and {"label", _SEVERAL} <= entry.keys():
            _fail(
                self._file,
                f"the columns label and {_SEVERAL} exclude each other",
                "Name one of them with label_column.",
            )
        uses = {self.path: "path"}
        if not self._options.unlabelled:
            uses |= {label: _SEVERAL if label == _SEVERAL else "label"} if label else _USUAL
        if label and len(wanted) > 2:
            self.classes = tuple(wanted[1:])
            self.label_type = None if self._options.label_type == "one-hot" else "several"
        for name in entry:
            if not name.isascii() and printable_name(name) != name:
                _fail(self._file, f"{where} has a column whose name is not Unicode: {printable_name(name)}")
        return {
            name: uses[name] if name in uses else free_name(name, entry)
            for name in entry
            if name and name not in self.classes
        }

    def _hint(self, entry: Entry) -> str:
        if self.cells and any(map(has_image_suffix, entry)):
            return "Write the names of the columns in the first line: path,label."
        if self.cells and len(entry) == 1:
            return "Write a comma, a semicolon or a tab between cells."
        known = {self.path, self._options.label_column or "label", _SEVERAL}
        free = [name for name in entry if name and name not in known]
        others = iter(free)
        named = [] if self.path in entry else [f"path_column={next(others, 'NAME')!r}"]
        hint = ""
        if self.needs_label and known.isdisjoint(entry.keys() - {self.path}):
            named.append(f"label_column={next(others, 'NAME')!r}")
            if self.path in entry and len(free) > 1:
                hint = f" Columns of 0 and 1 are named together, such as {','.join(free[:2])!r}."
            hint += " Images without a class, such as those with numbers to predict: unlabelled=True."
        return f"Name the columns, such as {' and '.join(named)}.{hint}"

    def _has(self, name: str, value: Any) -> bool:
        text = str(value).strip().lower()
        if text not in _MARKS:
            _fail(
                self._file,
                f"column {name} must hold 0 or 1, as several columns of classes do, found {value!r}",
                "Name the columns that are classes with label_column, such as 'cat,dog'.",
            )
        self._marks.add(text.partition(".")[0])
        if {"0", "-1"} <= self._marks:
            _fail(
                self._file,
                "columns of classes have 0 and -1, so it is not known which of them means no",
                "Write 1 where the image has the class, and 0 elsewhere.",
            )
        return _MARKS[text]

    def _labels(self, cell: str, *, several: bool) -> Any:
        """The labels in a cell of CSV: a list for several."""
        separator = self._options.label_separator
        if separator == "":
            return [cell] if several else cell
        if separator is None and not several and not (cell.startswith("[") and cell.endswith("]")):
            return cell
        self._is_split |= separator is not None or _BETWEEN in cell
        if not self._joined and not cell.startswith("[") and {",", ";", " "} & set(cell.strip()):
            self._joined = cell
        return split_label(cell, separator or _BETWEEN)

    def check_separator(self) -> None:
        if self._joined and not self._is_split:
            _fail(
                self._file,
                f"the column {_SEVERAL} must have {_BETWEEN} between the labels of an image, found "
                f"{self._joined!r}",
                "Name what is between them with label_separator, such as ' ', or '' for one label each.",
            )


@contextmanager
def _open(file: Path, newline: str) -> Iterator[TextIO]:
    # utf-8-sig: spreadsheets write a byte order mark.
    with (
        open_regular(file) as (descriptor, _),
        os.fdopen(os.dup(descriptor), encoding="utf-8-sig", newline=newline) as stream,
    ):
        yield stream


def _read_csv(file: Path, columns: _Columns) -> Iterator[Entry]:
    with _open(file, newline="") as stream:
        first = stream.readline(_LONGEST_HEADER)
        stream.seek(0)
        # Spreadsheets write ; between cells where the comma is a decimal point.
        with_path = [one for one in _BETWEEN_CELLS if columns.path in _names_in(first, one)]
        between = with_path[0] if with_path else max(_BETWEEN_CELLS, key=first.count)
        rows = csv.reader(stream, strict=True, delimiter=between, skipinitialspace=f"{between} " in first)
        try:
            header = [name.strip() for name in next(rows, [])]
            if len(set(header)) != len(header):
                _fail(file, "two columns have the same name", "Rename one of them.")
            for row in rows:
                if row and len(row) != len(header):
                    _fail(
                        file,
                        f"line {rows.line_num} has {len(row)} fields where the header has {len(header)}",
                        "Put a text that holds a separator in quotes.",
                    )
                if any(map(str.strip, row)):  # spreadsheets write rows of empty cells
                    yield dict(zip(header, row, strict=True))
        except csv.Error as error:
            _fail(
                file,
                f"line {rows.line_num} cannot be parsed: {error}",
                'A quote in a text in quotes is written twice: "".',
            )


def _names_in(header: str, between: str) -> list[str]:
    return [name.strip('" \r\n') for name in header.split(between)]


def _read_json(file: Path, _: _Columns) -> Iterator[Any]:
    try:
        yield from stream_array(file)
    except SourceError as error:
        _fail(file, error.message)


def _read_jsonl(file: Path, _: _Columns) -> Iterator[Any]:
    with _open(file, newline="\n") as stream:
        for number, line in enumerate(stream):
            if line.strip():
                try:
                    yield json.loads(line)
                except json.JSONDecodeError as error:
                    _fail(file, f"line {number + 1} is not JSON: {error.msg}, at character {error.pos}")


def _read_lines(file: Path, _: _Columns) -> Iterator[Entry]:
    """Entries of a list as Caffe and DIGITS take it: in each line a path, and the number of its class."""
    with _open(file, newline="\n") as stream:
        for number, line in enumerate(stream):
            if not line.strip():
                continue
            path, *label = line.strip().rsplit(maxsplit=1)
            if _SEVERAL_NUMBERS.search(path):
                _fail(
                    file,
                    f"line {number + 1} has several numbers: {shorten(line.strip(), _MOST_SHOWN)}",
                    "Write a .csv with a name for each column, and name those of classes with label_column.",
                )
            if len(label) != 1 or not _INTEGER.fullmatch(label[0]):
                shown = shorten(line.strip(), _MOST_SHOWN)
                _fail(file, f"line {number + 1} is not a path and a number: {shown}")
            yield {"path": path, "label": int(label[0])}


_READERS = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".json": _read_json,
    ".jsonl": _read_jsonl,
    ".txt": _read_lines,
}


def _check(file: Path, where: str, entry: Entry, needs_label: bool) -> None:
    if not isinstance(entry["path"], str) or not entry["path"] or "\0" in entry["path"]:
        hint = "Write the path of an image, or leave the entry out."
        _fail(file, f"{where} has a path that is not a file name: {entry['path']!r}", hint)
    labels = entry.setdefault("label", None)
    if labels is None and not needs_label:
        return
    for label in labels if isinstance(labels, list) else [labels]:
        if type(label) is float and not label.is_integer():
            _fail(file, f"{where} has a label that is no class: {label!r}", PREDICT)
        if label is None or is_missing(label):
            _fail(
                file,
                f"{where} has no label: {label!r}",
                f"Leave it out, or if an image may have no label, give lists of them as {_SEVERAL}, "
                "of which some are empty.",
            )
        if type(label) not in (int, float, str) or (isinstance(label, int) and abs(label) >= _LARGEST):
            _fail(
                file,
                f"{where} has a label that is neither number nor name: {label!r}",
                _ONE_FORM,
            )


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
    for ending in ("", *IMAGE_SUFFIXES):
        for inner in [folder, *(f"{folder}/{name}" for name in folders)]:
            cures = [f"suffix={ending!r}"] if ending else []
            cures += [f"images={inner!r}"] if inner != folder else []
            where = f"in {inner}{' with the suffix ' if ending else ''}{ending}"
            yield inner, "", ending, f"The files are {where}: give {' and '.join(cures)}."
