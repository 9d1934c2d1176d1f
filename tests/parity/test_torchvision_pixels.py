"""The reference against the pixels of torchvision, operation by operation.

tests/data/torchvision-pixels.npz holds these pixels; the script beside it has made them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from stoker import augment
from stoker.augment.reference import execute
from stoker.augment.transforms.policies import Kind, Operations

TORCHVISION = np.load(Path(__file__).parents[1] / "data" / "torchvision-pixels.npz")
PIXELS = TORCHVISION["pixels"]
HEIGHT, WIDTH = PIXELS.shape[:2]


@dataclass(frozen=True, init=False)
class SingleOperation(augment.RandAugment):
    """A policy that always applies the same operation."""

    operation: tuple[Kind, float] = (Kind.Identity, 0.0)

    def __init__(self, kind, magnitude, interpolation):
        super().__init__(1, interpolation=interpolation)
        self.set("operation", (kind, magnitude))

    def params(self, state, u):
        kind, magnitude = (np.array([[value]]) for value in self.operation)
        Operations(kind, magnitude, False, (tuple(Kind),)).compose(state, self.interpolation)


def transform(name):
    """The transform that does what ``name`` says; see the script."""
    interpolation = "nearest" if name.endswith(" nearest") else "bilinear"
    kind, *numbers = name.removesuffix(" nearest").split()
    if kind == "resize":
        return augment.Resize((int(numbers[1]), int(numbers[2])), numbers[0])
    if kind == "pad":
        return augment.Pad(list(map(int, numbers[1:])), padding_mode=numbers[0])
    values = list(map(float, numbers))
    if kind == "elastic":
        return augment.ElasticTransform(values[:2], values[2], interpolation)
    if kind == "noise":
        return augment.GaussianNoise(*values[:2])
    if kind == "jpeg":
        return augment.JPEG(int(values[0]))
    if kind == "sharpness":
        return augment.RandomAdjustSharpness(values[0], 1)
    if kind == "blur":
        return augment.GaussianBlur((int(values[0]), int(values[1])), values[2])
    if kind == "expand":
        return augment.RandomRotation((values[0],) * 2, interpolation, expand=True)
    if kind == "rotation":
        fill = list(map(int, values[3:]))
        return augment.RandomRotation((values[0],) * 2, interpolation, center=values[1:3], fill=fill)
    if kind == "affine":
        degrees, scale, x, y = values[:4]
        center, fill = values[4:6], list(map(int, values[6:]))
        return augment.RandomAffine(
            (degrees,) * 2, None, (scale,) * 2, (x, x, y, y), interpolation, fill, center
        )
    magnitude = 255 * values[0] if kind == "Solarize" else values[0]
    return SingleOperation(Kind[kind], magnitude, interpolation)


def tolerance(name):
    """The tolerance in levels: torchvision truncates colours, and does not widen the filter of a shear."""
    if name.endswith("nearest"):
        return 0
    if name.startswith("Shear"):
        return 2 if abs(float(name.split()[1])) <= 0.1 else 9
    if name.startswith(("resize nearest", "pad")):
        return 0
    return (
        0 if name.split()[0] in ("Posterize", "Solarize", "Equalize", "Invert", "TranslateX", "jpeg") else 1
    )


OPERATIONS = sorted(name for name in set(TORCHVISION) - {"pixels"} if not name.startswith("order"))


@pytest.mark.parametrize("name", OPERATIONS)
def test_pixels_are_those_of_torchvision(name):
    size = TORCHVISION[name].shape[:2]
    # An expanded image is whole only if it has the size of torchvision's.
    cut = [augment.CenterCrop(size)] if name.startswith("expand") else []
    plan = augment.compile_image([augment.CenterCrop((HEIGHT, WIDTH)), transform(name), *cut])
    params = plan.draw(np.array([HEIGHT]), np.array([WIDTH]), np.array([0]), 0, 0)
    if name.startswith(("elastic", "noise")):
        key = np.array([name.removesuffix(" nearest").split()[-1]], np.uint64)
        params = replace(params, steps=tuple(replace(step, keys=key) for step in params.steps))
    image = execute(params, 0, PIXELS, "uint8", "NHWC")
    assert image.shape == TORCHVISION[name].shape
    difference = image.astype(int) - TORCHVISION[name]
    if params.fill.any() and not name.endswith("nearest"):
        # At the image's edge torchvision weighs the image twice: it would be darker without any fill.
        seen = execute(replace(params, fill=0 * params.fill), 0, np.full_like(PIXELS, 255), "uint8", "NHWC")
        assert (seen == 0).any()
        difference = difference[(seen == 0) | (seen == 255)]
        assert difference.size > 0.8 * PIXELS.size
    assert np.abs(difference).max() <= tolerance(name)


def test_random_order_makes_the_images_of_every_order_of_torchvision():
    mixed = augment.RandomOrder(
        [augment.RandomSolarize(128, 1), augment.RandomPosterize(2, 1), augment.RandomInvert(1)]
    )
    n = 64
    params = augment.compile_image([augment.CenterCrop((HEIGHT, WIDTH)), mixed]).draw(
        np.full(n, HEIGHT), np.full(n, WIDTH), np.arange(n), 0, 0
    )
    found = {execute(params, i, PIXELS, "uint8", "NHWC").tobytes() for i in range(n)}
    expected = {TORCHVISION[name].tobytes() for name in TORCHVISION if name.startswith("order")}
    assert len(expected) > 3
    assert found == expected
