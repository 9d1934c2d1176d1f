"""The names of the parts of a sample and of its columns, as ``fields`` gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stoker.errors import ConfigError

from ...containers.messages.image_record import FeatureNames
from ...dataset.index import KNOWN_COLUMNS

_TAKEN = {*KNOWN_COLUMNS, "label", "row", "image", "mask", "count", "dataset", "segmentation"}


def free_name(name: str) -> str:
    """Return the name of a column in the dataset: a name that datasets use themselves gets a ``_``."""
    return f"{name}_" if name in _TAKEN or name.startswith(("object_", "mask_")) else name


def name_parts(fields: Mapping[str, str | None] | None, usual: FeatureNames) -> FeatureNames:
    """Return the parts to read: the usual ones, and those that the user names in ``fields``.

    A part is the image, the label, the key or a column of that name; None leaves it out.
    """
    names, columns = usual, dict(usual.columns)
    part_of_role: dict[str, str] = {}
    for part, name in (fields or {}).items():
        if name is None:
            columns = {column: column_part for column, column_part in columns.items() if column_part != part}
            names = replace(names, label=None) if part == names.label else names
        elif name in ("image", "label", "key"):
            part_of_role[name] = part
        elif name in (*KNOWN_COLUMNS, "path", ""):
            raise ConfigError(f"a column cannot have the name {name!r}", hint="give it another name")
        else:
            columns[name] = part
    return replace(
        names,
        encoded=part_of_role.get("image", names.encoded),
        label=part_of_role.get("label", names.label),
        key=part_of_role.get("key"),
        columns=columns,
    )
