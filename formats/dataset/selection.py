"""Selection of samples and objects by position, mask, condition, class or split, for ``Dataset.select``.

A condition on the columns of an index is an expression of PyArrow, or words with the syntax of Python and
names of columns:

    label < 10 and width >= 224
    label in (3, 5, 8) or not key.startswith("train/")
    0.5 < width / height < 2
    "night" in key
    num_objects > 0

``num_objects`` counts the objects of an image, ``num_crowds`` the groups among them, and ``smallest_object``
and ``largest_object`` are areas in pixels, 0 without an object. A column of the index with such a name takes
precedence.

Only the syntax listed in :func:`parse` is accepted, and nothing is evaluated as Python.
"""

from __future__ import annotations

import ast
import hashlib
import operator
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stoker.errors import ConfigError, StaleIndexError

from .annotations import Annotations, columns_of, from_columns
from .columns import ListColumn, expand_ranges
from .index import Index

Bool = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]

_OBJECT_NAMES = ("num_objects", "num_crowds", "smallest_object", "largest_object")
_SHOWN = 10  # names of classes in a hint
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def checked_positions(positions: npt.ArrayLike, n: int) -> Int64:
    """Return positions of samples as int64."""
    at = np.asarray(positions)
    if at.size and at.dtype.kind not in "iu":
        raise ConfigError(f"positions must be integers, found {at.dtype}")
    at = at.astype(np.int64, copy=False)
    if at.size and not 0 <= at.min() <= at.max() < n:
        raise IndexError(f"positions go from 0 to {n - 1}, found {at.min()} to {at.max()}")
    return at


def selected_positions(
    index: Index, rows: Int64, which: npt.ArrayLike | str | pc.Expression, objects: Bool | None
) -> Int64:
    """Return the positions that ``which`` of ``Dataset.select`` means, among (N,) rows of an index."""
    # ``objects``, (M,) bool, has the objects of the index that a condition counts; None for all.
    at = np.asarray(which)
    if isinstance(which, str) or at.dtype == object:
        at = matching(index, which, objects)[rows]
    if at.dtype == bool:
        if at.shape != rows.shape:
            raise ConfigError(f"a mask must have one entry a sample, {len(rows)}, found shape {at.shape}")
        at = np.flatnonzero(at)
    elif at.size and at.ndim != 1:
        raise ConfigError(f"positions must have one dimension, found shape {at.shape}")
    return checked_positions(at, len(rows))


def in_first_part(keys: Sequence[str], fraction: float, seed: int) -> Bool:
    """Return (N,) bool, whether each key is in the part of about ``fraction`` of all keys."""
    # The part of a key depends on the key and the seed alone.
    limit = int(fraction * (1 << 64))
    return np.fromiter((one < limit for one in _hashes(keys, seed)), bool, len(keys))


def in_first_part_of_each(keys: Sequence[str], strata: Int64, fraction: float, seed: int) -> Bool:
    """Return (N,) bool, whether each key is in the first part, which has ``fraction`` of each stratum."""
    # The share of a stratum is rounded down or up, so that the share of all keys is rounded to the nearest
    # integer (the method of the largest remainders). The first part has the lowest hashes.
    hashes = np.fromiter(_hashes(keys, seed), np.uint64, len(keys))
    order = np.lexsort((hashes, strata))
    counts = np.bincount(strata)
    whole = np.floor(counts * fraction).astype(np.int64)
    by_remainder = np.argsort(whole - counts * fraction, kind="stable")
    whole[by_remainder[: round(len(keys) * fraction) - int(whole.sum())]] += 1
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.arange(len(keys)) - (np.cumsum(counts) - counts)[strata[order]]
    return np.asarray(rank < whole[strata])


def _hashes(keys: Iterable[str], seed: int) -> Iterator[int]:
    salt = int(seed).to_bytes(16, "little", signed=True)
    for key in keys:
        yield int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8, key=salt).digest(), "little")


