"""A loader of text with a cache over HTTP: the same batches as a local one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker


@pytest.mark.parametrize("options", [{"batch_size": 4}, {"batch_size": 2, "pack": 40}])
def test_batches_of_text_are_those_of_a_local_dataset(
    tmp_path: Path, serve: Callable[[Path], Any], options: dict[str, Any]
) -> None:
    lines = ["".join(chr(33 + (i * i + j) % 90) for j in range(1 + i % 30)) for i in range(200)]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    stoker.convert_text(tmp_path / "text.txt", tmp_path / "text", tokenizer="bytes", shards=3, seed=1)
    server = serve(tmp_path / "text")
    options |= {"shuffle": True, "seed": 2}
    cached = {"cache": tmp_path / "cache", "cache_size": "30KB"}
    with (
        stoker.TextLoader(tmp_path / "text", **options) as local,
        stoker.TextLoader(server.url, **cached, **options) as remote,
    ):
        for _ in range(2):
            for here, there in zip(local, remote, strict=True):
                for expected, found in zip(here, there, strict=True):
                    np.testing.assert_array_equal(found, expected)
        assert remote.stats().producer["fetching"] > 0
