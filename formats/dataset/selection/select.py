"""Selection of rows of an index by a condition on its columns, of PyArrow or in words.

A condition in words has the syntax of Python, with names of columns:

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
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stoker.errors import ConfigError, StaleIndexError

from ..index import Index
from .classes import names_classes
from .object_columns import columns_of_objects

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
_STRING_METHODS = {"startswith": pc.starts_with, "endswith": pc.ends_with}


def matching(
    index: Index, expression: pc.Expression | str, objects: npt.NDArray[np.bool_] | None = None
) -> npt.NDArray[np.bool_]:
    """Return (N,) bool, whether an expression is true for each row of an index.

    Only the columns that the expression names are read.
    """
    # objects (M,) bool
    condition = parse(expression) if isinstance(expression, str) else expression
    for name in index.types:
        if name in str(condition):
            _check_offsets(index, name)
    columns = {name: index.arrow(name) for name in index.types}
    columns = {**columns_of_objects(index, str(condition), objects), **columns}
    return matching_rows(pa.table(columns), expression)


def matching_rows(table: pa.Table, expression: pc.Expression | str) -> npt.NDArray[np.bool_]:
    """Return (N,) bool, whether an expression is true for each row of a table.

    Raises: As :func:`matching`.
    """
    import pyarrow.dataset as pads  # imports pandas, 45 MB that opening a dataset does not need

    condition = parse(expression) if isinstance(expression, str) else expression
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
        raise ConfigError(f"{expression} is no condition but {matches.type}", hint=hint)
    return np.asarray(matches.to_numpy(), bool)


def _check_offsets(index: Index, name: str) -> None:
    """Check the offsets of texts and lists, which Arrow trusts; opening a large index does not check them."""
    column = index.arrow(name)
    if not pa.types.is_primitive(column.type):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise StaleIndexError(
                f"the index column {name!r} is damaged: {error}",
                path=index.path,
                hint="stoker verify says where",
            ) from error


def parse(text: str) -> pc.Expression:
    """Return the expression of PyArrow for one in words.

    An expression may have names of columns, numbers, texts, True and False; ``< <= > >= == !=``, also in
    chains; ``in`` and ``not in`` a tuple, list or set, or in a column of texts; ``and or not``; ``+ - * /``,
    in float64; and ``column.startswith(text)`` and ``column.endswith(text)``.
    """
    try:
        return _translate(ast.parse(text.strip(), mode="eval").body)
    except SyntaxError as error:
        raise ConfigError(
            f"the condition {text!r} is no expression: {error.msg}", hint=_hint_of_classes(text)
        ) from error
    except (RecursionError, MemoryError) as error:
        raise ConfigError("the condition is nested too deeply") from error
    except (ValueError, OverflowError, pa.ArrowException) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"the condition {text!r} cannot be used: {error}") from error


def _hint_of_classes(text: str) -> str | None:
    """Return the hint for a condition with names of classes; None if it has none."""
    names = names_classes(text)
    if names is None:
        return None
    return f"Choose classes by their names with select(classes={names or ['cat']}), beside any condition."


def _translate(node: ast.expr) -> Any:
    for node_type, translate in _NODES.items():
        if isinstance(node, node_type):
            return translate(node)
    raise _not_understood(node)


def _not_understood(node: ast.AST) -> ConfigError:
    return ConfigError(
        f"{ast.unparse(node)!r} is not understood in a condition",
        hint="Use columns, numbers, texts, == != < <= > >=, in, and, or, not, + - * /, .startswith().",
    )


def _constant(node: ast.Constant) -> Any:
    if not isinstance(node.value, (bool, int, float, str)):
        raise _not_understood(node)
    return pc.scalar(node.value)


def _unary(node: ast.UnaryOp) -> Any:
    operand = _translate(node.operand)
    if isinstance(node.op, ast.Not):
        return ~operand
    if not isinstance(node.op, ast.USub):
        raise _not_understood(node)
    if isinstance(node.operand, ast.Constant):
        return pc.negate(operand)
    # In float64, as all arithmetic: Arrow's negative of an unsigned integer is a positive one.
    return pc.negate(operand.cast(pa.float64(), safe=False))


def _boolean(node: ast.BoolOp) -> Any:
    join = operator.and_ if isinstance(node.op, ast.And) else operator.or_
    return reduce(join, map(_translate, node.values))


def _arithmetic(node: ast.BinOp) -> Any:
    if type(node.op) not in _ARITHMETIC:
        raise _not_understood(node)
    # Arrow cuts the quotient of integers, and their product may overflow.
    left, right = (_translate(side).cast(pa.float64(), safe=False) for side in (node.left, node.right))
    return _ARITHMETIC[type(node.op)](left, right)


def _compare(node: ast.Compare) -> Any:
    operands = [node.left, *node.comparators]
    links = zip(operands[:-1], node.ops, operands[1:], strict=True)
    return reduce(operator.and_, (_link(*link) for link in links))


def _link(left: ast.expr, comparison: ast.cmpop, right: ast.expr) -> Any:
    if isinstance(comparison, ast.In):
        return _contains(left, right)
    if isinstance(comparison, ast.NotIn):
        return ~_contains(left, right)
    if type(comparison) not in _COMPARISONS:
        raise ConfigError("'is' is not understood in a condition", hint="Compare with ==.")
    return _COMPARISONS[type(comparison)](_translate(left), _translate(right))


def _contains(item: ast.expr, container: ast.expr) -> Any:
    if isinstance(container, (ast.Tuple, ast.List, ast.Set)):
        try:
            values = [ast.literal_eval(element) for element in container.elts]
        except ValueError as error:
            raise _not_understood(container) from error
        return _translate(item).isin(values)
    if isinstance(item, ast.Constant) and isinstance(item.value, str):
        return pc.match_substring(_translate(container), item.value)
    raise _not_understood(container)


def _call(node: ast.Call) -> Any:
    arguments = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
    method = node.func
    if (
        not isinstance(method, ast.Attribute)
        or method.attr not in _STRING_METHODS
        or len(node.args) != 1
        or node.keywords
        or not all(isinstance(argument, str) for argument in arguments)
        or not arguments
    ):
        raise _not_understood(node)
    return _STRING_METHODS[method.attr](_translate(method.value), arguments[0])


_NODES: dict[type[ast.expr], Callable[[Any], Any]] = {
    ast.BoolOp: _boolean,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BinOp: _arithmetic,
    ast.Call: _call,
    ast.Name: lambda node: pc.field(node.id),
    ast.Constant: _constant,
}