def class_numbers(classes: Sequence[str], wanted: str | Sequence[str]) -> list[int]:
    """Return the numbers of the wanted classes; ``classes`` has the names of all, by number."""
    # Several classes may have one name: ImageNet has two cranes.
    names: Sequence[Any] = [wanted] if isinstance(wanted, str) else wanted
    for name in names:
        if not isinstance(name, str):
            hint = f"Choose numbers by a condition: select('label in ({name!r},)')."
            raise ConfigError(f"classes must be names of classes, found {name!r}", hint=hint)
        if name not in classes:
            near = get_close_matches(name, classes, n=_SHOWN) or classes[:_SHOWN]
            more = " ..." if len(near) == _SHOWN < len(classes) else ""
            hint = f"There are {', '.join(near)}{more}" if near else "The dataset has no names of classes."
            raise ConfigError(f"there is no class {name!r}", hint=hint)
    return [number for name in names for number, one in enumerate(classes) if one == name]


def has_class(labels: ListColumn, numbers: list[int]) -> Bool:
    """Return (N,) bool, whether one of each sample's several labels is among ``numbers``."""
    owner = np.repeat(np.arange(len(labels)), labels.counts)
    return np.bincount(owner[np.isin(labels.values, numbers)], minlength=len(labels)) > 0


@dataclass(frozen=True, eq=False)
class Numbering:
    """The classes of a selection, by their new numbers."""

    classes: tuple[str, ...]  # Their names
    numbers: Int64  # (C,) int64, their numbers in the index

    @classmethod
    def of(cls, classes: Sequence[str], numbers: Sequence[int]) -> Numbering:
        if len(set(numbers)) < len(numbers):
            message = "a class is named twice, and renumber=True gives each one number"
            raise ConfigError(message, hint="Name each class once.")
        return cls(tuple(classes), np.array(numbers, np.int64))

    def of_labels(self, labels: Int64) -> Int64:
        """Return new numbers for (N,) labels of the index; -1 for a label that is not among the classes."""
        order = np.argsort(self.numbers)
        at = np.searchsorted(self.numbers, labels, sorter=order)
        found = order[np.minimum(at, len(order) - 1)]
        return np.where(self.numbers[found] == labels, found, -1)

    def of_lists(self, lists: ListColumn) -> ListColumn:
        labels = self.of_labels(lists.values)
        owner = np.repeat(np.arange(len(lists)), lists.counts)[labels >= 0]
        return ListColumn.of_counts(np.bincount(owner, minlength=len(lists)), labels[labels >= 0])


@dataclass(frozen=True, eq=False)
class ObjectChoice:
    """Some of the objects of a dataset."""

    rules: tuple[str, ...]  # The rules that they meet, in words
    kept: Bool  # (M,) bool, whether each object of the index is in the selection
    starts: Int64  # (N + 1,) int64, first object of each row of the index, and M

    def of_rows(self, rows: Int64) -> Bool:
        """Return (K,) bool, whether each of the K objects of these rows is in the selection."""
        return self.kept[expand_ranges(self.starts[rows], self.starts[rows + 1])]


def objects_matching(index: Index, keypoints: int, rule: str, before: ObjectChoice | None) -> ObjectChoice:
    """Return the objects of a dataset that meet a rule."""
    asks_mask = "has_mask" in rule  # outlines take most of the time to read
    parts = ("keypoints", "extra", *(("polygons", "runs") if asks_mask else ()))
    objects = _all_objects(index, keypoints, parts)
    columns: dict[str, Any] = {
        "label": objects.labels,
        "area": objects.area,
        "crowd": objects.crowd,
        "width": objects.boxes[:, 2] - objects.boxes[:, 0],
        "height": objects.boxes[:, 3] - objects.boxes[:, 1],
        **objects.extra,
    }
    if asks_mask:
        columns["has_mask"] = objects.has_mask
    if objects.keypoints is not None:
        columns["num_keypoints"] = (objects.keypoints[..., 2] > 0).sum(axis=1)
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    kept = _matching_rows(table, rule, parse(rule))
    rules: tuple[str, ...] = (rule,)
    if before is not None:
        kept, rules = kept & before.kept, (*before.rules, rule)
    starts = np.searchsorted(objects.owner, np.arange(len(index) + 1))
    return ObjectChoice(rules, kept, starts.astype(np.int64))


