"""YOLO: ``data.yaml``, ``classes.txt`` and files of labels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mutations import as_text, mutate, mutate_document, pick
from targets.listings import check_listing, list_as, write_images

_DOCUMENT: dict[str, Any] = {
    "path": ".",
    "train": "images",
    "nc": 3,
    "names": {"0": "cat", "1": "no", "2": "dog"},
    "kpt_shape": [2, 3],
    "flip_idx": [1, 0],
}
_YAML = b"""# a comment
path: &root ../coco8
names:
  0: cat
  1: no
  2: 'dog'
anchors: [*root, {a: !!str 1}]
kpt_shape: [2, 3]  # K, and numbers of each
flip_idx:
- 1
- 0
"""
_NESTED = (b"- ", b"? ", b"[", b"{a: ", b"&a [*a, ")
_TURNED = b"""0 0.1 0.1 0.4 0.2 0.3 0.5 0.05 0.4
1 320 240 64 48
1 0.5 0.5 0.25 0.25 0.9
0 0.5 0.5 0.25 0.25 0.4 0.4 0.6 0.6
"""
_LABELS = b"""0 0.5 0.5 0.25 0.25 0.4 0.4 2 0.6 0.6 1
1 0.5 0.5 0.25 0.25
2 0.1 0.1 0.9 0.1 0.5 0.9
"""


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with a folder of two images; accepted if it can be listed and has an object."""
    write_images(scratch / "images")
    (scratch / "labels").mkdir()
    (scratch / "labels" / "b.txt").write_bytes(_LABELS)

    def attack(rng: np.random.Generator) -> bool:
        damaged = int(rng.integers(0, 3))
        text = _YAML if rng.random() < 0.5 else as_text(mutate_document(_DOCUMENT, rng), rng)
        if rng.random() < 0.05:
            text = pick(_NESTED, rng) * int(rng.integers(1, 1 << 17))
        (scratch / "data.yaml").write_bytes(mutate(text, rng) if damaged == 0 else text)
        labels = _LABELS if rng.random() < 0.7 else _TURNED
        labels = mutate(labels, rng) if damaged else labels
        (scratch / "labels" / "a.txt").write_bytes(labels)
        listing = list_as("yolo", scratch / "data.yaml" if rng.random() < 0.2 else scratch)
        try:
            lines = len({_values(line) for line in labels.decode("utf-8-sig").splitlines() if line.strip()})
        except UnicodeDecodeError:
            lines = 0
        return check_listing(listing, "line ", 3 + lines)

    return attack


def _values(line: str) -> tuple[object, ...]:
    """Return what a line says: equal lines are one object."""
    try:
        return tuple(map(float, line.split()))
    except ValueError:
        return (line,)
