"""Tests of numbers of bytes as users write them."""

import pytest

from stoker.errors import ConfigError
from stoker.formats.files.byte_size import parse_byte_size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("256MB", 256_000_000),
        ("1.5 GiB", 3 << 29),
        (1000, 1000),
        ("7", 7),
        ("2k", 2000),
        ("1mib", 1 << 20),
        ("2TB", 2 * 10**12),
    ],
)
def test_a_number_of_bytes_may_have_a_unit(text: str | int, expected: int) -> None:
    assert parse_byte_size("shard_size", text) == expected


@pytest.mark.parametrize("text", ["", "MB", "-1MB", "0", "1PB", "1e9", "256 M B"])
def test_a_text_that_is_no_number_of_bytes_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="shard_size"):
        parse_byte_size("shard_size", text)
