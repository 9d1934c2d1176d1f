"""Every transform, and chains of them, on the native engine and on DALI against the reference.

Images are 64 x 64 PNG, so that all engines begin with the same pixels. The tolerances are the largest
and the mean difference in levels; where an operation has a threshold, or the same level on both sides of
a rounding, a difference of one level before it may become a large one behind it, in few pixels.
"""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from helpers.pillow_decoding import decode_with_pillow

from stoker import augment
from stoker.augment import compile_image
from stoker.augment.reference import reference
from stoker.errors import ConfigError
from stoker.formats.open import open as open_dataset
from stoker.pipeline.engines.base import EngineSettings, ImageFormat, Status, Work
from stoker.pipeline.engines.registry import make_engine
from stoker.pipeline.engines.selection import devices
from stoker.pipeline.engines.selection.execution import executes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stoker.augment import Transform
    from stoker.formats.dataset.dataset import Dataset

BYTES = ImageFormat("uint8", "NHWC")


class Case(NamedTuple):
    """A transform, and what is allowed: the largest and the mean difference by engine, None if it refuses."""

    transform: Transform
    native: tuple[float, float]
    dali: tuple[float, float] | None


EXACT = (0, 0)
ROUNDED = (1, 0.01)
# One level, but for one value in a million: each of the two passes rounds, and both may round otherwise.
RESIZED = (2, 0.05)
DALI_RESIZED = (6, 0.25)
# Where a centre falls between two pixels, DALI takes either.
DALI_NEAREST = (255, 1)
# A level's difference before an operation with a threshold.
AMPLIFIED = (255, 0.5)
WARPED = (2, 0.1)
# Places on an edge between two pixels, or a horizon, in float32.
DALI_PICKED = (255, 0.05)
# What turns and shrinks is resampled twice: DALI's warp has no antialiasing.
DALI_SHRUNK = (100, 1)

CASES = [
    Case(augment.Resize((48, 40)), RESIZED, DALI_RESIZED),
    Case(augment.CenterCrop(48), EXACT, EXACT),
    Case(augment.RandomCrop(48, padding=8), EXACT, EXACT),
    Case(augment.RandomResizedCrop(40), RESIZED, DALI_RESIZED),
    Case(augment.RandomResizedCrop(40, interpolation="bicubic"), RESIZED, DALI_RESIZED),
    Case(augment.RandomResizedCrop(40, interpolation="lanczos"), RESIZED, DALI_RESIZED),
    Case(augment.RandomResizedCrop(40, interpolation="nearest"), EXACT, DALI_NEAREST),
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
    Case(augment.RandomGrayscale(0.5), ROUNDED, ROUNDED),
    Case(augment.RandomPhotometricDistort(p=0.8), ROUNDED, ROUNDED),
    Case(augment.GaussianBlur(5), ROUNDED, (1, 0.02)),
    Case(augment.RandomInvert(), EXACT, EXACT),
    Case(augment.RandomPosterize(3), EXACT, EXACT),
    Case(augment.RandomSolarize(128), EXACT, EXACT),
    Case(augment.RandomAdjustSharpness(2.5), ROUNDED, ROUNDED),
    Case(augment.RandomAutocontrast(), EXACT, EXACT),
    Case(augment.RandomEqualize(), EXACT, (1, 0.3)),
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
    Case(augment.RandomZoomOut(side_range=(1.0, 2.0)), RESIZED, DALI_RESIZED),
    Case(augment.ScaleJitter((64, 64)), RESIZED, DALI_RESIZED),
    Case(augment.RandomShortestSize([32, 48, 64]), RESIZED, DALI_RESIZED),
    Case(augment.RandomResize(32, 80), RESIZED, DALI_RESIZED),
]
WHOLE = augment.CenterCrop(64)
ENDING = augment.CenterCrop(56)
# Transforms without a case: RandomIoUCrop needs objects; Normalize and ToDtype change only the output's form.
ELSEWHERE = {"RandomIoUCrop", "Normalize", "ToDtype"}


def images(dataset: Dataset, transforms: Sequence[Transform], engine: str, seed: int = 3) -> Any:
    """(N, H, W, 3) float64: what the engine makes of all samples; "truth" for the reference."""
    samples = dataset.samples(np.arange(len(dataset)))
    params = compile_image(transforms).draw(samples.height, samples.width, samples.row, seed, 0)
    if engine == "truth":
        pixels = [decode_with_pillow(dataset.read(i)) for i in range(len(dataset))]
        return (
            np.stack([reference.execute(params, i, p, "uint8", "NHWC") for i, p in enumerate(pixels)]) * 1.0
        )
    made = make_engine(
        engine,
        EngineSettings(
            [str(file) for file in dataset.data_files],
            dataset.data_sizes,
            BYTES,
            device="cpu",
            batch_size=len(dataset),
            num_threads=2,
            depth=2,
            max_pixels=10**8,
        ),
    )
    made.submit(Work(samples, params))
    result = made.collect()
    assert (result.status == Status.OK).all()
    found = np.array(result.images, np.float64)
    made.close()
    return found


