"""Steps, warps, means and erased boxes: DALI on the CPU against the reference.

Images are as large as the output, so that what differs is the operation and not the resampling before
it. Each case states the largest difference of a level and the mean one.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.loaders import settings_of
from helpers.payloads import run_once
from helpers.transforms import STEP_CASES

from stoker.augment import (
    CenterCrop,
    ColorJitter,
    Normalize,
    Pad,
    RandomAffine,
    RandomApply,
    RandomErasing,
    RandomHorizontalFlip,
    RandomPerspective,
    RandomPhotometricDistort,
    RandomResizedCrop,
    RandomRotation,
    Resize,
    compile_image,
    steps,
)
from stoker.errors import ConfigError
from stoker.formats.open import open as open_dataset
from stoker.pipeline.engines.base import ImageFormat, Status, Work

pytest.importorskip("nvidia.dali")

from helpers.dali import truth

from stoker.augment.params import ImageParams
from stoker.formats.dataset.dataset import Dataset
from stoker.pipeline.engines.dali.engine import DaliEngine
from stoker.pipeline.engines.dali.steps import STEPS as DALI_STEPS
from stoker.pipeline.engines.registry import check_needs

N, SIDE = 12, 64
BYTES = ImageFormat("uint8", "NHWC")


@pytest.fixture
def dataset(squares: Path) -> Dataset:
    return open_dataset(squares)


def draw(dataset: Dataset, *transforms: Any, seed: int = 3) -> ImageParams:
    samples = dataset.samples(np.arange(N))
    return compile_image(transforms).draw(samples.height, samples.width, samples.row, seed, 0)


def both(
    dataset: Dataset, params: ImageParams, output: ImageFormat = BYTES
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Images of all samples from DALI, and from the reference."""
    engine = DaliEngine(settings_of(dataset, output, num_threads=2, batch_size=N))
    result = run_once(engine, Work(dataset.samples(np.arange(N)), params))
    assert (result.status == Status.OK).all()
    expected = truth(dataset, params, output)
    return np.asarray(result.images).astype(np.float64), expected.astype(np.float64)


def check(
    dataset: Dataset, params: ImageParams, most: float, mean: float, output: ImageFormat = BYTES
) -> None:
    found, expected = both(dataset, params, output)
    difference = np.abs(found - expected)
    assert difference.max() <= most
    assert difference.mean() <= mean


def with_steps(dataset: Dataset, *chosen: steps.Step) -> ImageParams:
    return replace(draw(dataset, CenterCrop(SIDE)), steps=chosen)


WHERE = np.arange(N) % 3 > 0
RNG = np.random.default_rng(0)
COLOR = (np.eye(3, 4) + RNG.normal(0, 0.2, (N, 3, 4)) * (1, 1, 1, 40)).astype(np.float32)
MEAN = RNG.normal(0, 0.2, (N, 3, 3)).astype(np.float32)
STEPS = {
    name: (case.step.take(np.arange(N) % 3), *case.dali) for name, case in STEP_CASES.items() if case.dali
}
TURNED = np.stack([np.array(((0.8, 0.3, k), (-0.3, 0.8, 9), (0, 0, 1))) for k in range(N)])  # do not shrink
# Parameters that differ between all samples.
VARIED = {
    "affine": (steps.Affine(WHERE, COLOR, None), 1, 0.001),
    "affine by the mean": (steps.Affine(WHERE, COLOR, MEAN), 1, 0.001),
    "posterize": (steps.Posterize(WHERE, (np.arange(N) % 9).astype(np.uint8)), 0, 0),
    "solarize": (steps.Solarize(WHERE, (np.arange(N) * 23).astype(np.int16)), 0, 0),
    "sharpen": (steps.Sharpen(WHERE, np.linspace(0, 3, N).astype(np.float32)), 1, 0.001),
    "compress": (steps.Compress(WHERE, (np.arange(N) * 8 + 5).astype(np.uint8)), 0, 0),
    "blur": (steps.Blur(WHERE, (5, 7), RNG.uniform(0.1, 3, (N, 2)).astype(np.float32)), 1, 0.01),
    "distort": (steps.Distort(WHERE, TURNED, (9, 80, 200)), 1, 0.02),
}


