"""A loader of text with a cache over HTTP: the same batches as a local one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.loaders import text_arguments

import stoker


@pytest.mark.parametrize("options", [{"batch_size": 4}, {"batch_size": 2, "pack": 40}])
def test_batches_of_text_are_those_of_a_local_dataset(
    text: Path, tmp_path: Path, serve: Callable[[Path], Any], options: dict[str, Any]
) -> None:
    server = serve(text)
    options = {"shuffle": True, "seed": 2, **options}
    with (
        stoker.TextLoader(text, **text_arguments(**options)) as local,
        stoker.TextLoader(
            server.url, **text_arguments(cache=tmp_path, cache_size="30KB", **options)
        ) as remote,
    ):
        for _ in range(2):
            for here, there in zip(local, remote, strict=True):
                for expected, found in zip(here, there, strict=True):
                    np.testing.assert_array_equal(found, expected)
        assert remote.stats().producer["fetching"] > 0