def complete(chosen: list[Transform]) -> list[Transform]:
    """The same on images of one size; those that leave several sizes are brought to one."""
    try:
        compile_image([WHOLE, *chosen])
    except ConfigError:
        return [WHOLE, *chosen, ENDING]
    return [WHOLE, *chosen]


def name_of(case: Case) -> str:
    return type(case.transform).__name__


def runs_here(engine: str) -> bool:
    return engine == "native" or devices.has_dali()


@pytest.mark.parametrize("case", CASES, ids=name_of)
@pytest.mark.parametrize("engine", ["native", "dali"])
def test_a_transform_is_near_the_reference(squares: Path, case: Case, engine: str) -> None:
    if not runs_here(engine):
        pytest.skip("DALI is not installed")
    transforms = complete([case.transform])
    allowed = case.native if engine == "native" else case.dali
    assert executes(engine, compile_image(transforms).needs) == (allowed is not None)
    if allowed is None:
        return
    true = images(open_dataset(squares), transforms, "truth")
    difference = np.abs(images(open_dataset(squares), transforms, engine) - true)
    assert difference.max() <= allowed[0]
    assert difference.mean() <= allowed[1]
    assert not np.array_equal(true, images(open_dataset(squares), [WHOLE], "truth"))


def draw_chain(seed: int, engine: str) -> list[Transform]:
    """Two to four transforms that can follow each other, as they are drawn, and that the engine executes."""
    choose, rows = random.Random(seed), np.arange(12)
    known = [case.transform for case in CASES]
    crops = (augment.RandomCrop, augment.CenterCrop, augment.Pad)  # of what may be smaller, or be warped
    while True:
        chosen = choose.sample([t for t in known if not isinstance(t, crops)], choose.randint(2, 4))
        with contextlib.suppress(ConfigError):
            chain = complete(chosen)
            plan = compile_image(chain)
            plan.draw(np.full(12, 64), np.full(12, 64), rows, seed, 0)
            if executes(engine, plan.needs):
                return chain


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("engine", ["native", "dali"])
def test_a_chain_is_near_the_reference(squares: Path, seed: int, engine: str) -> None:
    if not runs_here(engine):
        pytest.skip("DALI is not installed")
    chain = draw_chain(seed, engine)
    difference = np.abs(
        images(open_dataset(squares), chain, engine, seed)
        - images(open_dataset(squares), chain, "truth", seed)
    )
    assert difference.mean() <= (0.6 if engine == "native" else 2)
    assert np.quantile(difference, 0.9) <= (1 if engine == "native" else 4)


@pytest.mark.parametrize("engine", ["native", "dali"])
def test_nearest_and_other_warps_share_a_batch(squares: Path, engine: str) -> None:
    if not runs_here(engine):
        pytest.skip("DALI is not installed")
    turn = augment.RandomRotation((20, 20), "nearest", fill=90)
    either = augment.RandomChoice([turn, augment.RandomRotation((40, 40)), augment.RandomInvert(0)])
    chain = [augment.Resize((70, 60), "bicubic"), either]
    true = images(open_dataset(squares), chain, "truth")
    difference = np.abs(images(open_dataset(squares), chain, engine) - true)
    assert difference.mean() <= (0.05 if engine == "native" else 0.5)
    assert np.quantile(difference, 0.99) <= (1 if engine == "native" else 3)


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_a_border_in_a_chain_is_near_the_reference(squares: Path, interpolation: str) -> None:
    crop = augment.RandomCrop((50, 44), padding=(9, 14), padding_mode="reflect")
    chain = [augment.RandomResizedCrop(40, interpolation="bicubic"), augment.RandomHorizontalFlip(), crop]
    chain += [augment.RandomVerticalFlip(), augment.ColorJitter(0.4, 0.4)]
    chain += [augment.RandomApply([augment.RandomPerspective(0.4, 1, interpolation)]), augment.CenterCrop(40)]
    true = images(open_dataset(squares), chain, "truth")
    difference = np.abs(images(open_dataset(squares), chain, "native") - true)
    assert difference.max() <= (2 if interpolation == "nearest" else 3)
    assert difference.mean() <= 0.05


def test_no_transform_is_left_out() -> None:
    public = {getattr(augment, name) for name in augment.__all__} - {augment.Transform}
    transforms = {
        value for value in public if isinstance(value, type) and issubclass(value, augment.Transform)
    }
    assert {name_of(case) for case in CASES} | ELSEWHERE == {transform.__name__ for transform in transforms}
