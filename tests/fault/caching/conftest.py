"""Small blocks, so that small files have many."""

import pytest

from stoker.formats.caching.block_files import BlockFiles


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a block 4096 bytes where a test names no other size."""
    monkeypatch.setattr(BlockFiles.__init__, "__defaults__", (4096,))