def test_every_step_of_dali_has_an_example() -> None:
    assert {type(step).__name__ for step, _, _ in STEPS.values()} == DALI_STEPS


@pytest.mark.parametrize(
    "case", [*STEPS.values(), *VARIED.values()], ids=[*STEPS, *(f"varied {n}" for n in VARIED)]
)
def test_a_step_is_near_the_reference(dataset: Dataset, case: tuple[steps.Step, float, float]) -> None:
    step, most, mean = case
    params = with_steps(dataset, step)
    check(dataset, params, most, mean)
    changed, plain = both(dataset, params)[0], both(dataset, with_steps(dataset))[0]
    assert np.array_equal(changed[~step.where], plain[~step.where])
    assert not np.array_equal(changed, plain)


@pytest.mark.parametrize("side", [1, 2, 3])
def test_steps_on_small_images_are_near_the_reference(dataset: Dataset, side: int) -> None:
    params = draw(dataset, CenterCrop(side))
    check(dataset, replace(params, steps=(VARIED["sharpen"][0], VARIED["posterize"][0])), 1, 0.1)


def test_a_step_for_no_sample_changes_nothing(dataset: Dataset) -> None:
    chosen = [replace(step, where=np.zeros(N, np.bool_)) for step, _, _ in STEPS.values()]
    check(dataset, with_steps(dataset, *chosen), 0, 0)


def test_steps_are_executed_in_their_order(dataset: Dataset) -> None:
    varied = [VARIED[name][0] for name in ("posterize", "solarize", "affine", "blur")]
    chain = [varied[0], steps.Autocontrast(WHERE), *varied[1:]]
    check(dataset, with_steps(dataset, *chain), 2, 0.05)
    assert not np.array_equal(
        both(dataset, with_steps(dataset, *chain))[0], both(dataset, with_steps(dataset, *chain[::-1]))[0]
    )


def test_contrast_about_the_mean_is_near_the_reference(dataset: Dataset) -> None:
    params = draw(dataset, CenterCrop(SIDE), ColorJitter(0.4, 0.4, 0.4, 0.1), Normalize())
    assert params.needs() == {"mean_matrix"}
    check(dataset, params, 1e-3, 1e-4, ImageFormat("float32", "NCHW"))
    check(dataset, draw(dataset, CenterCrop(SIDE), RandomPhotometricDistort(p=1)), 1, 0.01)


@pytest.mark.parametrize(
    "transforms",
    [
        [CenterCrop(SIDE), RandomRotation(45)],
        [CenterCrop(SIDE), RandomHorizontalFlip(), RandomAffine(30, (0.2, 0.2), (1, 2), 20)],
        [CenterCrop(SIDE), RandomRotation(45), RandomHorizontalFlip()],
        [Pad(4, fill=(10, 128, 250)), CenterCrop(SIDE + 8), RandomRotation(45)],
        [RandomResizedCrop((48, 56), scale=(0.05, 0.3)), RandomRotation(20)],
        [Pad(8, fill=90), Resize((96, 96)), RandomRotation(20)],
    ],
)
def test_a_rotation_that_does_not_shrink_is_resampled_once(dataset: Dataset, transforms: Any) -> None:
    check(dataset, draw(dataset, *transforms), 2, 0.01)


@pytest.mark.parametrize(
    "transforms",
    [
        [Resize((30, 40)), RandomRotation(30)],
        [CenterCrop(SIDE), RandomPerspective(0.5, p=1)],
        [CenterCrop(SIDE), RandomPerspective(0.95, p=1, fill=(250, 128, 10))],
    ],
)
def test_a_rotation_that_shrinks_is_resampled_twice(dataset: Dataset, transforms: Any) -> None:
    check(dataset, draw(dataset, *transforms), 150, 2)


