"""Labels and further columns of a source's samples, whose types follow from their values.

Columns of an index are int64, float64 or large_string. They come from the text of cells, from values of JSON,
or from columns of a table, which may also have smaller numbers.
"""

from __future__ import annotations

import ast
import json
import os
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stoker.errors import SourceError
from stoker.log import EventLog

from ..dataset.columns import ListColumn, Strings, each, take_strings
from ..token_columns import join_captions
from .classes import number_names

Rows = npt.NDArray[np.int64]
Paths = str | os.PathLike[str]

_LOG = EventLog("conversion")
PREDICT = (
    "To predict numbers, give unlabelled=True, which keeps them as columns of the index: "
    "ImageLoader(columns=('image', 'age')) returns them."
)
"""The hint where labels are numbers with fractions."""
_INTEGER = re.compile(r"-?\d{1,18}")
_TEXTS_SIDE_BY_SIDE = re.compile(r"['\"]\s+['\"]")
_LEADING_ZERO = re.compile(r"\s*[+-]?0\d")
_EXACT_DIGITS = 15  # of an integer, which a float always keeps
_LARGEST_EXACT = 1 << 53  # a float holds all integers up to here
_FLOAT_ZEROS = re.compile(r"\.0*\s*$")


class EntryColumns:
    """The columns of entries that come one at a time; the labels are in ``label``.

    Values are kept as text, because the type of a column is known only after its last value.
    """

    def __init__(self, *, cells: bool, path: Paths | None = None, captions: str | None = None) -> None:
        self._cells = cells  # whether values are text that may stand for numbers, as in CSV
        self._path = path  # of the source, for errors
        self._captions = captions  # name of the column with captions
        self._rows = 0
        self._labels = _Column(cells=cells)
        self._label_counts = array("q")
        self._several = False
        self._others: dict[str, _Column] = {}

    def gather(self, entries: Iterable[dict[str, Any]]) -> Iterator[str]:
        """Add the entries of a list, and yield the path of each."""
        for entry in entries:
            self.add(entry)
            yield entry["path"]

    def add(self, entry: dict[str, Any]) -> None:
        """Add an entry, which has a ``label``."""
        label = entry["label"]
        several = isinstance(label, list)
        self._several |= several
        labels = label if several else [label]
        self._label_counts.append(len(labels))
        for one in labels:
            self._labels.add(one)
        for name in entry.keys() - self._others.keys() - {"path", "label"}:
            self._others[name] = _Column(cells=self._cells, missing=self._rows)
        for name, column in self._others.items():
            is_caption = name == self._captions and not self._cells
            column.add(self._caption(entry) if is_caption else entry.get(name))
        self._rows += 1

    def _caption(self, entry: dict[str, Any]) -> str | None:
        try:
            return join_captions(entry.get(str(self._captions)))
        except ValueError as error:
            raise SourceError(
                f"caption_column must hold texts or lists of texts, found {error}",
                path=self._path,
                key=entry["path"],
                hint="Name a column of texts, or of lists of texts.",
            ) from error

    def has_labels(self, entries: str = "entries", label: str = "label") -> bool:
        """Whether the entries have labels; ValueError, with these words, if only some have."""
        unlabelled = type(None) in self._labels.types
        if unlabelled and len(self._labels.types) > 1:
            raise ValueError(f"some {entries} have a {label} and some have none")
        return not unlabelled

    def labels(self, rows: Rows, label_type: str | None = None) -> tuple[pa.Array, tuple[str, ...]]:
        """Labels of the entries at ``rows``, (M,) int64 or lists of int64, and the names of their classes.

        All of them have labels.
        """
        types = self._labels.types
        types.discard(type(None))
        if not self._cells and str in types and len(types) > 1:
            raise ValueError("some labels are numbers and some are names")
        counts = np.frombuffer(self._label_counts, np.int64)
        chosen = ListColumn.of_counts(counts, np.arange(int(counts.sum()))).take(rows)
        classes: tuple[str, ...] = ()
        numbers = self._labels.integers(chosen.values)
        if numbers is None:
            if float in types and str not in types:
                raise ValueError("the labels are numbers, but no integers")
            numbers, classes = number_names(self._labels.text(chosen.values))
        if not self._several and label_type is None:
            return pa.array(numbers), classes
        return in_form(ListColumn(chosen.starts, numbers), classes, label_type)

    def differing(self, pairs: Rows) -> dict[str, Rows]:
        """The pairs of entries, of ``pairs`` (M, 2), that differ in their labels or a column, by its name."""
        found = {}
        for name in ("label", *sorted(self._others)):
            first, second = (self.texts(name, side) for side in pairs.T)
            unlike = np.array([set(a) != set(b) for a, b in zip(first, second, strict=True)], bool)
            if unlike.any():
                found[name] = pairs[unlike]
        return found

    def texts(self, name: str, rows: Rows) -> list[list[str]]:
        """The labels, or the value of a column, of each of the entries at ``rows``, (M,)."""
        if name != "label":
            return [[value] for value in each(self._others[name].text(rows))]
        counts = np.frombuffer(self._label_counts, np.int64)
        chosen = ListColumn.of_counts(counts, np.arange(int(counts.sum()))).take(rows)
        texts = list(each(self._labels.text(chosen.values)))
        return [texts[start:end] for start, end in pairwise(chosen.starts.tolist())]

    def class_names(self) -> tuple[str, ...]:
        """The names of the classes of all entries, in sorted order; empty if labels are numbers."""
        everything = np.arange(len(self._labels), dtype=np.int64)
        if self._labels.integers(everything) is not None:
            return ()
        return number_names(self._labels.text(everything))[1]

    def others(self, rows: Rows) -> dict[str, pa.Array]:
        """The further columns of the entries at ``rows``, (M,) each; a message names those of lists."""
        lists = [
            name for name, column in self._others.items() if list in column.types and name != self._captions
        ]
        if lists:
            _LOG.warning(
                f"lists of {self._path}",
                f"the lists of {', '.join(sorted(lists))} become texts in JSON; give numbers to predict a "
                "column each",
            )
        return {name: self._others[name].take(rows, name, self._path) for name in sorted(self._others)}


