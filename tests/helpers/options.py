"""Options of conversions by their names, grouped as the public functions take them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import stoker
from stoker.formats.conversion.options import ConvertArguments
from stoker.formats.conversion.publishing import Summary
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


def convert(source: Any, target: Any, **options: Any) -> Summary:
    """``stoker.convert`` with flat options."""
    return stoker.convert(source, target, **convert_options(options))


def convert_text(source: Any, target: Any, **options: Any) -> Summary:
    """``stoker.convert_text`` with flat options, by default with the tokenizer of a few words."""
    if not {"tokenizer", "vocabulary"} & options.keys():
        options["tokenizer"] = Path(__file__).parents[1] / "data" / "words.json"
    return stoker.convert_text(source, target, **text_options(options))


def image_writer(target: Any, **options: Any) -> stoker.Writer:
    """``stoker.Writer`` with flat options."""
    return stoker.Writer(target, **writer_options(options))
