"""The reference against torchvision's own pixels, operation by operation.

They are in tests/data/torchvision-pixels.npz, made by the script beside it, with bilinear interpolation.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stoker.augment import CenterCrop, GaussianBlur, RandAugment, RandomAdjustSharpness, compile_image
from stoker.augment.reference import execute
from stoker.augment.transforms.operations import Kind, Operations

THEIRS = np.load(Path(__file__).parents[1] / "data" / "torchvision-pixels.npz")
PIXELS = THEIRS["pixels"]
HEIGHT, WIDTH = PIXELS.shape[:2]


class One(RandAugment):
    """One operation that is given."""

    def __init__(self, kind, magnitude):
        super().__init__(1)
        object.__setattr__(self, "operation", (kind, magnitude))

    def decide(self, frame, u):
        kind, magnitude = (np.array([[one]]) for one in self.operation)
        Operations(kind, magnitude, False, (tuple(Kind),)).compose(frame)


def transform(name):
    kind, *numbers = name.split()
    values = list(map(float, numbers))
    if kind == "sharpness":
        return RandomAdjustSharpness(values[0], 1)
    if kind == "blur":
        return GaussianBlur((int(values[0]), int(values[1])), values[2])
    return One(Kind[kind], 255 * values[0] if kind == "Solarize" else values[0])


def tolerance(name):
    """Levels: torchvision truncates where colours are rounded here, and does not widen a shear's filter."""
    if name.startswith("Shear"):
        return 2 if abs(float(name.split()[1])) <= 0.1 else 9
    return 0 if name.split()[0] in ("Posterize", "Solarize", "Equalize", "Invert", "TranslateX") else 1


@pytest.mark.parametrize("name", sorted(set(THEIRS) - {"pixels"}))
def test_pixels_are_torchvisions(name):
    plan = compile_image([CenterCrop((HEIGHT, WIDTH)), transform(name)])
    params = plan.draw(np.array([HEIGHT]), np.array([WIDTH]), np.array([0]), 0, 0)
    output = execute(params, 0, PIXELS, "uint8", "NHWC").astype(int)
    assert np.abs(output - THEIRS[name]).max() <= tolerance(name)
