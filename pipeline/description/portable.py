"""Arguments of loaders as data that JSON can hold, and back; descriptions of loaders consist of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from stoker.augment.description import Description
from stoker.augment.recipe import from_dict

_MOST = 100_000  # numbers of an array that a description holds


class NotPortableError(Exception):
    """An argument has no form that JSON can hold."""


def portable(value: Any) -> Any:
    """Return an argument as JSON data: numbers, texts, lists, and objects for other types."""
    if isinstance(value, np.generic):
        value = value.item()
    elif isinstance(value, os.PathLike):
        value = os.fspath(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [portable(item) for item in value]
    return _as_object(value)


def _as_object(value: Any) -> dict[str, Any]:
    if isinstance(value, np.ndarray) and value.size <= _MOST and value.dtype.kind in "biuf":
        return {"array": value.tolist(), "dtype": value.dtype.name}
    if isinstance(value, Mapping):
        return {"mapping": [[portable(key), portable(item)] for key, item in value.items()]}
    if isinstance(value, Description):
        return {"transform": value.to_dict()}
    if is_dataclass(value) and type(value).__module__.startswith("stoker."):
        names = [field.name for field in fields(value) if field.init]
        arguments = {name: portable(getattr(value, name)) for name in names}
        return {"object": type(value).__name__, "arguments": arguments}
    raise NotPortableError(f"{type(value).__name__} {getattr(value, '__qualname__', '')}".strip())


def from_portable(value: Any, known: Iterable[type]) -> Any:
    """Return the argument that :func:`portable` has turned into ``value``; lists stay lists."""
    if isinstance(value, list):
        return [from_portable(item, known) for item in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return np.array(value["array"], value.get("dtype"))
    if "mapping" in value:
        return {from_portable(key, known): from_portable(item, known) for key, item in value["mapping"]}
    if "transform" in value:
        return from_dict(value["transform"])
    classes = {cls.__name__: cls for cls in known}
    if value.get("object") not in classes:
        raise ValueError(f"a description holds an unknown object: {value!r:.200}")
    arguments = {name: from_portable(item, known) for name, item in value.get("arguments", {}).items()}
    return classes[value["object"]](**arguments)
