"""The tables of all transforms and steps that the tests of engines run over, and a compiled step."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from helpers.loaders import image_arguments

import stoker
from stoker import augment
from stoker.augment import (
    BatchTransform,
    CenterCrop,
    ImageParams,
    RandomAffine,
    RandomHorizontalFlip,
    RandomPerspective,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
    Transform,
    compile_image,
    load_recipe,
    recipe_names,
    steps,
)
from stoker.augment.steps import BatchStep, Step
from stoker.augment.transforms.combining import Combining


@ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_uint8), ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_double)
)
def darken(rgb: Any, height: int, width: int, values: Any) -> None:
    """Multiply all levels by the first value; ctypes calls it as compiled code does."""
    for k in range(3 * height * width):
        rgb[k] = int(rgb[k] * values[0])


@dataclass(frozen=True)
class Upset(Step):
    """Turns images upside down, as a view with negative strides; other kinds do something else."""

    kind: str

    def apply(self, i: int, pixels: Any) -> Any:
        if self.kind == "raises" and i in {2, 5}:
            raise KeyError("no such lamp")
        if self.kind == "floats":
            return pixels * 0.5
        return pixels if self.kind == "same" else pixels[::-1]


@dataclass(frozen=True)
class RandomUpset(Transform):
    """Adds the step."""

    p: float = 0.5
    kind: str = "turns"

    draws: ClassVar[int] = 1

    def params(self, state: Any, u: Any) -> None:
        state.add_steps(Upset(u[:, 0] < self.p, self.kind))


def images(dataset: Path, transforms: list[Any], **options: Any) -> Any:
    given = {"batch_size": 16, "columns": ("image",), "num_threads": 3, **options}
    with stoker.ImageLoader(dataset, **image_arguments(transforms=transforms, **given)) as loader:
        assert loader.engine == options.get("engine", "native")
        return np.concatenate([batch.image for batch in loader])


def of_both_engines(dataset: Path, transforms: list[Any], **options: Any) -> tuple[Any, Any]:
    """The images of the native engine, and those of the reference."""
    native, reference = (
        images(dataset, transforms, engine=engine, **options) for engine in ("native", "reference")
    )
    return native, reference


@dataclass(frozen=True)
class UpsetTogether(BatchStep):
    """The same with one call for several images."""

    kind: str
    amount: Any

    def apply_batch(self, rows: Any, pixels: Any) -> Any:
        if self.kind == "raises" and {2, 5} & set(rows.tolist()):
            raise KeyError("no such lamp")
        if self.kind == "floats":
            return pixels * 0.5
        return pixels[:, ::-1] // 2 + self.amount[rows, None, None, None]


@dataclass(frozen=True)
class RandomUpsetTogether(Transform):
    """Adds the step."""

    p: float = 0.5
    kind: str = "turns"

    draws: ClassVar[int] = 2

    def params(self, state: Any, u: Any) -> None:
        state.add_steps(UpsetTogether(u[:, 0] < self.p, self.kind, (99 * u[:, 1]).astype(np.uint8)))


def assert_same_distribution(a, b):
    """Two-sample Kolmogorov-Smirnov; the bound is passed by chance once in a million."""
    a, b = np.sort(a), np.sort(b)
    points = np.concatenate((a, b))
    steps = [np.searchsorted(values, points, "right") / len(values) for values in (a, b)]
    distance = np.abs(steps[0] - steps[1]).max()
    assert distance < 2.7 * math.sqrt((len(a) + len(b)) / (len(a) * len(b)))


HEIGHT, WIDTH = 40, 70

CHAINS = {
    "as it is": [Resize((HEIGHT, WIDTH))],
    "smaller, one column": [Resize((17, 1))],
    "larger, flipped": [Resize((90, 129)), RandomHorizontalFlip(1.0), RandomVerticalFlip(1.0)],
    "crop, flip": [RandomResizedCrop((33, 64), scale=(0.05, 0.9)), RandomHorizontalFlip()],
    "padding": [CenterCrop((60, 65))],
    "crop, padding": [CenterCrop(20), CenterCrop((31, 128))],
    "quarter turn": [Resize((50, 50)), RandomRotation((90, 90))],
    "affine": [Resize((40, 50)), RandomAffine(180, (0.3, 0.3), (0.3, 2), 30)],
    "crop, perspective": [CenterCrop(30), RandomPerspective(0.6, 1)],
    "wild perspective": [Resize((30, 30)), RandomPerspective(1.0, 1)],
}
chains = pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)


def draw(chain: list[Any], n: int = 1, seed: int = 0) -> ImageParams:
    sizes = np.full(n, HEIGHT), np.full(n, WIDTH)
    return compile_image(chain).draw(*sizes, np.arange(n), seed, 0)


OF_ONE_SAMPLE = [
    name
    for name in recipe_names()
    if not any(isinstance(transform, BatchTransform | Combining) for transform in load_recipe(name))
]
"""Names of the recipes whose images show one sample each, without a mosaic or a mixture."""


class StepCase(NamedTuple):
    """A step, and how far the engines may be from the reference, in levels."""

    step: Step
    native: int
    dali: tuple[float, float] | None


WHERE = np.array([True, False, True])
N = len(WHERE)


def rows(values: Any, dtype: type) -> npt.NDArray[Any]:
    return np.tile(np.asarray(values, dtype), (N, *(1 for _ in np.shape(values))))


MIXING = rows([[0.513, 0.247, 0.25, -3], [0.1, 0.81, 0.1, 2.3], [-0.21, 0.32, 0.89, 1.7]], np.float32)
DIAGONAL = rows([[1.375, 0, 0, -20], [0, 0.75, 0, 5.5], [0, 0, 1.125, 0]], np.float32)
MEAN = rows(np.full((3, 3), -0.125), np.float32)
TURNED = rows([[0.9, 0.2, 3], [-0.1, 1.1, -5], [0, 0, 1]], np.float64)
TILTED = rows([[0.9, 0.2, 3], [-0.1, 1.1, -5], [0.003, -0.002, 1]], np.float64)
TABLE = np.random.default_rng(0).integers(0, 256, (N, 3, 256)).astype(np.uint8)
KEYS = np.array([3, 4, 2**60], np.uint64)
DEVIATIONS = np.array([40, 1, 300], np.float32)
STEP_CHAINS = (
    (steps.Posterize(WHERE, np.full(N, 3, np.uint8)), steps.Distort(~WHERE, TURNED, (0, 0, 0))),
    (steps.Equalize(np.ones(N, bool)), steps.Distort(WHERE, TURNED, (1, 2, 200))),
)

# C++ sums in float32 or 14 bits, the reference in float64: a few pixels differ at a tie.
STEP_CASES = {
    "affine": StepCase(steps.Affine(WHERE, MIXING, None), 1, (1, 0.003)),
    "affine by the mean": StepCase(steps.Affine(WHERE, MIXING, MEAN), 1, (1, 0.003)),
    "diagonal": StepCase(steps.Affine(WHERE, DIAGONAL, None), 0, (1, 0.003)),
    "contrast": StepCase(steps.Affine(WHERE, DIAGONAL, MEAN), 1, (1, 0.003)),
    "table": StepCase(steps.Table(WHERE, TABLE), 0, None),
    "posterize": StepCase(steps.Posterize(WHERE, np.array([3, 0, 0], np.uint8)), 0, (0, 0)),
    "posterize to 5 bits": StepCase(steps.Posterize(WHERE, np.array([5, 0, 8], np.uint8)), 0, (0, 0)),
    "solarize": StepCase(steps.Solarize(WHERE, np.array([100, 0, 256], np.int16)), 0, (0, 0)),
    "autocontrast": StepCase(steps.Autocontrast(WHERE), 0, (0, 0)),
    # DALI's result is already rounded when Pillow's formula is applied to it.
    "equalize": StepCase(steps.Equalize(WHERE), 0, (1, 0.3)),
    "smooth": StepCase(steps.Sharpen(WHERE, np.array([0, 1, 0.3], np.float32)), 0, (1, 0.001)),
    "sharpen": StepCase(steps.Sharpen(WHERE, np.array([1.9, 1, 23.1], np.float32)), 0, (1, 0.001)),
    "blur": StepCase(steps.Blur(WHERE, (5, 9), rows([1.3, 0.4], np.float32)), 1, (1, 0.01)),
    "wide blur": StepCase(steps.Blur(WHERE, (1, 201), rows([0.1, 30], np.float32)), 1, (1, 0.01)),
    "noise": StepCase(steps.AddNoise(WHERE, KEYS, rows(-2.3, np.float32), DEVIATIONS), 0, None),
    "displace": StepCase(steps.Displace(WHERE, KEYS, (70, 40), (3, 2.5), (1, 2, 200)), 0, None),
    "displace by nearest": StepCase(steps.Displace(WHERE, KEYS, (9, 9), (0, 9), (0, 0, 0), True), 0, None),
    "compiled": StepCase(steps.Compiled(WHERE, np.array([[0.5], [0], [0.3]]), darken), 0, None),
    "compress": StepCase(steps.Compress(WHERE, np.array([30, 1, 95], np.uint8)), 0, (0, 0)),
    # These maps shrink the image a little. The reference widens its filter there, and DALI does not.
    "distort": StepCase(steps.Distort(WHERE, TURNED, (1, 2, 200)), 1, (20, 0.3)),
    "projective": StepCase(steps.Distort(WHERE, TILTED, (1, 2, 200)), 1, (40, 0.3)),
    "weighted sum": StepCase(
        steps.WeightedSum(WHERE, rows([0.3, 0.5, 0.2], np.float32), STEP_CHAINS), 1, (4, 0.1)
    ),
}
"""All cases by name."""


class Case(NamedTuple):
    """A transform, and its largest and mean difference by engine; None where the engine refuses it."""

    transform: Transform
    native: tuple[float, float]
    dali: tuple[float, float] | None


EXACT = (0, 0)
ROUNDED = (1, 0.01)
# One level, except for one value in a million: each of the two passes may round differently.
RESIZED = (2, 0.05)
DALI_RESIZED = (6, 0.25)
# Where a centre falls between two pixels, DALI takes either.
DALI_NEAREST = (255, 1)
# A level's difference before an operation with a threshold.
AMPLIFIED = (255, 0.5)
DALI_EQUALIZED = (1, 0.3)
WARPED = (2, 0.1)
# Float32 may take the other pixel at an edge between two pixels, or at a horizon.
DALI_PICKED = (255, 0.05)
# Turned and shrunk images are resampled twice: DALI's warp has no antialiasing.
DALI_SHRUNK = (100, 1)

CASES = [
    Case(augment.Resize((48, 40)), RESIZED, DALI_RESIZED),
    Case(augment.CenterCrop(48), EXACT, EXACT),
    Case(augment.CenterCrop((80, 48), fill=90), EXACT, EXACT),
    Case(augment.Letterbox((40, 72)), RESIZED, DALI_RESIZED),
    Case(augment.RandomCrop(48, padding=8), EXACT, EXACT),
    Case(augment.RandomResizedCrop(40), RESIZED, DALI_RESIZED),
    Case(augment.RandomResizedCrop(40, interpolation="bicubic"), RESIZED, DALI_RESIZED),
    Case(augment.RandomResizedCrop(40, interpolation="lanczos"), RESIZED, DALI_RESIZED),
    Case(augment.RandomResizedCrop(40, interpolation="nearest"), EXACT, DALI_NEAREST),
    Case(augment.CoverCrop((24, 40)), RESIZED, DALI_RESIZED),
    Case(augment.CoverCrop(40, random=False), RESIZED, DALI_RESIZED),
    Case(augment.Pad(6, fill=(9, 80, 200)), EXACT, EXACT),
    Case(augment.Pad((6, 70, 3, 0), padding_mode="edge"), EXACT, None),
    Case(augment.Pad((6, 70, 3, 0), padding_mode="reflect"), EXACT, None),
    Case(augment.Pad(9, padding_mode="symmetric"), EXACT, None),
    Case(augment.RandomCrop(48, padding=16, padding_mode="reflect"), EXACT, None),
    Case(augment.RandomCrop(90, pad_if_needed=True, padding_mode="symmetric"), EXACT, None),
    Case(augment.RandomHorizontalFlip(), EXACT, EXACT),
    Case(augment.RandomVerticalFlip(), EXACT, EXACT),
    Case(augment.RandomRotation(40), WARPED, WARPED),
    Case(augment.RandomRotation(40, "nearest"), EXACT, DALI_PICKED),
    Case(augment.RandomRotation(40, expand=True), WARPED, WARPED),
    Case(augment.RandomAffine(30, (0.2, 0.2), (0.6, 1.5), 20, "nearest"), EXACT, DALI_PICKED),
    Case(augment.RandomPerspective(0.5, p=0.8, interpolation="nearest"), EXACT, DALI_PICKED),
    Case(augment.RandomAffine(30, (0.2, 0.2), (0.6, 1.5), 20), WARPED, DALI_SHRUNK),
    Case(augment.RandomAffine(30, scale=(1, 2), fill=(9, 80, 200), center=(10, 50)), WARPED, WARPED),
    Case(augment.RandomPerspective(0.5, p=0.8), WARPED, DALI_SHRUNK),
    Case(augment.ColorJitter(0.4, 0.4, 0.4, 0.1), ROUNDED, ROUNDED),
    Case(augment.Identity(), EXACT, EXACT),
    Case(augment.Grayscale(3), ROUNDED, ROUNDED),
    Case(augment.RandomGrayscale(0.5), ROUNDED, ROUNDED),
    Case(augment.RandomChannelPermutation(), EXACT, EXACT),
    Case(augment.RandomPhotometricDistort(p=0.8), ROUNDED, ROUNDED),
    Case(augment.GaussianBlur(5), ROUNDED, (1, 0.02)),
    Case(augment.GaussianNoise(0.02, 0.05), EXACT, None),
    Case(augment.ElasticTransform(60.0, 4.0, fill=(9, 80, 200)), EXACT, None),
    Case(augment.ElasticTransform((90.0, 40.0), (3.0, 0.0), "nearest"), EXACT, None),
    Case(augment.JPEG((10, 90)), EXACT, EXACT),
    Case(augment.RandomInvert(), EXACT, EXACT),
    Case(augment.RandomPosterize(3), EXACT, EXACT),
    Case(augment.RandomSolarize(128), EXACT, EXACT),
    Case(augment.RandomAdjustSharpness(2.5), ROUNDED, ROUNDED),
    Case(augment.RandomAutocontrast(), EXACT, EXACT),
    Case(augment.RandomEqualize(), EXACT, DALI_EQUALIZED),
    Case(augment.RandAugment(), AMPLIFIED, AMPLIFIED),
    Case(augment.TrivialAugmentWide(), AMPLIFIED, AMPLIFIED),
    Case(augment.AutoAugment(), AMPLIFIED, AMPLIFIED),
    Case(augment.AugMix(), (8, 0.3), AMPLIFIED),
    Case(augment.RandAugment(interpolation="nearest"), AMPLIFIED, AMPLIFIED),
    Case(augment.TrivialAugmentWide(interpolation="nearest"), AMPLIFIED, AMPLIFIED),
    Case(augment.AutoAugment(interpolation="nearest"), AMPLIFIED, AMPLIFIED),
    Case(augment.AugMix(interpolation="nearest"), (8, 0.3), AMPLIFIED),
    Case(augment.RandomErasing(0.7), EXACT, EXACT),
    Case(augment.RandomErasing(0.7, value="random"), EXACT, None),
    Case(augment.RandomApply([augment.ColorJitter(0.4), augment.RandomRotation(30)]), WARPED, WARPED),
    Case(augment.RandomChoice([augment.RandomSolarize(90, p=1), augment.GaussianBlur(3)]), ROUNDED, ROUNDED),
    Case(
        augment.RandomOrder([augment.ColorJitter(0.4), augment.RandomSolarize(90, p=1)]), AMPLIFIED, AMPLIFIED
    ),
    Case(augment.RandomOrder([augment.RandomRotation(30), augment.RandomVerticalFlip()]), WARPED, WARPED),
    Case(augment.RandomZoomOut(side_range=(1.0, 2.0)), RESIZED, DALI_RESIZED),
    Case(augment.ObjectCrop((40, 32), scale=0.35, degrees=40, fill=90), WARPED, None),
    Case(augment.ScaleJitter((64, 64)), RESIZED, DALI_RESIZED),
    Case(augment.RandomShortestSize([32, 48, 64]), RESIZED, DALI_RESIZED),
    Case(augment.RandomResize(32, 80), RESIZED, DALI_RESIZED),
]
