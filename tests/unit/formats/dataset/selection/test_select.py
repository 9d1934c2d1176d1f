"""Tests of conditions on columns, in words and of PyArrow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import stoker
from stoker.errors import ConfigError, StaleIndexError
from stoker.formats.dataset.index import Index
from stoker.formats.dataset.index_writing import write_index
from stoker.formats.dataset.selection.select import matching

N = 40
KEYS = [f"{'train' if i % 3 else 'val'}/photo {i}" for i in range(N)]
LABELS = np.arange(N) % 7
HEIGHTS = (np.arange(N) * 37 % 300 + 1).astype(np.int32)
WIDTHS = np.full(N, 2_000_000_000, np.int32)
SCORES = np.arange(N) / N


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    path = tmp_path_factory.mktemp("index") / "index.arrow"
    zeros = dict.fromkeys(("shard", "record", "offset", "length", "crc"), np.zeros(N, np.int64))
    further = {
        "label": LABELS,
        "height": HEIGHTS,
        "width": WIDTHS,
        "score": SCORES,
        "byte": LABELS.astype(np.uint8),
    }
    tags = pa.array([[1] * (i % 3) for i in range(N)], pa.large_list(pa.int64()))
    write_index(path, {**zeros, "key": KEYS, **further, "tags": tags})
    return Index.open(path)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("label < 3", LABELS < 3),
        ("label <= 3 and height > 100", (LABELS <= 3) & (HEIGHTS > 100)),
        ("label == 1 or label == 2 and height != 38", (LABELS == 1) | (LABELS == 2) & (HEIGHTS != 38)),
        ("not label >= 2", LABELS < 2),
        ("2 < label < 5", (LABELS > 2) & (LABELS < 5)),
        ("label in (1, 3)", np.isin(LABELS, [1, 3])),
        ("label not in {1, -3}", LABELS != 1),
        ("-label < -4", LABELS > 4),
        ("-byte < -4", LABELS > 4),
        ("score > 0.25", SCORES > 0.25),
        ("width / height > 1.5e8", WIDTHS / HEIGHTS > 1.5e8),
        ("(label + 1) / 2 - 1 == 0.5", LABELS == 2),
        ("width * height > 1e11", WIDTHS * HEIGHTS.astype(float) > 1e11),
        ('key == "val/photo 0"', np.arange(N) == 0),
        ('key.startswith("val/")', np.arange(N) % 3 == 0),
        ("key.endswith('1') or '12' in key", np.isin(np.arange(N), [1, 11, 12, 21, 31])),
        ('"val" not in key', np.arange(N) % 3 > 0),
        ("key in ['val/photo 0', 'val/photo 3']", np.isin(np.arange(N), [0, 3])),
        ("\n  label == 1  ", LABELS == 1),
        ("True", np.ones(N, bool)),
    ],
)
def test_a_condition_in_words_chooses_rows(index: Index, words: str, expected: Any) -> None:
    assert expected.any()
    assert matching(index, words).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (pc.field("label") < 3, LABELS < 3),
        (pc.starts_with(pc.field("key"), "val"), np.arange(N) % 3 == 0),
        (pc.list_value_length(pc.field("tags")) == 2, np.arange(N) % 3 == 2),
    ],
)
def test_an_expression_of_pyarrow_chooses_rows(index: Index, expression: Any, expected: Any) -> None:
    assert matching(index, expression).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("labl < 3", r"cannot be used: No match for FieldRef.Name\(labl\)"),
        (pc.field("labl") < 3, "No match for"),
        ("label < 'x'", "no kernel matching"),
        ("key < 3", "no kernel matching"),
        ("label in ('x',)", "cannot be used"),
        ("label", "is no condition but int64"),
        (pc.field("key"), "is no condition but large_string"),
        ([1, "x"], "cannot be used"),
        ([None], "cannot be used"),
    ],
)
def test_a_condition_that_does_not_fit_lists_the_columns(index: Index, condition: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        matching(index, condition)
    assert "label (int64), height (int32)" in str(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "label <",
        "label < 3; label",
        "label = 3",
        "label is 3",
        "label == None",
        "label % 2 == 0",
        "label ** 2 == 4",
        "label << 1 == 4",
        "label < 3j",
        "label in key",
        "label in (height,)",
        "label in {1: 2}",
        "(label, height)",
        "label if height else key",
        "(lambda: label)()",
        "(label := 3)",
        "[x for x in label]",
        "__import__('os').system('true')",
        "key.__class__",
        "key.upper() == 'A'",
        "key.startswith('a', 1)",
        "key.startswith('a', end=1)",
        "key.startswith(prefix='a')",
        "key.startswith(key)",
        "key.startswith(1)",
        "key.startswith(*key)",
        "label < 99999999999999999999999999",
        "label in (99999999999999999999999999,)",
        "label < 3 \0",
        "not " * 20_000 + "True",
        "-" * 20_000 + "1 < 2",
    ],
)
def test_syntax_that_no_condition_has_is_refused(index: Index, words: str) -> None:
    with pytest.raises(ConfigError, match="condition"):
        matching(index, words)


def test_a_damaged_column_of_texts_is_found_before_it_is_read(index: Index) -> None:
    starts = np.full(N + 1, 3)
    starts[:2] = 0, 2**40  # opening an index looks at the first and the last alone
    key = pa.Array.from_buffers(pa.large_string(), N, [None, pa.py_buffer(starts), pa.py_buffer(b"abc")])
    columns = [key if name == "key" else index.arrow(name) for name in index.types]
    damaged = Index(pa.record_batch(columns, schema=index.schema), index.path)
    with pytest.raises(StaleIndexError, match="'key' is damaged") as caught:
        matching(damaged, 'key == "a"')
    assert caught.value.path == str(index.path)
    assert matching(damaged, "label < 3").sum() == (LABELS < 3).sum()


def test_a_condition_chooses_from_a_selection(make_dataset: Callable[..., Path]) -> None:
    dataset = stoker.open(make_dataset())
    chosen = dataset.select([5, 3, 3, 0]).select("label == 0")
    assert chosen.rows.tolist() == [3, 3, 0]
    assert dataset.select("label == 0").fingerprint == dataset.select(dataset.labels == 0).fingerprint
    assert dataset.select(pc.field("label") > 0).rows.tolist() == [1, 2, 4, 5]
    assert len(dataset.select("label > 7")) == 0


def test_a_condition_joins_positions_and_counts_objects(
    pack_images: Callable[..., Path], make_jpeg: Any
) -> None:
    objects = pa.array([[0, 2], [], [1]], pa.large_list(pa.int64()))
    dataset = stoker.open(pack_images([make_jpeg(i) for i in range(3)], object_labels=objects))
    assert dataset.select(where="num_objects > 0").rows.tolist() == [0, 2]
    assert dataset.select([2, 1, 0], where="num_objects != 1 and key != 'k0'").rows.tolist() == [1]
    with pytest.raises(ConfigError, match="where must be a condition"):
        dataset.select(where=[True, False, True])  # type: ignore[arg-type]


class TestClassNames:
    """A selection names classes, which have numbers in the index and names in the manifest."""

    def test_classes_are_chosen_by_their_names(self, make_dataset: Callable[..., Path]) -> None:
        dataset = stoker.open(make_dataset())
        assert dataset.classes == ("cat", "dog", "eel")
        chosen = dataset.select(classes=["eel", "cat"])
        assert [chosen.classes[label] for label in chosen.labels] == ["cat", "eel", "cat", "eel"]
        assert dataset.select(classes="dog").labels.tolist() == [1, 1]
        assert dataset.select("height > 0", classes=["dog"]).keys([0, 1]) == ["k1", "k4"]
        assert dataset.select([5, 4, 4, 0], classes=["dog", "eel"]).rows.tolist() == [5, 4, 4]
        assert dataset.select([0, 1, 5]).select(classes=["eel"]).keys([0]) == ["k5"]

    def test_one_of_several_labels_is_enough(self, pack_images: Callable[..., Path], make_jpeg: Any) -> None:
        labels = pa.array([[0, 2], [], [1]], pa.large_list(pa.int64()))
        dataset = stoker.open(pack_images([make_jpeg(i) for i in range(3)], label=labels))
        assert dataset.select(classes=["eel"]).rows.tolist() == [0]
        assert dataset.select(classes=["dog", "cat"]).rows.tolist() == [0, 2]

    @pytest.mark.parametrize(
        ("which", "hint"),
        [
            ("class == 'cat'", "select(classes=['cat'])"),
            ("label == 'cat'", "select(classes=['cat'])"),
            ('label in ("cat", "dog")', "select(classes=['cat', 'dog'])"),
            ("width >= 9 and class != 'eel'", "select(classes=['eel'])"),
            ("class == 1", "classes="),
        ],
    )
    def test_a_name_in_a_condition_is_answered_with_classes(
        self, make_dataset: Callable[..., Path], which: str, hint: str
    ) -> None:
        with pytest.raises(ConfigError) as caught:
            stoker.open(make_dataset()).select(which)
        assert hint in str(caught.value.hint)

    def test_an_unknown_class_is_refused_with_a_similar_one(self, make_dataset: Callable[..., Path]) -> None:
        with pytest.raises(ConfigError, match="no class 'dgo'") as caught:
            stoker.open(make_dataset()).select(classes=["cat", "dgo"])
        assert "dog" in str(caught.value.hint)

    def test_a_number_of_a_class_is_refused(self, make_dataset: Callable[..., Path]) -> None:
        with pytest.raises(ConfigError, match="names of classes, found 1"):
            stoker.open(make_dataset()).select(classes=[1])  # type: ignore[list-item]


def test_a_selection_of_nothing_in_particular_is_refused(make_dataset: Callable[..., Path]) -> None:
    with pytest.raises(ConfigError, match="needs a condition, positions, a mask or classes"):
        stoker.open(make_dataset()).select()
