"""Tests of reading the images in the rows of tables, by threads and in any order."""

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

from stoker.formats.sources import table_blocks as block_images
from stoker.formats.sources.listing import ListedBlocks
from stoker.formats.sources.source import Source
from stoker.formats.sources.table_blocks import BlockImages
from stoker.formats.sources.tables import list_table, opened_table


def written(images: list[bytes | None], file: Path, rows_of_block: int) -> ListedBlocks:
    """Write a table of images, and return the blocks and rows of its images."""
    pq.write_table(pa.table({"image": images}), file, row_group_size=rows_of_block)
    blocks = list_table(Source(file)).blocks
    assert blocks is not None
    return blocks


@pytest.mark.parametrize("folder", [None, "missing"], ids=["from the file", "from a temporary file"])
def test_images_are_read_in_any_order(pictures: list[bytes], tmp_path: Path, folder: str | None) -> None:
    blocks = written([*pictures[:4], None, *pictures[4:]], tmp_path / "a.parquet", 4)
    images = BlockImages(blocks, folder and str(tmp_path / folder), num_threads=1)
    rows = [7, 0, 4, 6, 3, 3]
    found = [images.read(0, int(blocks.block[row]), int(blocks.row[row])) for row in rows]
    assert found == [pictures[6], pictures[0], None, pictures[5], pictures[3], pictures[3]]


def test_blocks_that_threads_read_in_turn_are_opened_once(pictures: list[bytes], tmp_path: Path) -> None:
    images = BlockImages(written(pictures[:2] * 16, tmp_path / "a.parquet", 2), None, num_threads=8)
    assert [images.read(0, block, 0) for block in range(16)] == [pictures[0]] * 16
    (tmp_path / "a.parquet").unlink()
    assert [images.read(0, block, 1) for block in range(16)] == [pictures[1]] * 16


def test_a_block_may_be_closed_while_it_is_read(
    pictures: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = written(pictures[:2] * 4, tmp_path / "a.parquet", 1)
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

    # From outside, a test cannot see when a block is closed, and cannot make a read last until then.
    close = block_images._OpenBlock.close
    monkeypatch.setattr(block_images._OpenBlock, "close", note_and_close)
    monkeypatch.setattr(block_images, "opened_table", wait_and_open)
    images = BlockImages(blocks, None, num_threads=1)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(images.read, 0, 0, 0)
        assert reading.wait(60)
        others = pool.submit(lambda: [images.read(0, block, 0) for block in range(1, 8)])
        assert closing.wait(60), "they close the block of the first"
        go_on.set()
        assert [first.result(60), *others.result(60)] == pictures[:2] * 4
