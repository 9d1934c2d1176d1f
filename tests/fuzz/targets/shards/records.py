"""Records of other programs, tf.train.Example and Caffe's Datum, whose framing is intact."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from helpers.datasets import jpeg, wrap
from mutations import mutate, pick

from stoker.errors import StokerError
from stoker.formats.containers.container import Container, Record, find_container
from stoker.formats.containers.external import image_header
from stoker.formats.containers.image_record import FeatureNames, LeftOutError
from stoker.formats.containers.protobuf import Feature, encode_example

_ANNOTATIONS: dict[str, Feature] = {
    **{f"image/object/bbox/{side}": [0.25, 0.125] for side in ("xmin", "ymin")},
    **{f"image/object/bbox/{side}": [0.75, 0.5] for side in ("xmax", "ymax")},
    "image/object/class/label": [1, 2],
    "image/object/mask": [b"png", b"png"],
    "image/segmentation/class/encoded": b"png",
    "image/class/label": [2.0, 5.0, 1.0, 0.1, 0.2, 0.5, 0.6],
}


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with single records; accepted if there is an image in them."""
    payload = jpeg(0)
    corpus = [(name, payload.join(wrap(name, 0, len(payload)))) for name in ("tfrecord", "lmdb")]
    before, after = encode_example(_ANNOTATIONS, "image/encoded", len(payload))
    corpus.append(("tfrecord", before + payload + after))

    def attack(rng: np.random.Generator) -> bool:
        name, message = pick(corpus, rng)
        data = mutate(message, rng, edits=3)
        record = Record(0, b"key", 0, len(data), memoryview(data))
        return has_image(find_container(name), record, len(data))

    return attack


def has_image(container: Container, record: Record, size: int) -> bool:
    """Check the bounds of a record of a file of ``size`` bytes; return whether it has an image."""
    assert record.offset >= 0
    assert record.pieces > 1 or record.offset + record.length <= size
    try:
        sample = container.parse_image(record, container.feature_names or FeatureNames())
        header, _ = image_header(record, sample)
    except (StokerError, LeftOutError):
        return False
    begin, length = sample.payload
    assert 0 <= begin <= begin + length <= record.length
    return min(header.height, header.width) > 0
