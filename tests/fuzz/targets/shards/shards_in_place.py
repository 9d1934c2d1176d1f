"""RecordIO files and MDS shards with damaged lengths, headers and values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from helpers.datasets import jpeg
from helpers.shards import MAGIC, image, record, shard
from mutations import mutate, pick

from stoker.errors import DecodeError, SourceError
from stoker.formats.containers.container import Container, Record, find_container
from stoker.formats.containers.external import image_header
from stoker.formats.containers.image_record import FeatureNames


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with whole files; accepted if an image of one is found."""
    file = scratch / "x"
    values = [image(jpeg(0), 1, 0), image(MAGIC + jpeg(1) + MAGIC, [1, 2], 7), image(b"x" * 24 + MAGIC, 0, 8)]
    samples = [{"image": jpeg(i), "label": i, "name": "näme", "score": 0.5, "st": i} for i in range(3)]
    columns = {"image": "jpeg", "label": "int", "name": "str", "score": "float32", "st": "str_int"}
    corpus = [("recordio", b"".join(map(record, values))), ("mds", shard(columns, samples))]

    def attack(rng: np.random.Generator) -> bool:
        name, data = pick(corpus, rng)
        container = find_container(name)
        edited = mutate(data, rng, edits=3)
        file.write_bytes(edited)
        container.recognizes(lambda name, most: edited[:most])
        return sum(_is_image(container, scanned, len(edited)) for scanned in container.scan(file)) > 0

    return attack


def _is_image(container: Container, scanned: Record, size: int) -> bool:
    assert scanned.offset >= 0
    assert scanned.pieces > 1 or scanned.offset + scanned.length <= size
    try:
        sample = container.parse_image(scanned, container.feature_names or FeatureNames())
        header, _ = image_header(scanned, sample)
    except (DecodeError, SourceError):
        return False
    begin, length = sample.payload
    assert 0 <= begin <= begin + length <= scanned.length
    return min(header.height, header.width) > 0
