"""Four cached blocks of one file, and a read-ahead over them, for tests of how fetching ends."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from stoker.formats.caching.block_files import BlockFiles
from stoker.pipeline.caching.cache_read_ahead import CacheReadAhead
from stoker.pipeline.caching.planned_reads import BatchReads

BLOCKS = np.arange(4)


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
