"""Manifests: a damaged one is refused, or means the same when it is written and read again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from helpers.datasets import build, jpeg
from mutations import as_text, mutate_document

import stoker
from stoker.formats.dataset.manifest import MANIFEST_NAME, Manifest


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with the manifest of a dataset of six images; accepted if the dataset opens."""
    folder = build(scratch / "dataset", "tfrecord", [jpeg(seed) for seed in range(6)], 2)
    path = folder / MANIFEST_NAME
    document = json.loads(path.read_text())
    document["annotations"] = {
        "keypoints": ["left", "right"],
        "swap": [1, 0],
        "skeleton": [[0, 1]],
        "ignore": 255,
        "mask_classes": ["sky"],
    }

    def attack(rng: np.random.Generator) -> bool:
        path.write_bytes(as_text(mutate_document(document, rng), rng))
        manifest = Manifest.load(folder)
        assert Manifest.from_json(manifest.to_json()) == manifest
        dataset = stoker.open(folder)
        assert len(dataset) == manifest.index.rows == 6
        assert len(dataset.fingerprint) == 32
        assert dataset.read(5) == jpeg(5)
        stoker.verify(folder, num_threads=1)
        return True

    return attack
