"""The ``index.json`` of Mosaic's shards, which are whole: a set is read as its index says, or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from helpers.datasets import jpeg
from helpers.shards import shard
from mutations import as_text, mutate_document

import stoker
from stoker.formats.in_place.shards import index


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with an index of two shards; accepted if all images of both are indexed."""
    folder, target = scratch / "set", scratch / "target"
    folder.mkdir()
    entries = []
    for number in range(2):
        name = f"shard.{number:05}.mds"
        samples = [{"image": jpeg(3 * number + i), "label": i} for i in range(3)]
        data = shard({"image": "jpeg", "label": "int"}, samples)
        (folder / name).write_bytes(data)
        raw = {"basename": name, "bytes": len(data), "hashes": {}}
        entries.append(
            {
                "column_names": ["image", "label"],
                "column_encodings": ["jpeg", "int"],
                "column_sizes": [None, 8],
                "compression": None,
                "format": "mds",
                "hashes": [],
                "raw_data": raw,
                "samples": 3,
                "size_limit": 1 << 26,
                "version": 2,
                "zip_data": None,
            }
        )
    document = {"version": 2, "shards": entries}

    def attack(rng: np.random.Generator) -> bool:
        (folder / "index.json").write_bytes(as_text(mutate_document(document, rng), rng))
        for file in target.glob("*"):
            file.unlink()
        index([folder], target)
        dataset = stoker.open(target)
        assert [dataset.read(i) for i in range(len(dataset))] == [jpeg(i) for i in range(len(dataset))]
        return len(dataset) == 6

    return attack
