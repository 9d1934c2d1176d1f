"""Tests of the files of a source as columns: their order and their memory."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
from helpers.datasets import plan_images
from hypothesis import given
from hypothesis import strategies as st

from stoker.formats.conversion.options import ConvertOptions
from stoker.formats.sources.class_folder import list_folder
from stoker.formats.sources.columns import EntryColumns
from stoker.formats.sources.image_files import FileEntry, FileTable, walk_folder
from stoker.formats.sources.source import Source

NAMES = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6))


@given(NAMES)
def test_files_are_sorted_as_python_sorts_their_names(names: list[str]) -> None:
    table = FileTable()
    for number, name in enumerate(names):
        table.add(name, number, -number)
    files, moved = table.sorted("root")
    order = np.arange(len(names))[moved]
    assert len(files) == len(names)
    assert files.keys.to_pylist() == list(files.names()) == sorted(names)
    assert order.tolist() == sorted(range(len(names)), key=lambda i: (names[i], i))
    assert files.sizes.tolist() == order.tolist()
    assert files.modified.tolist() == (-order).tolist()
    assert files.keys.buffers()[0] is None


def test_a_walk_finds_files_in_the_order_of_their_keys(tmp_path: Path) -> None:
    names = ["a.jpg", "a/b.jpg", "a/b/c.jpg", "a0/x.jpg", "ab.jpg", "b/0.jpg"]
    for name in reversed(names):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = walk_folder(str(tmp_path), follow_links=True)
    assert [one.key for one in found if isinstance(one, FileEntry)] == sorted(names)


def test_memory_of_a_plan_is_a_few_times_that_of_the_names(
    tmp_path: Path, make_jpeg: Callable[..., bytes]
) -> None:
    """A file takes 138 bytes, with 31 of its name; lists of Python objects would take 305."""
    image = make_jpeg(0)
    _peak(tmp_path / "first", 100, image)  # so that imports are not counted
    few, many = (_peak(tmp_path / str(number), number, image) for number in (2_000, 10_000))
    assert (many - few) / 8_000 < 220


def _peak(root: Path, files: int, image: bytes) -> int:
    """Return the most memory that the listing and the plan of some files take."""
    for number in range(files):
        path = root / f"class-{number % 10}" / f"photograph-{number:08d}.jpg"
        if number < 10:
            path.parent.mkdir(parents=True)
            path.write_bytes(image)
        else:
            os.link(root / f"class-{number % 10}" / f"photograph-{number % 10:08d}.jpg", path)
    tracemalloc.start()
    try:
        listing = list_folder(Source(root))
        plan_images(listing, ConvertOptions(shards=4, seed=1, val=Fraction(1, 10)))
        return tracemalloc.get_traced_memory()[1] + int(listing.keys.nbytes)
    finally:
        tracemalloc.stop()


def test_a_column_of_a_list_takes_little_more_memory_than_its_values() -> None:
    tracemalloc.start()
    try:
        columns = EntryColumns(cells=False)
        for i in range(4_000):
            columns.add({"path": "p", "label": f"class-{i % 10}", "x": i, "y": i / 7})
        # Three columns, of 7, 5 and 17 bytes a value; an entry as an object has 500.
        assert tracemalloc.get_traced_memory()[0] / 4_000 < 120
    finally:
        tracemalloc.stop()