def test_pixels_beyond_the_horizon_are_fill(dataset: Dataset) -> None:
    enlarged = RandomAffine(30, (0.3, 0.3), (1.5, 3), fill=(250, 128, 10))
    params = draw(dataset, CenterCrop(SIDE), enlarged, RandomPerspective(0.95, p=1), seed=1)
    corners = np.array(((0, 0, 1), (SIDE, 0, 1), (0, SIDE, 1), (SIDE, SIDE, 1)))
    assert (params.to_source()[:, 2] @ corners.T <= 0).any(axis=1).sum() > 3
    check(dataset, params, 150, 1.2)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("size", [(40, 50), (96, 90)])
def test_a_batch_of_warped_and_other_samples_is_near_the_reference(
    dataset: Dataset, size: tuple[int, int], interpolation: str
) -> None:
    turns = RandomApply([RandomRotation(30, fill=(200, 30, 90))], 0.5)
    params = draw(dataset, Pad(3, fill=(200, 30, 90)), Resize(size, interpolation), turns)
    assert params.warp is not None
    still = [i for i in range(N) if not params.warp.applies(i, size)]
    assert 2 < len(still) < N - 2
    found, expected = both(dataset, params)
    difference = np.abs(found - expected)
    assert difference[still].mean() < 0.25
    assert difference[still].max() <= 12
    assert difference.mean() < 2


def test_mixed_chains_are_near_the_reference(dataset: Dataset) -> None:
    chains = (
        (VARIED["posterize"][0], VARIED["distort"][0]),
        (steps.Autocontrast(WHERE), VARIED["affine by the mean"][0]),
    )
    weights = RNG.dirichlet(np.ones(3), N).astype(np.float32)
    params = with_steps(dataset, steps.WeightedSum(np.arange(N) % 4 > 0, weights, chains))
    check(dataset, params, 1, 0.02)


def test_erased_boxes_are_exact(dataset: Dataset) -> None:
    transforms = [CenterCrop(SIDE), RandomErasing(0.7), RandomErasing(0.7, value=(0.1, 0.2, 0.3))]
    for output in (BYTES, ImageFormat("uint8", "NCHW"), ImageFormat("uint8", "NHWC4")):
        check(dataset, draw(dataset, *transforms), 0, 0, output)
    params = draw(dataset, CenterCrop(SIDE), RandomErasing(0.7, value=(0.5, 1.0, 1.5)), Normalize())
    check(dataset, params, 1e-5, 1e-5, ImageFormat("float32", "NCHW"))
    for output in (ImageFormat("float16", "NCHW"), ImageFormat("float16", "NHWC4")):
        check(dataset, params, 2**-9, 1e-5, output)  # a bit where 2 is rounded


def test_a_bad_sample_is_all_zeros_after_every_operation(dataset: Dataset) -> None:
    everything = tuple(step for step, _, _ in STEPS.values())
    transforms = [CenterCrop(SIDE), RandomRotation(45), ColorJitter(0.4, 0.4), RandomErasing(1)]
    params = replace(draw(dataset, *transforms), steps=everything)
    engine = DaliEngine(settings_of(dataset, BYTES, num_threads=1, batch_size=N))
    samples = dataset.samples(np.arange(N))
    crc = samples.crc.copy()
    crc[4] ^= 1
    result = run_once(engine, Work(replace(samples, crc=crc), params))
    assert np.flatnonzero(result.status).tolist() == [4]
    assert not np.asarray(result.images)[4].any()
    assert np.asarray(result.images)[5].any()


def test_operations_without_dali_code_are_refused() -> None:
    with pytest.raises(ConfigError, match="need: Table\n"):
        check_needs("dali", frozenset({"Blur", "Table", "warp", "perspective"}))
