"""Tests of the columns of a list: their types, labels and memory."""

from __future__ import annotations

import json
import math
import tracemalloc
from typing import Any

import numpy as np
import pytest

from stoker.formats.sources.columns import EntryColumns


def gathered(entries: list[dict[str, Any]], *, cells: bool) -> EntryColumns:
    columns = EntryColumns(cells=cells)
    assert list(columns.gather(entries)) == [entry["path"] for entry in entries]
    return columns


@pytest.mark.parametrize(
    ("cells", "values", "kind", "expected"),
    [
        (True, ["1", " -2", "+03"], "int64", [1, -2, 3]),
        (True, ["1", "2.5", "1e3"], "double", [1.0, 2.5, 1000.0]),
        (True, ["1", "9" * 20, "3"], "double", [1.0, 1e20, 3.0]),
        (True, ["1", "1_0", "2"], "large_string", ["1", "1_0", "2"]),
        (True, ["1", "", "2"], "large_string", ["1", "", "2"]),
        (True, ["Leica", "", "1"], "large_string", ["Leica", "", "1"]),
        (False, [1, -2, 1 << 62], "int64", [1, -2, 1 << 62]),
        (False, [1, 1 << 63, 2], "double", [1.0, 2.0**63, 2.0]),
        (False, [1, 0.1, math.inf], "double", [1.0, 0.1, math.inf]),
        (False, ["1", "2", "3"], "large_string", ["1", "2", "3"]),
        (False, [1, "2", 3.0], "large_string", ["1", "2", "3.0"]),
        (False, [None, True, {"b": [1], "a": "é"}], "large_string", ["", "true", '{"a": "é", "b": [1]}']),
        (False, [None, None, None], "large_string", ["", "", ""]),
        (False, ["\ud800", "a", ""], "large_string", ["\\ud800", "a", ""]),
    ],
    ids=str,
)
def test_the_values_decide_the_type_of_a_column(
    cells: bool, values: list[Any], kind: str, expected: list[Any]
) -> None:
    entries = [{"path": "p", "label": "a", "x": value} for value in values]
    column = gathered(entries, cells=cells).others(np.array([2, 0, 1]))["x"]
    assert str(column.type) == kind
    assert column.to_pylist() == [expected[2], expected[0], expected[1]]


def test_a_missing_value_is_nan_or_an_empty_text() -> None:
    given = [{}, {"x": 5}, {}, {"x": 7, "y": "z"}]
    columns = gathered([{"path": "p", "label": 1, **more} for more in given], cells=False)
    others = columns.others(np.arange(4))
    assert list(others) == ["x", "y"]
    np.testing.assert_array_equal(others["x"].to_numpy(), [np.nan, 5, np.nan, 7])
    assert others["y"].to_pylist() == ["", "", "", "z"]


def test_all_entries_decide_the_type_and_the_taken_ones_the_classes() -> None:
    labels: list[Any] = ["b", ["c", "a"], "d"]
    columns = gathered([{"path": "p", "label": label} for label in labels], cells=False)
    found, classes = columns.labels(np.array([2, 0]))
    assert (found.to_pylist(), classes) == ([[1], [0]], ("b", "d"))
    assert columns.labels(np.array([1]))[0].to_pylist() == [[1, 0]]


@pytest.mark.parametrize(
    ("cells", "labels"), [(False, [1, "a"]), (False, [[1], ["a"]]), (True, ["0.5", "1"])]
)
def test_labels_that_are_neither_integers_nor_names_are_refused(cells: bool, labels: list[Any]) -> None:
    columns = gathered([{"path": "p", "label": label} for label in labels], cells=cells)
    with pytest.raises(ValueError, match="labels are numbers"):
        columns.labels(np.array([0]))


def test_labels_of_too_many_digits_are_names() -> None:
    columns = gathered([{"path": "p", "label": label} for label in ("9" * 30, "8")], cells=True)
    assert columns.labels(np.arange(2))[1] == ("8", "9" * 30)


def test_a_column_takes_little_more_memory_than_its_values() -> None:
    def entries(number: int) -> Any:
        for i in range(number):
            yield json.loads(f'{{"path": "p", "label": "class-{i % 10}", "x": {i}, "y": {i / 7}}}')

    tracemalloc.start()
    try:
        columns = EntryColumns(cells=False)
        for _ in columns.gather(entries(4_000)):
            pass
        # Three columns, of 7, 5 and 17 bytes a value; an entry as an object has 500.
        assert tracemalloc.get_traced_memory()[0] / 4_000 < 120
    finally:
        tracemalloc.stop()
