"""Files in blocks of a cache: one file of four blocks, with a read-ahead over it; and several small files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from stoker.formats.remote.block_files import BlockFiles
from stoker.pipeline.caching.read_ahead import BatchReads, CacheReadAhead

BLOCKS = np.arange(4)
BLOCK = 4096
SIZES = [10_000, 0, 4096, 4097]


def block_files(folder: Path) -> BlockFiles:
    return BlockFiles(folder, ["data"], [4 * 4096], 4096)


def read_ahead_over(files: BlockFiles, requests: Any) -> CacheReadAhead:
    """A read-ahead whose only batch needs all blocks."""
    dataset = SimpleNamespace(limit=None, ranges=lambda rows: SimpleNamespace(shard=0, offset=0, length=0))
    source: Any = SimpleNamespace(
        dataset=dataset,
        files=SimpleNamespace(blocks=files, check=lambda ranges: None),
        requests=requests,
        last_use=np.zeros(4, np.int64),
    )
    files.covering = lambda *ranges: BLOCKS  # type: ignore[method-assign]  # all of them
    return CacheReadAhead(source, [BatchReads(np.arange(1))], ahead=1 << 20)


def make(folder: Path) -> BlockFiles:
    return BlockFiles(folder, [f"f{i}" for i in range(len(SIZES))], SIZES, BLOCK)


def array(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


class Reader:
    """Reads from ``contents`` and records the requests."""

    def __init__(self, contents: list[bytes]) -> None:
        self.contents = contents
        self.asked: list[tuple[int, int, int]] = []

    def __call__(self, file: int, start: int, stop: int) -> bytes:
        self.asked.append((file, start, stop))
        return self.contents[file][start:stop]
