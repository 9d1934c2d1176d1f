"""Tests of objects as columns of the index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stoker.formats.dataset.annotations import (
    OBJECT_COLUMNS,
    Annotations,
    from_columns,
    to_columns,
)
from stoker.formats.dataset.columns import ListColumn, take_lists


def objects(rng: np.random.Generator, m: int) -> Annotations:
    """M objects of one sample, with all attributes that objects may have."""
    return Annotations(
        owner=np.zeros(m, np.int64),
        boxes=rng.random((m, 4), np.float32),
        labels=rng.integers(0, 9, m),
        crowd=rng.random(m) > 0.5,
        area=rng.random(m, np.float32),
        id=rng.integers(0, 99, m),
        keypoints=rng.random((m, 3, 3), np.float32),
        corners=rng.random((m, 4, 2), np.float32),
        polygons=[
            [rng.random((rng.integers(3, 6), 2), np.float32) for _ in range(rng.integers(0, 3))]
            for _ in range(m)
        ],
        runs=[rng.integers(0, 9, rng.integers(0, 4)).astype(np.uint32) for _ in range(m)],
        extra={"difficult": rng.integers(0, 2, m).astype(np.uint8)},
    )


def plain(value: Any) -> Any:
    """Return arrays as their type, shape and lists, which can be compared by ``==``."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tolist()
    if isinstance(value, list):
        return [plain(item) for item in value]
    return {name: plain(item) for name, item in value.items()} if isinstance(value, dict) else value


def same(first: Annotations, second: Annotations) -> bool:
    return bool(plain(vars(first)) == plain(vars(second)))


@pytest.fixture
def samples() -> list[Annotations]:
    rng = np.random.default_rng(0)
    return [objects(rng, m) for m in (2, 0, 3, 0, 1)]


def columns(samples: list[Annotations]) -> dict[str, ListColumn]:
    return {name: ListColumn.from_arrow(array) for name, array in to_columns(samples).items()}


def test_all_attributes_of_objects_are_read_back(samples: list[Annotations]) -> None:
    made = to_columns(samples)
    assert {name: array.type for name, array in made.items()} == {
        **OBJECT_COLUMNS,
        "object_difficult": pa.large_list(pa.uint8()),
    }
    read = from_columns(columns(samples), 5, keypoints=3)
    assert read.owner.tolist() == [0, 0, 2, 2, 2, 4]
    for one, other in zip(read.split(5), samples, strict=True):
        assert same(one, other)


def test_rows_are_taken_in_any_order_and_repeatedly(samples: list[Annotations]) -> None:
    rows = [4, 1, 2, 2]
    taken = {name: column.take(rows) for name, column in columns(samples).items()}
    read = from_columns(taken, 4, keypoints=3)
    for one, row in zip(read.split(4), rows, strict=True):
        assert same(one, samples[row])
    none = from_columns({name: column.take([]) for name, column in columns(samples).items()}, 0, keypoints=3)
    assert none.keypoints is not None
    assert (len(none), none.keypoints.shape) == (0, (0, 3, 3))
    assert len(from_columns({}, 3, keypoints=0)) == 0
    three = samples[2]
    assert same(three.take(np.array([True, False, True])), three.take([0, 2]))
    assert three.take([2]).polygons == [three.polygons[2]]  # type: ignore[index]  # there are some


def test_several_columns_are_taken_as_each_alone(samples: list[Annotations]) -> None:
    made = columns(samples)
    taken = take_lists(made, [4, 1, 2, 2])
    for name, column in taken.items():
        alone = [
            made[name].values[made[name].starts[row] : made[name].starts[row + 1]] for row in (4, 1, 2, 2)
        ]
        assert column.starts.tolist() == np.cumsum([0, *map(len, alone)]).tolist()
        assert column.values.tolist() == np.concatenate(alone).tolist()
    assert taken["object_area"].starts is taken["object_labels"].starts
    made["object_area"] = ListColumn(made["object_area"].starts, made["object_area"].values[:-1])
    with pytest.raises(ValueError, match="starts must be indices"):
        take_lists(made, [0, 4])


def test_an_object_without_area_and_id_has_that_of_its_box_and_its_index() -> None:
    made = {
        "object_boxes": ListColumn.of_counts(
            [4, 8], np.array([0, 0, 2, 3, 1, 1, 2, 2, 0, 0, 5, 5], np.float32)
        ),
        "object_labels": ListColumn.of_counts([1, 2], np.array([7, 8, 9])),
    }
    read = from_columns(made, 2, keypoints=0)
    assert read.area.tolist() == [6, 1, 25]
    assert read.id.tolist() == [0, 0, 1]
    assert (read.polygons, read.runs, read.keypoints) == (None, None, None)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("object_boxes", lambda column: ListColumn(column.starts + 4, column.values)),
        ("object_area", lambda column: ListColumn.of_counts([6, 0, 0, 0, 0], column.values)),
        ("object_keypoints", lambda column: ListColumn(column.starts // 3, column.values)),
        ("object_polygon_sizes", lambda column: ListColumn(column.starts, column.values + 1)),
        ("object_polygon_sizes", lambda column: ListColumn(column.starts, -column.values)),
        ("object_polygon_owner", lambda column: ListColumn(column.starts, column.values + 3)),
        ("object_polygon_owner", lambda column: ListColumn(column.starts, column.values - 3)),
        ("object_run_counts", lambda column: ListColumn(column.starts, column.values[::-1] - 1)),
        ("object_runs", lambda column: ListColumn(column.starts, column.values[:1])),
    ],
)
def test_columns_that_contradict_each_other_are_refused(
    samples: list[Annotations], name: str, change: Any
) -> None:
    made = columns(samples)
    made[name] = change(made[name])
    with pytest.raises(ValueError, match=r"object_|starts must be indices"):
        from_columns({name: column.take(range(5)) for name, column in made.items()}, 5, keypoints=3)
