"""The columns of a table by their use: image, label with the names of its classes, numbers and texts."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stoker.errors import ConfigError, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .table_files import TableFile

__all__ = ["TableColumns", "find_columns"]

_IMAGE_NAMES = ("image", "img", "picture", "photo")
_HUGGING_FACE = b"huggingface"


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table that samples take.

    Attributes:
        image: Column of the images: binary, or structs with a field ``bytes``.
        label: Column of the labels; None if there is none.
        classes: Names of the classes, by label; None where the table does not name them.
        key: Column of the names of samples; None where they are numbered.
        values: NumPy's type, or "str", of each column of numbers or texts.
        names: Name of each of these in the dataset.
        left_out: Columns that have other types, or no value at all.
    """

    image: str
    label: str | None
    classes: tuple[str, ...] | None
    key: str | None
    values: Mapping[str, str]
    names: Mapping[str, str]
    left_out: tuple[str, ...] = field(default=())

    @property
    def all(self) -> list[str]:
        """Names of the columns to read."""
        return [self.image, *(name for name in (self.label, self.key) if name), *self.values]

    def samples(self, batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
        """Yield the arguments of a writer for each row; ``image`` is None where a row has no image."""
        images = batch.column(self.image)
        if pa.types.is_struct(images.type):
            images = pc.struct_field(images, "bytes")  # null where the struct is
        columns: dict[str, list[Any]] = {"image": images.to_pylist()}
        if self.label is not None:
            columns["label"] = batch.column(self.label).to_pylist()
        if self.key is not None:
            columns["key"] = batch.column(self.key).cast(pa.large_string()).to_pylist()
        for column, dtype in self.values.items():
            columns[self.names[column]] = _values(batch.column(column), dtype)
        for row in zip(*columns.values(), strict=True):
            yield dict(zip(columns, row, strict=True))


def _values(column: pa.Array, dtype: str) -> list[Any]:
    """Return the values of a column: an empty text, or NaN, where a row has none."""
    if dtype == "str":
        return ["" if value is None else value for value in column.to_pylist()]
    if column.null_count:
        return list(np.asarray([np.nan if value is None else value for value in column.to_pylist()], dtype))
    return list(column.to_numpy(zero_copy_only=False).astype(dtype))


def find_columns(tables: list[TableFile], fields: Mapping[str, str | None]) -> TableColumns:
    """Decide what the columns of tables are.

    Args:
        tables: The files, whose columns are the same.
        fields: image, label, key, or the name in the dataset, by the name of a column; None leaves one out.

    Raises:
        SourceError: A file has other columns than the first.
        ConfigError: No column, or more than one, may be the image; or ``fields`` names none of the table.
    """
    schema = tables[0].schema
    for table in tables[1:]:
        if not table.schema.equals(schema):
            raise SourceError(
                f"its columns differ from those of {tables[0].path}",
                path=table.path,
                hint="convert tables of different columns each to a folder of its own",
            )
    if missing := [name for name in fields if name not in schema.names]:
        raise ConfigError(f"the table has no column {missing[0]!r}", hint=f"it has {', '.join(schema.names)}")
    features = _features(schema)
    roles = {role: name for name, role in fields.items() if role in ("image", "label", "key")}
    image = roles.get("image") or _image(schema, features, fields)
    label = roles.get("label") or _label(schema, features, fields)
    key = roles.get("key") or ("key" if "key" in schema.names and "key" not in fields else None)
    classes = features.get(label or "", {}).get("names")
    taken = {image, label, key}
    others = [name for name in schema.names if name not in taken and fields.get(name, "") is not None]
    kinds = {name: _dtype(schema.field(name).type, tables, name) for name in others}
    return TableColumns(
        image,
        label,
        None if classes is None else tuple(classes),
        key,
        {name: kind for name, kind in kinds.items() if kind},
        {name: fields.get(name) or name for name in others},
        tuple(name for name, kind in kinds.items() if not kind),
    )


def _features(schema: pa.Schema) -> dict[str, Any]:
    """Return the features of Hugging Face's datasets by column, as the schema's metadata states them."""
    try:
        stated = json.loads((schema.metadata or {})[_HUGGING_FACE])["info"]["features"]
        return {name: feature for name, feature in stated.items() if isinstance(feature, dict)}
    except (KeyError, TypeError, ValueError):
        return {}


def _image(schema: pa.Schema, features: dict[str, Any], fields: Mapping[str, str | None]) -> str:
    held: list[str] = [one.name for one in schema if _holds_bytes(one.type) and one.name not in fields]
    stated = [name for name in held if features.get(name, {}).get("_type") == "Image"]
    found = stated or [name for name in held if name in _IMAGE_NAMES] or held
    if len(found) == 1:
        return found[0]
    message = f"several columns may be the image: {', '.join(found)}" if found else "no column holds images"
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


def _dtype(kind: pa.DataType, tables: list[TableFile], name: str) -> str:
    """Return the type of a column in the index: NumPy's name, "str", or nothing where it has none there."""
    stated = [table.nulls.get(name, -1) for table in tables]
    if min(stated) >= 0 and sum(stated) == sum(table.rows for table in tables):
        return ""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "str"
    if pa.types.is_boolean(kind):
        return "float64" if any(stated) else "uint8"
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return ""
    return "float64" if pa.types.is_integer(kind) and any(stated) else str(np.dtype(kind.to_pandas_dtype()))