def _all_objects(index: Index, keypoints: int = 0, parts: Collection[str] = ()) -> Annotations:
    names = columns_of(index.types, parts)
    return from_columns({name: index.lists(name) for name in names}, len(index), keypoints)


def _object_columns(index: Index, condition: str, objects: Bool | None) -> dict[str, pa.Array]:
    """Return the columns about the objects of each image that a condition names, (N,) each, by name."""
    named = [name for name in _OBJECT_NAMES if name in condition]
    if "object_labels" not in index.types or not named:
        return {}
    if objects is None and named == ["num_objects"]:
        return {"num_objects": pa.array(index.lists("object_labels").counts)}
    annotations = _all_objects(index)
    if objects is not None:
        annotations = annotations.take(objects)
    n = len(index)
    smallest, largest = np.full(n, np.inf), np.zeros(n)
    np.minimum.at(smallest, annotations.owner, annotations.area)
    np.maximum.at(largest, annotations.owner, annotations.area)
    return {
        "num_objects": pa.array(np.bincount(annotations.owner, minlength=n)),
        "num_crowds": pa.array(np.bincount(annotations.owner[annotations.crowd], minlength=n)),
        "smallest_object": pa.array(np.where(np.isfinite(smallest), smallest, 0)),
        "largest_object": pa.array(largest),
    }


def matching(index: Index, expression: pc.Expression | str, objects: Bool | None = None) -> Bool:
    """Return (N,) bool, whether an expression is true for each row of an index."""
    # Only the columns that the expression names are read. ``objects`` is as for :func:`selected_positions`.
    condition = parse(expression) if isinstance(expression, str) else expression
    for name in index.types:
        if name in str(condition):
            _check_offsets(index, name)
    columns = {name: index.arrow(name) for name in index.types}
    columns = {**_object_columns(index, str(condition), objects), **columns}
    return _matching_rows(pa.table(columns), expression, condition)


def check_unambiguous(keys: Iterable[str], hint: str) -> None:
    """Raise ConfigError if one of these keys, of different samples that were found by key, occurs twice."""
    twice = [(key, count) for key, count in Counter(keys).items() if count > 1]
    if twice:
        key, count = twice[0]
        others = f", and {len(twice) - 1:,} more keys name several" if len(twice) > 1 else ""
        raise ConfigError(f"the key {key!r} names {count:,} samples{others}", hint=hint.format(key))


def _matching_rows(table: pa.Table, expression: pc.Expression | str, condition: pc.Expression) -> Bool:
    """Return (N,) bool, whether a condition, given as ``expression``, is true for each row of a table."""
    import pyarrow.dataset as pads  # imports pandas, 45 MB that opening a dataset does not need

    columns = dict(zip(table.column_names, table.columns, strict=True))
    hint = f"The columns are {', '.join(f'{name} ({column.type})' for name, column in columns.items())}"
    try:
        matches = pads.dataset(table).to_table(columns={"matches": condition})["matches"]
    except (pa.ArrowException, ValueError, TypeError) as error:
        reason = str(error).split(" in ")[0] if "FieldRef" in str(error) else error
        if isinstance(expression, str) and (by_name := _hint_of_classes(expression)):
            hint = f"{by_name} {hint}"
        raise ConfigError(f"the condition {expression} cannot be used: {reason}", hint=hint) from error
    if not pa.types.is_boolean(matches.type):
        raise ConfigError(f"{expression} is not a condition but {matches.type}", hint=hint)
    return np.asarray(matches.to_numpy(), bool)