class _Column:
    """Values of a column, kept as text, and their types."""

    def __init__(self, *, cells: bool, missing: int = 0) -> None:
        self.types: set[type] = set()
        self._cells = cells
        self._strings = Strings()
        for _ in range(missing):
            self.add(None)

    def __len__(self) -> int:
        return len(self._strings)

    def add(self, value: Any) -> None:
        is_cell = self._cells and value is not None
        self.types.add(self._type_of_cell(value) if is_cell else type(value))
        # JSON can spell half of a surrogate pair, which UTF-8 cannot encode.
        self._strings.add(_text(value).encode(errors="backslashreplace"))

    def _type_of_cell(self, cell: str) -> type:
        # Python allows an underscore between digits, but no writer of CSV means a number by it. A number has
        # its usual form: 007 and 007.5 are names.
        if str in self.types or "_" in cell or _LEADING_ZERO.match(cell):
            return str
        with suppress(ValueError):
            return int if str(int(cell)) == cell.strip() else str
        with suppress(ValueError):
            return type(float(cell))
        return str

    def take(self, rows: Rows, name: str, path: Paths | None) -> pa.Array:
        """The values at ``rows`` as a column of integers, floats (NaN where one is missing) or text."""
        return typed_column(self.text(rows), self.types, name, path, cells=self._cells)

    def integers(self, rows: Rows) -> npt.NDArray[np.int64] | None:
        """The labels at ``rows``; None if any label of the column is not an integer of 64 bits."""
        # As a label, 3.0 is the integer 3, as writers of floats leave it.
        texts: Iterable[str] = each(self.text(rows))
        if float in self.types:
            texts = (_FLOAT_ZEROS.sub("", text) for text in texts)
        with suppress(OverflowError, ValueError):
            if self.types <= {int, float}:
                return np.fromiter(map(int, texts), np.int64, len(rows))
        return None

    def text(self, rows: Rows) -> pa.Array:
        return take_strings(self._strings.to_arrow(), rows)


