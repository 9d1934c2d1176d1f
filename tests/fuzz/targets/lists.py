"""Lists of files and labels: CSV, TSV, JSON, JSON Lines and plain lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mutations import as_text, mutate, mutate_document, pick, replace_words
from targets.listings import IMAGES, write_images

from stoker.formats.sources.registry import find_format, list_source
from stoker.formats.sources.source import Source

_ROWS: list[Any] = [
    {"path": f"images/{IMAGES[0]}", "label": "cat", "score": 0.5, "caption": ["a", "b"]},
    {"path": f"images/{IMAGES[1]}", "label": "007", "score": 1 << 60, "caption": ["näme"]},
]
_TABLE = f'path,label,score\nimages/{IMAGES[0]},"cat; dog",0.5\nimages/{IMAGES[1]},007,-1\n'.encode()
_LINES = f"images/{IMAGES[0]} 0\nimages/{IMAGES[1]} 1\n".encode()
_WORDS = (b"path", b"label", b"images/", b",", b"cat; dog", b"007", b"0.5", b"\n", b'"')
_OTHERS = (
    b"../",
    b"/etc/",
    b";",
    b"\t",
    b"|",
    b"cat|dog",
    b"-1",
    b"1e3",
    b"nan",
    b"",
    b"\r\n",
    b"labels",
    b"\xef\xbb\xbf",
)


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with lists of two images; accepted if a sample is listed, which must be one of the two."""
    write_images(scratch / "images")
    images = {(scratch / "images" / name).resolve() for name in IMAGES}

    def attack(rng: np.random.Generator) -> bool:
        kind = pick((".csv", ".tsv", ".json", ".jsonl", ".txt"), rng)
        if kind == ".json":
            data = as_text(mutate_document(_ROWS, rng), rng)
        elif kind == ".jsonl":
            data = b"\n".join(as_text(mutate_document(row, rng), rng) for row in _ROWS)
        else:
            data = replace_words(_LINES if kind == ".txt" else _TABLE, _WORDS, _OTHERS, rng)
            data = data.replace(b",", b"\t") if kind == ".tsv" else data
        file = scratch / f"x{kind}"
        file.write_bytes(mutate(data, rng, edits=2) if rng.random() < 0.2 else data)
        source = Source(file)
        listing = list_source(source, find_format(source, "list"))
        keys = listing.keys.to_pylist()
        assert len(set(keys)) == len(keys)
        assert {(scratch / key).resolve() for key in keys} <= images
        assert len(set(listing.classes)) == len(listing.classes)
        if listing.classes and isinstance(listing.labels, np.ndarray):
            assert ((listing.labels >= 0) & (listing.labels < len(listing.classes))).all()
        for column in listing.columns.values():
            column.validate(full=True)
            assert len(column) == len(listing)
        return len(listing) > 0

    return attack
