"""JSON read a window at a time: it gives the values of json.loads."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.errors import SourceError
from stoker.formats.sources import json_stream
from stoker.formats.sources.json_stream import stream_array, stream_object

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


def collected(path: Path, arrays: set[str], window: int = 1 << 22) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in stream_object(path, arrays, window):
        if name in arrays:
            members.setdefault(name, []).append(value)
        else:
            members[name] = value
    return members


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("json") / "x.json"


@given(
    st.dictionaries(st.sampled_from("abcde"), VALUES),
    st.sampled_from([1, 2, 3, 7, 1 << 22]),
    st.sampled_from([None, 1]),
    st.booleans(),
)
def test_streamed_values_are_those_of_json_loads(
    path: Path, document: dict[str, Any], window: int, indent: int | None, ascii_only: bool
) -> None:
    path.write_text(json.dumps(document, indent=indent, ensure_ascii=ascii_only), errors="surrogatepass")
    arrays = {name for name, value in document.items() if name in "ab" and isinstance(value, list)}
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        with pytest.raises(SourceError, match="not UTF-8"):
            collected(path, arrays, window)
        return
    expected = json.loads(text)
    for name in arrays:
        if not expected[name]:
            del expected[name]
    assert collected(path, arrays, window) == expected


@given(st.text('{}[],:"\\ae1.-+tn \n', max_size=30), st.sampled_from([1, 3, 1 << 22]))
def test_any_text_is_read_as_by_json_loads_or_refused(path: Path, text: str, window: int) -> None:
    path.write_text(text)
    try:
        expected = json.loads(text)
    except ValueError:
        expected = None
    if isinstance(expected, dict):
        assert collected(path, set(), window) == expected
    else:
        with pytest.raises(SourceError, match="not a JSON object"):
            collected(path, set(), window)
    if isinstance(expected, list):
        assert list(stream_array(path, window)) == expected
    else:
        with pytest.raises(SourceError, match="not a JSON array"):
            list(stream_array(path, window))


@given(st.lists(VALUES), st.sampled_from([1, 2, 7, 1 << 22]), st.sampled_from([None, 1]))
def test_an_array_is_that_of_json_loads(
    path: Path, values: list[Any], window: int, indent: int | None
) -> None:
    path.write_text(json.dumps(values, indent=indent))
    assert list(stream_array(path, window)) == json.loads(path.read_text())


def test_an_array_keeps_infinities(path: Path) -> None:
    path.write_text("[Infinity, -Infinity]")
    assert list(stream_array(path)) == [math.inf, -math.inf]


@pytest.mark.parametrize("window", [1, 2, 3, 4, 100])
@pytest.mark.parametrize("number", ["1.5e+7", "-0.25", "12345678901", "1E-2"])
def test_a_number_is_not_cut_by_the_window(path: Path, window: int, number: str) -> None:
    path.write_text(f'{{"a": [{number}, {number}], "b": {number}}}')
    assert collected(path, {"a"}, window) == {"a": [float(number)] * 2, "b": float(number)}


def test_a_byte_order_mark_and_numbers_that_are_no_json_are_read(path: Path) -> None:
    path.write_text('{"a": [NaN, Infinity, -Infinity]}', encoding="utf-8-sig")
    assert all(math.isnan(value) for value in collected(path, {"a"})["a"])


def test_an_error_names_the_character(path: Path) -> None:
    path.write_text('{"a": [' + "1, " * 100 + "x]}")
    with pytest.raises(SourceError, match="at character 307"):
        collected(path, {"a"}, 16)


def test_the_length_of_a_value_is_limited(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Callers cannot set the real limit, which is 256 Mi characters.
    monkeypatch.setattr(json_stream, "_LONGEST", 1000)
    path.write_text('{"a": "' + "x" * 5000 + '"}')
    with pytest.raises(SourceError, match="a value of more than 1000 characters"):
        collected(path, set(), 64)
    path.write_text('{"a": ' + "[" * 100_000)
    monkeypatch.undo()
    with pytest.raises(SourceError, match="not a JSON object"):
        collected(path, set())


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        collected(tmp_path / "nowhere", set())
    with pytest.raises(SourceError, match="cannot be read"):
        collected(tmp_path, set())
