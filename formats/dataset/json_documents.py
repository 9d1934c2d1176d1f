"""Dataclasses as JSON documents, such as manifests, with checks of keys and types.

The metadata of a field may have ``key``, its key in documents if that differs from its name; ``optional``, if
documents may lack the field; and ``elsewhere``, if no document has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from stoker.errors import DatasetError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    _T = TypeVar("_T", bound=DataclassInstance)


def to_document(instance: DataclassInstance) -> dict[str, Any]:
    """Return the document of a dataclass."""
    return {key: _value(getattr(instance, item.name)) for key, (item, _) in _fields(type(instance)).items()}


def _value(value: Any) -> Any:
    """Return the value of a field as JSON takes it."""
    if is_dataclass(value) and not isinstance(value, type):
        return to_document(value)
    if isinstance(value, (list, tuple)):
        return [_value(item) for item in value]
    return {key: _value(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def from_document(cls: type[_T], document: Any, where: str) -> _T:
    """Return a dataclass made from a document of ``json.loads``; errors name the document ``where``."""
    if not isinstance(document, dict):
        raise DatasetError(f"{where} must be an object, not {type(document).__name__}")
    fields_by_key = _fields(cls)
    if unknown := sorted(document.keys() - fields_by_key.keys()):
        raise DatasetError(f"{where} has keys that this version does not know: {', '.join(unknown)}")
    required = {key for key, (item, _) in fields_by_key.items() if not item.metadata.get("optional")}
    if missing := sorted(required - document.keys()):
        raise DatasetError(f"{where} lacks {', '.join(missing)}")
    values = {}
    for key, value in document.items():
        item, hint = fields_by_key[key]
        values[item.name] = _convert(hint, value, f"{where}: {key}")
    try:
        return cls(**values)
    except DatasetError:
        raise
    except ValueError as error:
        raise DatasetError(f"{where}: {error}") from error


@cache
def _fields(cls: type[DataclassInstance]) -> dict[str, tuple[Field[Any], Any]]:
    """Return the fields and their types by key; cached, because a manifest may have 100,000 shards."""
    hints = get_type_hints(cls)
    known = [item for item in fields(cls) if not item.metadata.get("elsewhere")]
    return {item.metadata.get("key", item.name): (item, hints[item.name]) for item in known}


def _convert(hint: Any, value: Any, where: str) -> Any:
    """Return a value of JSON as the type of its field."""
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return from_document(hint, value, where)
    if origin is tuple and isinstance(value, list):
        if arguments[-1] is not Ellipsis and len(value) != len(arguments):
            raise DatasetError(f"{where} has a list of {len(value)} values, not {len(arguments)}")
        return tuple(_convert(arguments[0], item, where) for item in value)
    if origin is Mapping and isinstance(value, dict):
        return {key: _convert(arguments[1], item, where) for key, item in value.items()}
    # type(), not isinstance(): true must not pass for a count.
    if origin is None and type(value) is hint:
        return value
    if type(value) in arguments and origin not in (tuple, Mapping):
        return value
    raise DatasetError(f"{where} has a value of the wrong type: {str(value)[:50]!r}")
