"""Datasets of lines that all differ, and loaders of text that draw from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers.data.options import text_options
from helpers.data.words import WORDS
from helpers.loaders.flat import text_arguments

import stoker


def write(folder: Path, name: str, number: int, **options: Any) -> Path:
    """``number`` lines of 1 to 30 letters, all different."""
    lines = [
        "".join(chr(33 + (i * i + j + number) % 90) for j in range(1 + i * 7 % 30)) for i in range(number)
    ]
    (folder / f"{name}.txt").write_text("\n".join(lines))
    arguments = {"tokenizer": "bytes", "shards": 2, **options}
    stoker.convert_text(
        folder / f"{name}.txt", folder / name, **text_options({"tokenizer": WORDS, **arguments})
    )
    return folder / name


def load(dataset: Any, **options: Any) -> stoker.TextLoader:
    arguments: dict[str, Any] = {"seed": 7, "rank": 0, "world_size": 1, "columns": ("row",)}
    arguments |= {"buckets": 3} if options.get("pack") is None else {}
    arguments |= {"batch_size": 4} if "max_tokens" not in options else {}
    return stoker.TextLoader(dataset, **text_arguments(**{**arguments, **options}))


def rows(loader: stoker.TextLoader) -> list[int]:
    return [int(row) for batch in loader for row in batch.row]