def typed_column(
    text: pa.Array, types: set[type], name: str, path: Paths | None = None, *, cells: bool = False
) -> pa.Array:
    """Text as integers, as floats (NaN where one is missing), or as it is, by the types of all values.

    Integers of more than 64 bits stay text, and so do cells that a float would change; other numbers that a
    float would change are refused.
    """
    if types <= {int}:
        with suppress(OverflowError):
            return pa.array(np.fromiter(map(int, each(text)), np.int64, len(text)))
        return text
    if not types & {int, float} or not types <= {int, float, type(None)}:
        return text
    if int in types and (changed := next(filter(_loses_digits, each(text)), None)) is not None:
        if cells:
            return text
        raise changed_number(name, changed, path)
    return pa.array(np.fromiter((float(one or "nan") for one in each(text)), np.float64, len(text)))


def _loses_digits(number: str) -> bool:
    digits = number.strip()
    is_long = len(digits) > _EXACT_DIGITS and digits.removeprefix("-").isdigit()
    return is_long and Decimal(digits) != Decimal(float(digits))


def changed_number(name: str, number: str, path: Paths | None) -> SourceError:
    """An error for a column with an integer that a float cannot hold."""
    return SourceError(
        f"column {name!r} must keep its integers, found {number}, which a float cannot hold, beside missing "
        "values or fractions",
        path=path,
        hint="Fill in the missing values in the source, or write the column as texts.",
    )


def _text(value: Any) -> str:
    if value is None:
        return ""
    if type(value) is int:  # as JSON writes it, and faster
        return str(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def holds_values(kind: pa.DataType) -> bool:
    """Whether a column of a table holds numbers, truth values or text."""
    kind = kind.value_type if _is_encoded(kind) else kind
    is_number = pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return bool(_is_text(kind) or is_number)


def holds_text_lists(kind: pa.DataType) -> bool:
    """Whether a column of a table holds lists of text, such as the captions of an image."""
    return _is_list(kind) and _is_text(kind.value_type)


def holds_captions(kind: pa.DataType) -> bool:
    """Whether a column of a table holds texts or lists of texts."""
    return holds_text_lists(kind) or holds_text(kind)


def names_in_types(types: Iterable[pa.Field], before: str = "") -> dict[str, bool]:
    """Names of the columns of a table, and of the values in their structs, and whether they are texts."""
    names = {}
    for one in types:
        names[f"{before}{one.name}"] = holds_text(one.type)
        inner = one.type.value_type if _is_list(one.type) else one.type
        # The names in lists are read, too: UnicodeDecodeError in a damaged table.
        found = names_in_types(inner, f"{before}{one.name}.") if pa.types.is_struct(inner) else {}
        names |= {} if _is_list(one.type) else found
    return names


def holds_text(kind: pa.DataType) -> bool:
    """Whether a column of a table holds texts, also where each is stored once."""
    return _is_text(kind.value_type if _is_encoded(kind) else kind)


def _is_encoded(kind: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind))


