"""Options of a conversion: values that are refused, and integers of NumPy."""

from __future__ import annotations

import inspect
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers.options import convert_options

import stoker
from stoker.errors import ConfigError
from stoker.formats.conversion.options import ConvertArguments, ConvertOptions, parse_resize, parse_share
from stoker.formats.options import declarations, flat_declarations, option_groups
from stoker.formats.text.options import TextArguments


def resolve(options: dict[str, Any]) -> ConvertOptions:
    return ConvertOptions.resolve(ConvertArguments(**convert_options(options)), "folder")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shards": 0}, "shards must be at least 1, found 0"),
        ({"shards": 1, "shard_records": 1}, "made by one of shard_size, shard_records and shards"),
        ({"shards": 1, "shard_size": "1MB"}, "made by one of shard_size, shard_records and shards"),
        ({"shards": 2.0}, "shards must be an integer, found 2.0"),
        ({"container": "zip"}, "container must be"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"encoding": "gif"}, "encoding must be one of"),
        ({"quality": 0}, "quality must be at least 1"),
        ({"quality": 101, "encoding": "jpeg"}, "quality must be at most 100"),
        ({"quality": True}, "quality must be an integer"),
        ({"subsampling": "411"}, "subsampling must be one of"),
        ({"val": Fraction(1, 2), "test": Fraction(1, 2)}, "leave nothing to train on"),
        ({"class_depth": 0}, "class_depth must be at least 1"),
        ({"max_pixels": 1 << 40}, "max_pixels must be at most"),
        ({"resize": "fill=100x100", "max_pixels": 9999}, "more than max_pixels, 9999"),
        ({"engine": "spark"}, "engine must be one of"),
        ({"num_threads": 0}, "num_threads must be at least 1"),
        ({"min_per_class": 0}, "min_per_class must be at least 1"),
        ({"tokenizer": "bytes"}, "tokenizer is for captions"),
        ({"encoding": "raw", "restarts": True}, "restarts is for JPEGs, and with encoding 'raw' none"),
        *(
            ({"val": share}, "val must be a share")
            for share in ("", "%", "-1%", "100%", 1.0, 1.5, "nan", "inf", "1/0", "ten")
        ),
        *(({"allow_loss": share}, "allow_loss must be a") for share in ("some", "101%", -0.1, 2, "1/0")),
        *(
            ({"resize": resize}, "resize")
            for resize in ("", "256", "shorter", "shorter=", "shorter=1x2", "fill=256", "crop=0x5", "fit=1x1")
        ),
        ({"resize": "squash=99999x1"}, "a side in resize must be at most 65500"),
        ({"resize": 256}, "resize must be"),
        ({"resize": (1, 2)}, "resize must be"),
    ],
    ids=str,
)
def test_invalid_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(options)


def test_numpy_integers_become_python_integers() -> None:
    numbers = {"seed": 3, "shards": 2, "quality": 80, "class_depth": 1, "max_pixels": 1000}
    options = resolve({"encoding": "jpeg", **{name: np.int64(value) for name, value in numbers.items()}})
    expected = resolve({"encoding": "jpeg", **numbers})
    assert options == expected
    assert json.dumps(options.to_manifest()) == json.dumps(expected.to_manifest())


@pytest.mark.parametrize(
    ("function", "table"), [(stoker.convert, ConvertArguments), (stoker.convert_text, TextArguments)]
)
def test_a_function_has_the_options_of_its_table_and_their_defaults(function: Any, table: type) -> None:
    parameters = inspect.signature(function).parameters
    declared = {item.name: item.default for item, _ in declarations(table)}
    declared |= dict.fromkeys([*option_groups(table), "progress"])
    named = {name: parameter.default for name, parameter in parameters.items()}
    assert {name: named[name] for name in named if name not in ("source", "target")} == declared
    names = [item.name for item, _ in flat_declarations(table)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("share", "expected"),
    [("10%", Fraction(1, 10)), (0.1, Fraction(1, 10)), ("0.333", Fraction(333, 1000)), (0, 0)],
)
def test_a_share_is_a_number_or_a_percentage(share: str | float, expected: Fraction) -> None:
    assert parse_share("val", share) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, ("none", 0, 0)),
        ("shorter=256", ("shorter", 256, 256)),
        ("longer=300", ("longer", 300, 300)),
        ("squash=10x20", ("squash", 10, 20)),
        ("crop=224X224", ("crop", 224, 224)),
        (" fill=1x2 ", ("fill", 1, 2)),
    ],
)
def test_a_resize_has_a_mode_a_height_and_a_width(text: str | None, expected: tuple[str, int, int]) -> None:
    assert parse_resize(text) == expected
