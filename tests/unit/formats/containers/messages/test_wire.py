"""Tests of the wire format of protocol buffers."""

import pytest

from stoker.errors import CorruptRecordError
from stoker.formats.containers.messages.wire import Field, Span, delimited, fields, read_varint, varint


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, b"\x00"),
        (1, b"\x01"),
        (127, b"\x7f"),
        (150, b"\x96\x01"),  # the guide's own example
        ((1 << 64) - 1, b"\xff" * 9 + b"\x01"),
        (-1, b"\xff" * 9 + b"\x01"),
    ],
)
def test_a_varint_is_encoded_and_read_back(value: int, encoded: bytes) -> None:
    assert varint(value) == encoded
    assert read_varint(memoryview(encoded), 0, len(encoded)) == (value & (1 << 64) - 1, len(encoded))


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"\x80" * 9, b"\xff" * 9 + b"\x02", b"\xff" * 10 + b"\x01", b"\x80" * 1000]
)
def test_a_varint_that_does_not_end_or_overflows_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptRecordError, match="does not end or is too large"):
        read_varint(memoryview(data), 0, len(data))


def test_fields_of_every_wire_type_are_read() -> None:
    message = b"\x08\x96\x01" + b"\x11" + bytes(8) + delimited(3, b"abc") + b"\x25" + bytes(4)
    assert list(fields(memoryview(message), Span(0, len(message)))) == [
        Field(1, 0, Span(1, 2), 150),
        Field(2, 1, Span(4, 8), 0),
        Field(3, 2, Span(14, 3), 0),
        Field(4, 5, Span(18, 4), 0),
    ]


BEYOND = "a field that reaches beyond its end"


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (b"\x0a\x05abc", BEYOND),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", BEYOND),  # a length of 2**64 - 1
        (b"\x11" + bytes(7), BEYOND),
        (b"\x25" + bytes(3), BEYOND),
        (b"\x0b", "the unknown wire type 3"),  # a group
        (b"\x0f", "the unknown wire type 7"),
        (b"\x00\x00", "a field with the number 0"),
        (b"\x08", "a number that does not end"),
    ],
)
def test_a_field_that_its_message_cannot_hold_is_refused(message: bytes, problem: str) -> None:
    with pytest.raises(CorruptRecordError, match=problem):
        list(fields(memoryview(message), Span(0, len(message))))


def test_a_message_within_a_buffer_does_not_reach_beyond_itself() -> None:
    data = memoryview(delimited(1, b"abc") + b"xyz")
    with pytest.raises(CorruptRecordError, match=BEYOND):
        list(fields(data, Span(0, 4)))
