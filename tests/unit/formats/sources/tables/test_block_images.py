"""Tests of the images in the rows of tables, which threads read in any order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stoker.formats.sources.source import Source
from stoker.formats.sources.tables import block_images
from stoker.formats.sources.tables.block_images import BlockImages
from stoker.formats.sources.tables.table_files import opened_table
from stoker.formats.sources.tables.tables import list_table


def test_an_image_read_out_of_order_is_the_same(pictures: list[bytes], tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"image": [*pictures[:4], None, *pictures[4:]]}), tmp_path / "a.parquet", row_group_size=4
    )
    listing = list_table(Source(tmp_path / "a.parquet"))
    assert listing.blocks is not None
    for folder in (None, str(tmp_path / "missing")):
        images = BlockImages(listing.blocks, folder, num_threads=1)
        rows = [7, 0, 4, 6, 3, 3]
        found = [images.read(0, int(listing.blocks.block[row]), int(listing.blocks.row[row])) for row in rows]
        assert found == [pictures[6], pictures[0], None, pictures[5], pictures[3], pictures[3]]


def test_blocks_that_threads_read_in_turn_are_opened_once(pictures: list[bytes], tmp_path: Path) -> None:
    pq.write_table(pa.table({"image": pictures[:2] * 16}), tmp_path / "a.parquet", row_group_size=2)
    listing = list_table(Source(tmp_path / "a.parquet"))
    assert listing.blocks is not None
    images = BlockImages(listing.blocks, None, num_threads=8)
    assert [images.read(0, block, 0) for block in range(16)] == [pictures[0]] * 16
    (tmp_path / "a.parquet").unlink()
    assert [images.read(0, block, 1) for block in range(16)] == [pictures[1]] * 16


def test_a_block_that_is_closed_while_it_is_read_does_not_stop_the_conversion(
    pictures: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, closing, go_on = threading.Event(), threading.Event(), threading.Event()

    @contextmanager
    def wait_and_open(*arguments: Any) -> Iterator[Any]:
        if not reading.is_set():
            reading.set()
            go_on.wait(60)
        with opened_table(*arguments) as file:
            yield file

    def note_and_close(block: Any) -> None:
        closing.set()
        close(block)

    close = block_images._OpenBlock.close
    monkeypatch.setattr(block_images._OpenBlock, "close", note_and_close)
    monkeypatch.setattr(block_images, "opened_table", wait_and_open)
    pq.write_table(pa.table({"image": pictures[:2] * 4}), tmp_path / "a.parquet", row_group_size=1)
    listing = list_table(Source(tmp_path / "a.parquet"))
    assert listing.blocks is not None
    images = BlockImages(listing.blocks, None, num_threads=1)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(images.read, 0, 0, 0)
        assert reading.wait(60)
        others = pool.submit(lambda: [images.read(0, block, 0) for block in range(1, 8)])
        assert closing.wait(60), "they close the block of the first"
        go_on.set()
        assert [first.result(60), *others.result(60)] == pictures[:2] * 4
