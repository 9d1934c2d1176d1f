"""The columns of a table by their use: image, label with the names of its classes, numbers and texts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stoker.errors import ConfigError, SourceError

from ..archives import free_name
from .table_files import TableFile

_IMAGE_NAMES = ("image", "img", "picture", "photo")
_HUGGING_FACE = b"huggingface"


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table that samples take."""

    image: str  # Column of the images: binary, or structs with a field ``bytes``
    label: str | None  # Column of the labels; None if there is none
    classes: tuple[str, ...]  # Names of the classes, by label; empty where the table does not name them
    key: str | None  # Column of the names of samples; None where they are numbered
    values: Mapping[str, str]  # Name in the dataset of each column of numbers or texts

    @property
    def listed(self) -> list[str]:
        """Names of the columns to read before any image."""
        return list(dict.fromkeys([*(name for name in (self.label, self.key) if name), *self.values]))


def find_columns(tables: list[TableFile], fields: Mapping[str, str | None]) -> TableColumns:
    """Find the use of each column of some tables, which must have the same columns.

    ``fields`` has image, label, key, or the name in the dataset, by the name of a column; None omits one.
    """
    schema = tables[0].schema
    for table in tables[1:]:
        if not table.schema.equals(schema):
            raise SourceError(
                f"its columns differ from those of {tables[0].path}",
                path=table.path,
                hint="convert tables of different columns each to a folder of its own",
            )
    unlabelled = fields.get("") == "label"
    fields = {name: role for name, role in fields.items() if name}
    if missing := [name for name in fields if name not in schema.names]:
        raise ConfigError(f"the table has no column {missing[0]!r}", hint=f"it has {', '.join(schema.names)}")
    features = _features(schema)
    roles = {role: name for name, role in fields.items() if role in ("image", "label", "key")}
    image = roles.get("image") or _image(schema, features, fields)
    label = None if unlabelled else roles.get("label") or _label(schema, features, fields)
    key = roles.get("key") or ("key" if "key" in schema.names and "key" not in fields else None)
    taken = {image, label, key}
    others = [name for name in schema.names if name not in taken and fields.get(name, "") is not None]
    return TableColumns(
        image,
        label,
        tuple(_class_names(features.get(label or "", {}))),
        key,
        {
            name: fields.get(name) or free_name(name)
            for name in others
            if _is_value(schema.field(name).type) or (name in fields and holds_texts(schema.field(name).type))
        },
    )


def _features(schema: pa.Schema) -> dict[str, Any]:
    """Return the features of Hugging Face's datasets by column, as the schema's metadata states them."""
    try:
        stated = json.loads((schema.metadata or {})[_HUGGING_FACE])["info"]["features"]
        return {name: feature for name, feature in stated.items() if isinstance(feature, dict)}
    except (KeyError, TypeError, ValueError):
        return {}


def _class_names(feature: dict[str, Any]) -> list[str]:
    """Return the names of a ClassLabel, or of a sequence of them."""
    inner = feature.get("feature")
    names = feature.get("names") or (inner.get("names") if isinstance(inner, dict) else None) or []
    return [str(name) for name in names]


def _image(schema: pa.Schema, features: dict[str, Any], fields: Mapping[str, str | None]) -> str:
    held: list[str] = [one.name for one in schema if _holds_bytes(one.type) and one.name not in fields]
    stated = [name for name in held if features.get(name, {}).get("_type") == "Image"]
    candidates = stated or [name for name in held if name in _IMAGE_NAMES] or held
    if len(candidates) == 1:
        return candidates[0]
    message = (
        f"several columns may be the image: {', '.join(candidates)}"
        if candidates
        else "no column holds images"
    )
    raise ConfigError(
        f"{message}; the table has {', '.join(schema.names)}",
        hint="name it with --image NAME (fields={'NAME': 'image'})",
    )


def _label(schema: pa.Schema, features: dict[str, Any], fields: Mapping[str, str | None]) -> str | None:
    free = [name for name in schema.names if name not in fields]
    if "label" in free:
        return "label"
    of_classes: list[str] = [name for name in free if features.get(name, {}).get("_type") == "ClassLabel"]
    if len(of_classes) > 1:
        raise ConfigError(
            f"the table has several labels: {', '.join(of_classes)}",
            hint="choose one with --label NAME (fields={'NAME': 'label'}); others are columns of numbers",
        )
    return of_classes[0] if of_classes else None


def _holds_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        at = kind.get_field_index("bytes")
        return at >= 0 and _holds_bytes(kind.field(at).type)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def holds_texts(kind: pa.DataType) -> bool:
    """Return whether a column holds lists of texts, such as the captions of an image."""
    if not pa.types.is_list(kind) and not pa.types.is_large_list(kind):
        return False
    return bool(pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type))


def _is_value(kind: pa.DataType) -> bool:
    """Return whether a column holds numbers, truth values or texts, which the index can hold."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_boolean, pa.types.is_integer)
    return any(test(kind) for test in tests) or pa.types.is_floating(kind)
