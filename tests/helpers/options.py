"""Options of conversions by their names, grouped as the public functions take them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stoker.formats.conversion.options import ConvertArguments
from stoker.formats.options import flat_declarations, gather_options
from stoker.formats.text.options import TextArguments


def _grouped(table: type, options: Mapping[str, Any]) -> dict[str, Any]:
    values = dict(options)
    if "format" in values:
        values["container"] = values.pop("format")
    declared = {item.name for item, _ in flat_declarations(table)}
    return {name: value for name, value in values.items() if name not in declared} | gather_options(
        table, values
    )


def convert_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of ``stoker.convert``."""
    return _grouped(ConvertArguments, options)


def text_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of ``stoker.convert_text``."""
    return _grouped(TextArguments, options)


def writer_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of ``stoker.Writer``, which takes ``ignore_index`` itself."""
    others = {name: value for name, value in options.items() if name != "ignore_index"}
    return _grouped(ConvertArguments, others) | {
        name: value for name, value in options.items() if name == "ignore_index"
    }
