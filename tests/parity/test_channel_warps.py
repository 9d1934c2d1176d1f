"""Warps, displacements and erasing of images of any number of channels: native, reference, and RGB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.images import convert_images, first_images, npy, png

from stoker import ImageLoader
from stoker.augment import (
    CenterCrop,
    ElasticTransform,
    Normalize,
    Pad,
    RandomAffine,
    RandomApply,
    RandomCrop,
    RandomErasing,
    RandomPerspective,
    RandomResizedCrop,
    RandomRotation,
    Resize,
)
from stoker.errors import ConfigError

SHRINKS = RandomAffine(30, (0.1, 0.1), (0.4, 1.2), 10, fill=90)
CHAINS = {
    "affine": [RandomResizedCrop(24), SHRINKS],
    "rotation by nearest": [Resize((20, 26)), RandomRotation(40, interpolation="nearest", fill=255)],
    "perspective": [RandomResizedCrop(24), RandomPerspective(0.6, 0.7)],
    "elastic": [RandomResizedCrop(24), ElasticTransform(60.0, 3.0, fill=40)],
    "elastic by nearest": [CenterCrop(16), ElasticTransform(60.0, 3.0, interpolation="nearest")],
    "warp and elastic": [RandomResizedCrop(24), RandomApply([SHRINKS], 0.5), ElasticTransform(60.0, 3.0)],
    "erasing": [RandomResizedCrop(24), RandomErasing(0.8, value=7)],
    "noise after Normalize": [
        RandomResizedCrop(24),
        Normalize(0.5, 0.25),
        RandomErasing(0.8, value="random"),
    ],
}


def smooth(channels: int) -> list[np.ndarray]:
    """Smooth images in 0..1, (H, W, channels) of several sizes."""
    rng = np.random.default_rng(0)
    return [
        np.kron(rng.random((5, 6, channels)), np.ones((6 + i, 5 + i, 1))).astype(np.float64) for i in range(6)
    ]


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Datasets of arrays of five channels, by dtype, and of PNGs with and without alpha."""
    dtypes = (("uint8", 255), ("uint16", 65535), ("float32", 1))
    files = {
        dtype: [(f"{i}.npy", npy((image * highest).astype(dtype))) for i, image in enumerate(smooth(5))]
        for dtype, highest in dtypes
    }
    for mode in ("RGB", "RGBA"):
        pixels = [(image * 255).astype(np.uint8) for image in smooth(len(mode))]
        files[mode] = [(f"{i}.png", png(image)) for i, image in enumerate(pixels)]
    return {name: convert_images(tmp_path_factory.mktemp(name), dict(of)) for name, of in files.items()}


def batch(dataset: Path, transforms: Any, **options: Any) -> np.ndarray:
    options = {"batch_size": 6, "seed": 4, "color": "as_stored", **options}
    return first_images(dataset, transforms, **options).astype(np.float64)


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("kind", ["uint8", "uint16", "float32", "RGBA"])
def test_the_native_engine_makes_what_the_reference_makes(
    datasets: dict[str, Path], kind: str, chain: str
) -> None:
    native, reference = (
        batch(datasets[kind], CHAINS[chain], engine=engine) for engine in ("native", "reference")
    )
    normalized = any(isinstance(transform, Normalize) for transform in CHAINS[chain])
    white = 4.0 if normalized else {"uint16": 65535.0, "float32": 1.0}.get(kind, 255.0)
    eight_bits = kind in ("uint8", "RGBA")
    assert np.abs(native - reference).max() <= white * (1 / 255 if eight_bits else 2e-5) * 1.001
    assert native.std() > 0.05 * white


@pytest.mark.parametrize("chain", CHAINS)
def test_images_as_stored_are_warped_as_rgb_is(datasets: dict[str, Path], chain: str) -> None:
    found, expected = (batch(datasets["RGB"], CHAINS[chain], color=color) for color in ("as_stored", "rgb"))
    difference = np.abs(found - expected)
    level = 4 / 255 if any(isinstance(transform, Normalize) for transform in CHAINS[chain]) else 1
    assert difference.max() <= 2 * level + 1e-6
    assert difference.mean() < 0.1 * level


def test_each_channel_may_be_erased_with_a_different_number(datasets: dict[str, Path]) -> None:
    value = (1.0, 2.0, 3.0, 4.0, 5.0)
    transforms = [CenterCrop(16), RandomErasing(1, value=value)]
    found, plain = (batch(datasets["uint8"], chain) for chain in (transforms, transforms[:1]))
    changed = (found != plain).any(axis=1)
    assert changed.any(axis=(1, 2)).all()
    assert {tuple(pixel) for pixel in found.transpose(0, 2, 3, 1)[changed].tolist()} == {value}
    with pytest.raises(ConfigError, match="value has 5 numbers, and the images have 3 channels"):
        ImageLoader(datasets["RGB"], batch_size=2, transforms=transforms)


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_a_nan_spreads_over_the_pixels_that_are_computed_from_it(tmp_path: Path, engine: str) -> None:
    image = np.ones((16, 16, 1), np.float32)
    image[8, 8] = np.nan
    dataset = convert_images(tmp_path, {"0.npy": npy(image)})
    found = batch(dataset, [CenterCrop(16), RandomRotation((30, 30))], batch_size=1, engine=engine)
    assert 1 <= np.isnan(found).sum() <= 6


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_an_image_of_padding_alone_has_the_fill_everywhere(datasets: dict[str, Path], engine: str) -> None:
    transforms = [CenterCrop(8), Pad(20, fill=51), RandomCrop(9)]
    found = batch(datasets["float32"], transforms, engine=engine)
    uniform = [image for image in found if np.ptp(image) == 0]
    assert uniform
    np.testing.assert_allclose(uniform, 0.2)