def _is_text(kind: pa.DataType) -> bool:
    return str(kind) in ("string", "large_string", "string_view")


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _decoded(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values without the encodings that store each of them once, and without views."""
    if _is_encoded(values.type):
        kind = values.type.value_type
        plain = pa.large_string() if _is_text(kind) else kind
        if pa.types.is_run_end_encoded(values.type):
            return pc.run_end_decode(values).cast(plain)
        chunks = [chunk.dictionary.cast(plain).take(chunk.indices) for chunk in values.chunks]
        return pa.chunked_array(chunks, plain)
    if str(values.type) == "string_view":
        return values.cast(pa.large_string())
    return values


def value_column(values: pa.ChunkedArray, name: str, path: Paths) -> pa.Array | None:
    """A column of a table, (N,): a missing number becomes NaN, missing text is empty; None if all miss."""
    # A list of text becomes JSON.
    values = _decoded(values)
    kind = values.type
    if values.null_count == len(values):
        return None
    if holds_text_lists(kind):
        lists = (json.dumps(some, ensure_ascii=False) if some else "" for some in each(values))
        return pa.array(lists, pa.large_string())
    if _is_text(kind):
        return values.cast(pa.large_string()).fill_null("").combine_chunks()
    if pa.types.is_boolean(kind):
        values, kind = values.cast(pa.uint8()), pa.uint8()
    if values.null_count:
        number = kind if pa.types.is_floating(kind) else pa.float64()
        if pa.types.is_integer(kind):
            low, high = pc.min_max(values).as_py().values()
            if max(high, -low) > _LARGEST_EXACT:
                raise changed_number(name, str(high if high > _LARGEST_EXACT else low), path)
        values = values.cast(number, safe=False).fill_null(pa.scalar(np.nan, number))
    return values.combine_chunks()


def split_labels(values: pa.ChunkedArray, separator: str | None) -> pa.ChunkedArray:
    """A column of texts with lists, or with labels between separators, as lists of numbers or of texts."""
    values = _decoded(values)
    if separator == "" or not _is_text(values.type):
        return values
    texts = values.to_pylist()
    if separator is None and not any(text and text.startswith("[") for text in texts):
        return values
    lists = [None if text is None else split_label(text, separator or None) for text in texts]
    if all(_INTEGER.fullmatch(one) for some in lists for one in some or ()):
        numbers = [None if some is None else list(map(int, some)) for some in lists]
        return pa.chunked_array([pa.array(numbers, pa.large_list(pa.int64()))])
    return pa.chunked_array([pa.array(lists, pa.large_list(pa.large_string()))])


def split_label(text: str, separator: str | None) -> list[str]:
    """The labels in a text: a list as JSON or Python writes it, or labels between separators."""
    if text.startswith("[") and text.endswith("]"):
        listed = None
        # Python joins the texts of ['cat' 'dog'], as NumPy prints arrays.
        if not _TEXTS_SIDE_BY_SIDE.search(text):
            with suppress(ValueError, SyntaxError):
                listed = ast.literal_eval(text)
        if not isinstance(listed, list) or not {type(one) for one in listed} <= {int, float, str}:
            raise SourceError(
                f"a label must be a list of names or numbers, as it is in brackets, found {text}",
                hint='Write lists as JSON, such as ["cat", "dog"], or give label_separator=\'\' if the '
                "whole text is the name of a class.",
            )
        return [one if isinstance(one, str) else json.dumps(one) for one in listed]
    if separator is None:
        return [text]
    words = text.split() if separator == " " else text.split(separator)
    words = [word for one in words if (word := one.strip())]
    return words if {"0", "1"}.issuperset(words) else list(dict.fromkeys(words))


def is_missing(label: Any) -> bool:
    """Whether a label is a text that stands for none, as pandas and SQL write it."""
    return isinstance(label, str) and label.strip().lower() in ("", "nan", "<na>", "null")


def label_column(
    values: pa.ChunkedArray, classes: tuple[str, ...], label_type: str | None = None
) -> tuple[pa.Array, tuple[str, ...]]:
    """Labels in a column of a table, (N,) int64 or lists of int64, null for a missing one; and their classes.

    ``classes`` are the names that the table has for numbers, among which -1 stands for a missing label, as in
    Hugging Face's datasets. Names are numbered in sorted order. ValueError if the column holds no classes.
    """
    labels = _decoded(values).combine_chunks()
    lists = labels.cast(pa.large_list(labels.type.value_type)) if _is_list(labels.type) else None
    if lists is None and label_type is not None:
        raise ValueError(f"label_type is for lists of labels, and the labels are {labels.type}")
    numbers, classes_found = _numbered(labels if lists is None else lists.flatten(), classes)
    if lists is None and classes:
        numbers = pc.if_else(pc.equal(numbers, -1), pa.scalar(None, pa.int64()), numbers)
    _check_range(numbers, classes)
    if lists is None:
        return numbers, classes_found
    if numbers.null_count:
        raise ValueError("a list of labels has a missing one")
    known = np.asarray(lists.is_valid().to_numpy(zero_copy_only=False), bool)
    counts = pc.list_value_length(lists).drop_null().to_numpy(zero_copy_only=False)
    rows, names = in_form(
        ListColumn.of_counts(counts, numbers.to_numpy(zero_copy_only=False)), classes_found, label_type
    )
    return (rows if known.all() else rows.take(pa.array(np.cumsum(known) - 1, mask=~known))), names


def in_form(
    lists: ListColumn, classes: tuple[str, ...], label_type: str | None
) -> tuple[pa.Array, tuple[str, ...]]:
    """Labels of samples in lists, (N,) int64 or lists of int64, by ``label_type``; and their classes."""
    if label_type in ("one-hot", "multi-hot"):
        if classes:
            raise ValueError(f"{label_type} labels must be 0 and 1, found names such as {classes[0]!r}")
        return ones(lists, label_type), ()
    if label_type == "shard":
        raise ValueError("label_type='shard' is for archives")
    if label_type == "first":
        if len(lists) and not lists.counts.min():
            raise ValueError("label_type='first' takes the first label, and a list is empty")
        return pa.array(lists.values[lists.starts[:-1]]), classes
    if label_type is None and not classes:
        check_no_vectors(lists)
    return lists.to_arrow(), classes


def check_no_vectors(lists: ListColumn) -> None:
    """Raise SourceError for lists of labels that are 0 or 1 for each class, and not classes."""
    counts, values = lists.counts, lists.values
    if len(counts) and counts.min() == counts.max() > 1 and set(np.unique(values).tolist()) <= {0, 1}:
        raise SourceError(
            f"each list of labels has {counts[0]} numbers, all of them 0 or 1",
            hint="Give label_type='multi-hot' if they are a number for each class, 'one-hot' if one of them "
            "is 1, or 'several' if they are classes.",
        )


def ones(lists: ListColumn, label_type: str) -> pa.Array:
    """The classes, (N,) lists of int64, of numbers 0 and 1 for each class; one for each of "one-hot"."""
    counts, values = lists.counts, lists.values
    if len(counts) and counts.min() != counts.max():
        raise ValueError(f"{label_type} labels must have one length, found {counts.min()} and {counts.max()}")
    if not set(np.unique(values).tolist()) <= {0, 1}:
        raise ValueError(
            f"{label_type} labels must be 0 and 1, found {values[(values != 0) & (values != 1)][0]}"
        )
    table = values.reshape(len(counts), -1) == 1
    found = ListColumn.of_counts(table.sum(1), np.nonzero(table)[1])
    return _only(found) if label_type == "one-hot" else found.to_arrow()


def _only(lists: ListColumn) -> pa.Array:
    if (wrong := lists.counts[lists.counts != 1]).size:
        raise ValueError(f"one-hot labels must have one 1, found {wrong[0]}")
    return pa.array(lists.values)


def check_names(classes: Sequence[str]) -> None:
    """Raise SourceError for names that stand for no class, or are several in a text, such as ``cat|dog``."""
    if missing := list(filter(is_missing, classes)):
        raise SourceError(
            f"the label {missing[0]!r} is the name of no class",
            hint="Leave rows without a label empty in Parquet (null), and out of lists.",
        )
    # A name may hold all separators but |. Others join numbers, or labels where few parts make many names.
    for separator, share in (("|", None), (";", 1), (",", 1), (" ", 3)):
        joined = next((name for name in classes if separator in name.strip()), None)
        parts = {part.strip() for name in classes for part in name.split(separator)}
        are_numbers = all(map(_INTEGER.fullmatch, filter(None, parts)))
        if joined is not None and (share is None or are_numbers or share * len(parts) < len(classes)):
            raise SourceError(
                f"the label {joined!r} is several labels in one text: its parts are numbers or other labels",
                hint=f"Give label_separator={separator!r}, or '' if the whole text is the name of a class."
                + (" Numbers have a point before their fractions." if separator == "," else ""),
            )


def _numbered(labels: pa.Array, classes: tuple[str, ...]) -> tuple[pa.Array, tuple[str, ...]]:
    """Labels as numbers, (N,) int64, and the names of their classes."""
    kind = labels.type
    if _is_text(kind):
        numbers, names = number_names(labels.cast(pa.large_string()))
        return pa.array(numbers, mask=numbers < 0), names
    if pa.types.is_floating(kind):  # as a table with missing labels leaves them, null or NaN
        labels = pc.if_else(pc.is_nan(labels), pa.scalar(None, kind), labels)
        if pc.all(pc.equal(pc.floor(labels), labels)).as_py():
            return labels.cast(pa.int64()), classes
    if not (pa.types.is_boolean(kind) or pa.types.is_integer(kind)):
        raise ValueError(f"the labels are {kind}, neither whole numbers nor text")
    return labels.cast(pa.int64()), classes


def _check_range(numbers: pa.Array, classes: tuple[str, ...]) -> None:
    low, high = pc.min_max(numbers).as_py().values()
    if classes and low is not None and not 0 <= low <= high < len(classes):
        wrong = low if low < 0 else high
        raise ValueError(f"a row has label {wrong}, and the table names {len(classes)} classes")
