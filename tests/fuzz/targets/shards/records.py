"""Records of other programs, tf.train.Example and Caffe's Datum, whose framing is intact."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from helpers.datasets import jpeg, wrap
from mutations import mutate, pick

from stoker.formats.containers.container import Record, find_container
from stoker.formats.containers.external import image_header
from stoker.formats.containers.image_record import FeatureNames

_NAMES = FeatureNames()


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with single records; accepted if there is an image in them."""
    payload = jpeg(0)
    corpus = [(name, payload.join(wrap(name, 0, len(payload)))) for name in ("tfrecord", "lmdb")]

    def attack(rng: np.random.Generator) -> bool:
        name, message = pick(corpus, rng)
        data = mutate(message, rng, edits=3)
        record = Record(0, b"key", 0, len(data), memoryview(data))
        sample = find_container(name).parse_image(record, _NAMES)
        header, _ = image_header(record, sample)
        begin, size = sample.payload
        assert 0 <= begin <= begin + size <= len(data)
        assert min(header.height, header.width) > 0
        return True

    return attack
