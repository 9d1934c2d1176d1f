"""Every transform, and chains of them, on the native engine and on DALI against the reference.

Images are 64 x 64 PNG, so that all engines begin with the same pixels. The transforms and their tolerances
are those of :mod:`helpers.transforms`.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.dali import truth
from helpers.loaders import settings_of
from helpers.payloads import run_once
from helpers.transforms import AMPLIFIED, CASES, DALI_EQUALIZED, DALI_NEAREST, DALI_RESIZED, Case

from stoker import augment
from stoker.augment import ImageParams, Transform, compile_image
from stoker.errors import ConfigError
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.dataset.index import Samples
from stoker.formats.open import open as open_dataset
from stoker.pipeline.engines.base import ImageFormat, Status, Work
from stoker.pipeline.engines.registry import executes, make_engine

BYTES = ImageFormat("uint8", "NHWC")
WHOLE = augment.CenterCrop(64)
ENDING = augment.CenterCrop(56)


def draw(dataset: Dataset, transforms: Sequence[Transform], seed: int) -> tuple[Samples, ImageParams]:
    samples = dataset.samples(np.arange(len(dataset)))
    return samples, compile_image(transforms).draw(samples.height, samples.width, samples.row, seed, 0)


def expected_images(folder: Path, transforms: Sequence[Transform], seed: int = 3) -> Any:
    """(N, H, W, 3) float64, images of all samples from the reference."""
    dataset = open_dataset(folder)
    return truth(dataset, draw(dataset, transforms, seed)[1], BYTES).astype(np.float64)


def difference(folder: Path, transforms: Sequence[Transform], engine: str, seed: int = 3) -> Any:
    """(N, H, W, 3) float64, how far the images of an engine are from those of the reference."""
    dataset = open_dataset(folder)
    settings = settings_of(dataset, BYTES, batch_size=len(dataset), num_threads=2)
    result = run_once(make_engine(engine, settings), Work(*draw(dataset, transforms, seed)))
    assert (result.status == Status.OK).all()
    return np.abs(result.images - expected_images(folder, transforms, seed))


def complete(chosen: list[Transform]) -> list[Transform]:
    """The transforms on images of one size; a crop follows if they leave several sizes."""
    try:
        compile_image([WHOLE, *chosen])
    except ConfigError:
        return [WHOLE, *chosen, ENDING]
    return [WHOLE, *chosen]


def name_of(case: Case) -> str:
    return type(case.transform).__name__


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_transform_is_near_the_reference(squares: Path, case: Case, engine: str) -> None:
    transforms = complete([case.transform])
    allowed = case.native if engine == "native" else case.dali
    assert executes(engine, compile_image(transforms).needs) == (allowed is not None)
    if allowed is None:
        return
    levels = difference(squares, transforms, engine)
    assert levels.max() <= allowed[0]
    assert levels.mean() <= allowed[1]
    changed = not np.array_equal(expected_images(squares, transforms), expected_images(squares, [WHOLE]))
    assert changed != isinstance(case.transform, augment.Identity)


RESIZING = {case.transform for case in CASES if case.dali in (DALI_RESIZED, DALI_NEAREST)}
AMPLIFYING = {case.transform for case in CASES if case.dali in (AMPLIFIED, DALI_EQUALIZED)}


def draw_chain(seed: int, engine: str) -> list[Transform]:
    """Two to four transforms that can follow each other, as they are drawn, and that the engine executes."""
    choose, rows = random.Random(seed), np.arange(12)
    known = [case.transform for case in CASES]
    # They cannot follow every transform: images may be smaller than a crop, or warped.
    crops = (augment.RandomCrop, augment.CenterCrop, augment.Pad, augment.Letterbox)
    while True:
        chosen = choose.sample([t for t in known if not isinstance(t, crops)], choose.randint(2, 4))
        with contextlib.suppress(ConfigError):
            chain = complete(chosen)
            plan = compile_image(chain)
            plan.draw(np.full(12, 64), np.full(12, 64), rows, seed, 0)
            if executes(engine, plan.needs):
                return chain


@pytest.mark.parametrize("seed", range(24))
def test_a_chain_is_near_the_reference(squares: Path, seed: int, engine: str) -> None:
    chain = draw_chain(seed, engine)
    levels = difference(squares, chain, engine, seed)
    mean, most = (0.6, 1) if engine == "native" else (2, 4)
    if engine == "dali" and RESIZING.intersection(chain) and AMPLIFYING.intersection(chain):
        mean, most = 6, 20  # levels that DALI's resize has moved apart
    assert levels.mean() <= mean
    assert np.quantile(levels, 0.9) <= most


def test_a_batch_of_nearest_and_other_warps_is_near_the_reference(squares: Path, engine: str) -> None:
    turn = augment.RandomRotation((20, 20), "nearest", fill=90)
    either = augment.RandomChoice([turn, augment.RandomRotation((40, 40)), augment.RandomInvert(0)])
    levels = difference(squares, [augment.Resize((70, 60), "bicubic"), either], engine)
    assert levels.mean() <= (0.05 if engine == "native" else 0.5)
    assert np.quantile(levels, 0.99) <= (1 if engine == "native" else 3)


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_a_border_in_a_chain_is_near_the_reference(squares: Path, interpolation: str) -> None:
    crop = augment.RandomCrop((50, 44), padding=(9, 14), padding_mode="reflect")
    chain = [augment.RandomResizedCrop(40, interpolation="bicubic"), augment.RandomHorizontalFlip(), crop]
    chain += [augment.RandomVerticalFlip(), augment.ColorJitter(0.4, 0.4)]
    chain += [augment.RandomApply([augment.RandomPerspective(0.4, 1, interpolation)]), augment.CenterCrop(40)]
    levels = difference(squares, chain, "native")
    assert levels.max() <= (2 if interpolation == "nearest" else 3)
    assert levels.mean() <= 0.05
