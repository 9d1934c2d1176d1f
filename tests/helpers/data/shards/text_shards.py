"""A small dataset of text, and loaders of it, for the tests of text loaders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from helpers.loaders.flat import text_arguments

import stoker

N = 97


def write_shards(folder: Path) -> Path:
    """97 samples of two fields of bytes; sample i has 1 + i % 30 and 1 + i % 7 tokens, all different."""
    for name, period in (("q", 30), ("a", 7)):
        lines = ["".join(chr(33 + (i * i + j) % 90) for j in range(1 + i % period)) for i in range(N)]
        (folder / f"t.{name}").write_text("\n".join(lines))
    files = [folder / "t.q", folder / "t.a"]
    stoker.convert_text(
        files, folder / "d", parallel=True, tokenizer="bytes", seed=1, storage=stoker.Storage(shards=3)
    )
    return folder / "d"


def read_sequences(shards: Path) -> dict[int, tuple[list[int], list[int]]]:
    """Token ids of both fields by row, read sample by sample."""
    dataset = stoker.open(shards)
    lengths = dataset.column("q_length")
    found = {}
    for row in range(len(dataset)):
        shard, offset, size = (int(dataset.column(name)[row]) for name in ("shard", "offset", "length"))
        data = dataset.data_files[shard].read_bytes()[offset : offset + size]
        ids = np.frombuffer(data, "<u2").tolist()
        found[row] = (ids[: lengths[row]], ids[lengths[row] :])
    return found


def make(shards: Path, **options: Any) -> stoker.TextLoader:
    arguments: dict[str, Any] = {"shuffle": True, "seed": 7, "rank": 0, "world_size": 1, "fields": ("q",)}
    arguments |= {"batch_size": 8} if "max_tokens" not in options else {}
    return stoker.TextLoader(shards, **text_arguments(**{**arguments, **options}))


def same(first: Any, second: Any) -> bool:
    return len(first) == len(second) and all(
        np.array_equal(x, y) for a, b in zip(first, second, strict=True) for x, y in zip(a, b, strict=True)
    )
