"""RecordIO files and MDS shards with damaged lengths, headers and values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from helpers.datasets import jpeg
from helpers.shards import MAGIC, image, shard, write_recordio
from mutations import mutate, pick
from targets.shards.records import has_image

from stoker.formats.containers.container import find_container

_OBJECTS = (4, 5, 16, 12, 0, 0.1, 0.1, 0.5, 0.5, 1, 0.2, 0.3, 0.9, 0.8)  # a detection label of MXNet


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with whole files; accepted if an image of one is found."""
    file = scratch / "x"
    values = [
        image(jpeg(0), 1, 0),
        image(MAGIC + jpeg(1) + MAGIC, [1, 2], 7),
        image(jpeg(2), _OBJECTS, 6),
        image(b"x" * 24 + MAGIC, 0, 8),
    ]
    samples = [{"image": jpeg(i), "label": i, "name": "näme", "score": 0.5, "st": i} for i in range(3)]
    columns = {"image": "jpeg", "label": "int", "name": "str", "score": "float32", "st": "str_int"}
    corpus = [("recordio", write_recordio(file, values).read_bytes()), ("mds", shard(columns, samples))]

    def attack(rng: np.random.Generator) -> bool:
        name, data = pick(corpus, rng)
        container = find_container(name)
        edited = mutate(data, rng, edits=3)
        file.write_bytes(edited)
        container.recognizes(lambda name, most: edited[:most])
        return sum(has_image(container, record, len(edited)) for record in container.scan(file)) > 0

    return attack