def _check_offsets(index: Index, name: str) -> None:
    """Check the offsets of strings or lists; Arrow trusts them, and opening an index does not check them."""
    column = index.arrow(name)
    if not pa.types.is_primitive(column.type):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            message, hint = (
                f"the index column {name!r} is damaged: {error}",
                "Run stoker verify, which says where.",
            )
            raise StaleIndexError(message, path=index.path, hint=hint) from error


def parse(text: str) -> pc.Expression:
    """Return the expression of PyArrow for one in words."""
    # An expression may have names of columns, numbers, strings, True and False; ``< <= > >= == !=``, also in
    # chains; ``in`` and ``not in`` a tuple, list or set, or in a column of strings; ``and or not``; ``+ - *
    # /``, in float64; and ``column.startswith(text)`` and ``column.endswith(text)``.
    try:
        return _translate(ast.parse(text.strip(), mode="eval").body)
    except SyntaxError as error:
        raise ConfigError(
            f"the condition {text!r} is not an expression: {error.msg}", hint=_hint_of_classes(text)
        ) from error
    except (RecursionError, MemoryError) as error:
        raise ConfigError("the condition is nested too deeply") from error
    except (ValueError, OverflowError, pa.ArrowException) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"the condition {text!r} cannot be used: {error}") from error


def _hint_of_classes(text: str) -> str | None:
    """Return the hint for a condition that compares ``class``, or ``label`` with strings; otherwise None."""
    compared = re.findall(r"\b(class|label)\b\s*(?:==|!=|in\b|not in\b)\s*([^)]*)", text)
    names = [first or second for _, values in compared for first, second in _QUOTED.findall(values)]
    if not names and not any(word == "class" for word, _ in compared):
        return None
    return f"Choose classes by their names with select(classes={names or ['cat']}), beside any condition."


def _translate(node: ast.expr) -> Any:
    match node:
        case ast.BoolOp(op=op, values=values):
            return reduce(operator.and_ if isinstance(op, ast.And) else operator.or_, map(_translate, values))
        case ast.Compare(left=left, ops=comparisons, comparators=operands):
            links = zip([left, *operands], comparisons, operands, strict=False)
            return reduce(operator.and_, (_link(*link) for link in links))
        case ast.Call(
            func=ast.Attribute(value=column, attr=("startswith" | "endswith") as method),
            args=[ast.Constant(value=str(text))],
            keywords=[],
        ):
            return (pc.starts_with if method == "startswith" else pc.ends_with)(_translate(column), text)
        case ast.Name(id=name):
            return pc.field(name)
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return pc.scalar(value)
        case _:
            return _calculation(node)


def _calculation(node: ast.expr) -> Any:
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ~_translate(operand)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant() as operand):
            return pc.negate(_translate(operand))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return pc.negate(_float64(operand))  # Arrow's negative of an unsigned integer is a positive one
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            # Arrow cuts the quotient of integers, and their product may overflow.
            return _ARITHMETIC[type(op)](_float64(left), _float64(right))
    raise _not_understood(node)


def _float64(node: ast.expr) -> Any:
    return _translate(node).cast(pa.float64(), safe=False)


def _link(left: ast.expr, comparison: ast.cmpop, right: ast.expr) -> Any:
    if isinstance(comparison, ast.NotIn):
        return ~_link(left, ast.In(), right)
    if type(comparison) in _COMPARISONS:
        return _COMPARISONS[type(comparison)](_translate(left), _translate(right))
    if not isinstance(comparison, ast.In):
        raise ConfigError("'is' is not understood in a condition", hint="Compare with ==.")
    match left, right:
        case _, ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            try:
                values = [ast.literal_eval(element) for element in elements]
            except ValueError as error:
                raise _not_understood(right) from error
            return _translate(left).isin(values)
        case ast.Constant(value=str(text)), _:
            return pc.match_substring(_translate(right), text)
    raise _not_understood(right)


def _not_understood(node: ast.AST) -> ConfigError:
    return ConfigError(
        f"{ast.unparse(node)!r} is not understood in a condition",
        hint="Use columns, numbers, strings, == != < <= > >=, in, and, or, not, + - * /, .startswith().",
    )
