"""Options of a conversion: shares, resizes, and refused values."""

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from stoker.errors import ConfigError
from stoker.formats.conversion.options import ConvertOptions, parse_resize, parse_share


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10%", Fraction(1, 10)), (0.1, Fraction(1, 10)), ("0.333", Fraction(333, 1000)), (0, 0)],
)
def test_shares(text: str | float, expected: Fraction) -> None:
    assert parse_share("val", text) == expected


@pytest.mark.parametrize("text", ["", "%", "-1%", "100%", 1.0, "nan", "inf", "1/0", "ten"])
def test_bad_shares(text: str | float) -> None:
    with pytest.raises(ConfigError, match="val"):
        parse_share("val", text)


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
def test_resizes(text: str | None, expected: tuple[str, int, int]) -> None:
    assert parse_resize(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "256",
        "shorter",
        "shorter=",
        "shorter=1x2",
        "fill=256",
        "crop=0x5",
        "fit=1x1",
        "squash=99999x1",
        256,
        (1, 2),
    ],
)
def test_bad_resizes(text: Any) -> None:
    with pytest.raises(ConfigError, match="resize"):
        parse_resize(text)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shards": 1, "shard_records": 1},
        {"shards": -1},
        {"shards": 1, "container": "zip"},
        {"shards": 1, "seed": -1},
        {"shards": 1, "seed": 1.5},
        {"shards": 2.0},
        {"shards": 1, "encoding": "gif"},
        {"shards": 1, "quality": 0},
        {"shards": 1, "quality": True},
        {"shards": 1, "subsampling": "411"},
        {"shards": 1, "val": Fraction(1, 2), "test": Fraction(1, 2)},
        {"shards": 1, "class_depth": 0},
        {"shards": 1, "max_pixels": 1 << 40},
        {"shards": 1, "mode": "fill", "height": 100, "width": 100, "max_pixels": 9999},
    ],
    ids=str,
)
def test_invalid_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ConvertOptions(**options)


def test_numpy_integers_become_python_integers() -> None:
    numbers = {"seed": 3, "shards": 2, "quality": 80, "class_depth": 1, "max_pixels": 1000}
    options = ConvertOptions(encoding="jpeg", **{name: np.int64(value) for name, value in numbers.items()})
    expected = ConvertOptions(encoding="jpeg", **numbers)
    assert options == expected
    assert json.dumps(options.to_manifest()) == json.dumps(expected.to_manifest())
