"""Values of options as users write them: shares and resizes."""

from fractions import Fraction
from typing import Any

import pytest

from stoker.errors import ConfigError
from stoker.formats.conversion.option_values import parse_resize, parse_share


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10%", Fraction(1, 10)), (0.1, Fraction(1, 10)), ("0.333", Fraction(333, 1000)), (0, 0)],
)
def test_a_share_is_a_number_or_a_percentage(text: str | float, expected: Fraction) -> None:
    assert parse_share("val", text) == expected


@pytest.mark.parametrize("text", ["", "%", "-1%", "100%", 1.0, "nan", "inf", "1/0", "ten"])
def test_a_text_that_is_no_share_is_refused(text: str | float) -> None:
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
def test_a_resize_has_a_mode_a_height_and_a_width(text: str | None, expected: tuple[str, int, int]) -> None:
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
def test_a_text_that_is_no_resize_is_refused(text: Any) -> None:
    with pytest.raises(ConfigError, match="resize"):
        parse_resize(text)
