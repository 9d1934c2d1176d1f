"""Tests of the wire format of protocol buffers."""

from __future__ import annotations

import pytest

from stoker.errors import CorruptRecordError
from stoker.formats.containers.image_record import ImageRecord
from stoker.formats.containers.lmdb import Datum, parse_datum
from stoker.formats.containers.lmdb import wrap_image as wrap_datum
from stoker.formats.containers.protobuf import (
    FIXED64,
    Field,
    Span,
    delimited,
    encode_example,
    fields,
    parse_example,
    read_varint,
    varint,
)
from stoker.formats.containers.tfrecord import wrap_image


def test_a_varint_has_the_bytes_of_the_format() -> None:
    assert varint(150) == b"\x96\x01"  # the guide's own example
    assert varint(-1) == varint((1 << 64) - 1) == b"\xff" * 9 + b"\x01"


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
    for data in (message, message + b"xyz"):  # also within a larger buffer
        with pytest.raises(CorruptRecordError, match=problem):
            list(fields(memoryview(data), Span(0, len(message))))


def test_a_small_example_has_the_bytes_of_the_format() -> None:
    # Example{features{feature{key:"a" value{int64_list{value:[1, 300]}}}}}, packed.
    prefix, suffix = encode_example({"a": [1, 300]})
    assert prefix == b"\x0a\x0e\x0a\x0c\x0a\x01a\x12\x07\x1a\x05\x0a\x03\x01\xac\x02"
    assert suffix == b""
    entry = delimited(1, b"none") + delimited(2, b"")
    assert encode_example({"none": []}) == (delimited(1, delimited(1, entry)), b"")
    assert encode_example({"a": [1], "b": b"x"}) == encode_example({"b": b"x", "a": [1]})


def test_the_features_of_an_image_have_the_names_of_imagenet_in_sorted_order() -> None:
    image = ImageRecord("c/ä.jpg", 1000, "JPEG", 7, 9, labels=(5,), classes=tuple("abcdef"))
    prefix, suffix = wrap_image(image)
    parsed = parse_example(prefix + bytes(1000) + suffix)
    assert parsed.pop("image/encoded") == [Span(len(prefix), 1000)]
    assert {name: value for name, value in parsed.items() if isinstance(value[0], int)} == {
        "image/channels": [3],
        "image/class/label": [5],
        "image/height": [7],
        "image/width": [9],
    }
    assert sorted(parsed) == list(parsed)
    assert "image/orientation" not in parsed
    turned = parse_example(b"".join(wrap_image(ImageRecord("k", 0, "JPEG", 7, 9, orientation=6))))
    assert (turned["image/orientation"], "image/class/label" in turned) == ([6], False)


def test_unpacked_integers_and_floats_are_read() -> None:
    integers = delimited(3, b"\x08\x01\x08" + varint(-2))
    floats = delimited(2, b"\x0d" + b"\x00\x00\x80\x3f")
    entries = [delimited(1, delimited(1, n) + delimited(2, v)) for n, v in ((b"i", integers), (b"f", floats))]
    assert parse_example(delimited(1, b"".join(entries))) == {"i": [1, -2], "f": [1.0]}


def unknown_fields(*numbers: int) -> bytes:
    """Return fields of these numbers, with a wire type that no message has for them."""
    return b"".join(varint(number << 3 | FIXED64) + b"\x08\x01\x08\x01\x08\x01\x08\x01" for number in numbers)


def test_unknown_fields_and_wire_types_of_an_example_are_ignored() -> None:
    further = delimited(9, b"\x08\x01")
    lists = {b"b": (1, b"\x0a\x01x"), b"f": (2, b"\x0d\x00\x00\x80\x3f"), b"i": (3, b"\x08\x01")}
    one, two, three = (unknown_fields(*range(1, most + 1)) for most in (1, 2, 3))
    entries = b""
    for name, (field, values) in lists.items():
        feature = three + delimited(field, one + values + further) + further + three
        entry = two + delimited(1, name) + delimited(2, feature) + further + two
        entries += one + delimited(1, entry) + further
    message = one + delimited(1, entries) + further
    span = Span(message.index(b"\x0a\x01x") + 2, 1)
    assert parse_example(message) == {"b": [span], "f": [1.0], "i": [1]}


def test_unknown_fields_of_a_datum_are_ignored() -> None:
    further = delimited(9, b"\x08\x01")
    prefix, suffix = wrap_datum(ImageRecord("", 3, "JPEG", 7, 9, labels=(5,)))
    unknown = unknown_fields(*range(1, 6), 7) + further
    expected = parse_datum(prefix + b"abc" + suffix)._replace(data=Span(len(unknown) + len(prefix), 3))
    assert parse_datum(unknown + prefix + b"abc" + suffix + b"\x20\x01" + unknown) == expected


def test_the_last_of_two_features_with_one_name_counts() -> None:
    first, second = (encode_example({"a": [value]})[0] for value in (1, 2))
    assert parse_example(first + second) == {"a": [2]}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (delimited(1, b"\xff"), "not UTF-8"),
        (delimited(1, b"f") + delimited(2, delimited(2, delimited(1, b"abc"))), "ends within a float"),
    ],
)
def test_a_damaged_feature_is_refused(entry: bytes, message: str) -> None:
    with pytest.raises(CorruptRecordError, match=message):
        parse_example(delimited(1, delimited(1, entry)))


def test_a_feature_of_another_type_is_an_error() -> None:
    with pytest.raises(TypeError, match="'x' must be bytes"):
        encode_example({"x": [1, 2.5]})


def test_a_datum_has_the_bytes_of_the_format_and_is_read_back() -> None:
    prefix, suffix = wrap_datum(ImageRecord("", 3, "JPEG", 7, 300, labels=(5,)))
    data = prefix + b"abc" + suffix
    assert data == b"\x08\x03\x10\x07\x18\xac\x02\x22\x03abc\x28\x05\x38\x01"
    assert parse_datum(data) == Datum(3, 7, 300, 5, encoded=True, data=Span(len(prefix), 3), floats=False)
    # Label 0 is written as well; a mask is field 1000.
    _, suffix = wrap_datum(ImageRecord("", 3, "JPEG", 7, 300, labels=(0,), mask=b"m"))
    assert suffix == b"\x28\x00\x38\x01\xc2\x3e\x01m"
    # Caffe writes floats one by one; packed ones are allowed.
    assert parse_datum(b"\x35" + bytes(4)).floats
    assert parse_datum(delimited(6, bytes(8))).floats
