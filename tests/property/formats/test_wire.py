"""Messages of records with any values, and any bytes instead of a message."""

import struct
from contextlib import suppress

from hypothesis import example, given
from hypothesis import strategies as st

from stoker.errors import CorruptRecordError
from stoker.formats.containers.image_record import ImageRecord
from stoker.formats.containers.lmdb import parse_datum, wrap_image
from stoker.formats.containers.protobuf import (
    Span,
    delimited,
    encode_example,
    fields,
    parse_example,
    read_varint,
    varint,
)

INT64 = st.integers(-(2**63), 2**63 - 1)
FEATURES = st.dictionaries(
    st.text(max_size=20),
    st.one_of(
        st.binary(max_size=200),
        st.lists(INT64, max_size=20),
        st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=20),
    ),
    max_size=6,
)


@given(st.integers(0, 2**64 - 1), st.binary(max_size=3))
def test_a_varint_is_read_as_it_was_written(value: int, rest: bytes) -> None:
    data = varint(value) + rest
    assert read_varint(memoryview(data), 0, len(data)) == (value, len(data) - len(rest))


@given(FEATURES, st.text(max_size=20), st.binary(max_size=300))
def test_an_example_is_read_as_it_was_written(features: dict, name: str, payload: bytes) -> None:
    features.pop(name, None)
    prefix, suffix = encode_example(features, name, len(payload))
    message = prefix + payload + suffix
    parsed = parse_example(message)
    assert parsed.pop(name) == [Span(len(prefix), len(payload))]
    assert parsed.keys() == features.keys()
    for key, value in features.items():
        if isinstance(value, bytes):
            (span,) = parsed[key]
            assert message[span.offset : span.offset + span.length] == value
        else:
            assert parsed[key] == list(value)


@given(st.binary(max_size=300), st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), INT64)
def test_a_datum_is_read_as_it_was_written(payload: bytes, height: int, width: int, label: int) -> None:
    prefix, suffix = wrap_image(ImageRecord("", len(payload), "JPEG", height, width, labels=(label,)))
    datum = parse_datum(prefix + payload + suffix)
    assert datum.data == Span(len(prefix), len(payload))
    assert (datum.height, datum.width, datum.label, datum.encoded) == (height, width, label, True)


def assert_within(data: bytes, span: Span) -> None:
    assert 0 <= span.offset <= span.offset + span.length <= len(data)


# Bytes that look like messages reach deeper than bytes that look like nothing.
MESSAGES = st.recursive(
    st.binary(max_size=30),
    lambda inner: st.lists(
        st.one_of(
            st.builds(lambda n, v: varint(n << 3) + varint(v), st.integers(0, 7), st.integers(0, 2**64 - 1)),
            st.builds(delimited, st.integers(0, 7), inner),
            st.builds(delimited, st.integers(1, 3), inner, st.integers(0, 2**63)),
        ),
        max_size=4,
    ).map(b"".join),
    max_leaves=20,
)


@given(st.one_of(st.binary(max_size=100), MESSAGES))
@example(delimited(1, delimited(1, delimited(2, delimited(3, delimited(1, b"\xff" * 10))))))
@example(delimited(1, delimited(1, delimited(2, delimited(2, struct.pack("<Bf", 0x0D, 1.0))))))
def test_any_bytes_are_read_within_their_bounds_or_refused(data: bytes) -> None:
    with suppress(CorruptRecordError):
        for field in fields(memoryview(data), Span(0, len(data))):
            assert_within(data, field.span)
    with suppress(CorruptRecordError):
        for values in parse_example(data).values():
            for value in values:
                if isinstance(value, Span):
                    assert_within(data, value)
    with suppress(CorruptRecordError):
        datum = parse_datum(data)
        if datum.data is not None:
            assert_within(data, datum.data)
