"""Warps, displacements and erasing of images of any number of channels: native, reference, and RGB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.pictures import npy, png

import stoker
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


def convert(root: Path, files: dict[str, bytes]) -> Path:
    """The dataset of files."""
    (root / "images" / "a").mkdir(parents=True)
    for name, data in files.items():
        (root / "images" / "a" / name).write_bytes(data)
    stoker.convert(root / "images", root / "shards")
    return root / "shards"


def smooth(channels: int) -> list[np.ndarray]:
    """Smooth images in 0..1, (H, W, channels) of several sizes."""
    rng = np.random.default_rng(0)
    return [
        np.kron(rng.random((5, 6, channels)), np.ones((6 + i, 5 + i, 1))).astype(np.float64) for i in range(6)
    ]


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Datasets of arrays of five channels, by dtype, and of PNGs with and without alpha."""
    made = {}
    for dtype, highest in (("uint8", 255), ("uint16", 65535), ("float32", 1)):
        files = {}
        for i, image in enumerate(smooth(5)):
            files[f"{i}.npy"] = npy((image * highest).astype(dtype))
        made[dtype] = convert(tmp_path_factory.mktemp(dtype), files)
    for mode in ("RGB", "RGBA"):
        files = {}
        for i, image in enumerate(smooth(len(mode))):
            files[f"{i}.png"] = png((image * 255).astype(np.uint8))
        made[mode] = convert(tmp_path_factory.mktemp(mode), files)
    return made


def batch(dataset: Path, transforms: Any, **options: Any) -> np.ndarray:
    given = {"batch_size": 6, "seed": 4, "num_threads": 1, "color": "as_stored", **options}
    with ImageLoader(dataset, transforms=transforms, **given) as loader:
        return np.asarray(next(iter(loader)).image).astype(np.float64)


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("kind", ["uint8", "uint16", "float32", "RGBA"])
def test_the_native_engine_makes_what_the_reference_makes(
    datasets: dict[str, Path], kind: str, chain: str
) -> None:
    native, reference = (
        batch(datasets[kind], CHAINS[chain], engine=engine) for engine in ("native", "reference")
    )
    normalized = any(isinstance(one, Normalize) for one in CHAINS[chain])
    white = 4.0 if normalized else {"uint16": 65535.0, "float32": 1.0}.get(kind, 255.0)
    eight_bits = kind in ("uint8", "RGBA")
    assert np.abs(native - reference).max() <= white * (1 / 255 if eight_bits else 2e-5) * 1.001
    assert native.std() > 0.05 * white


@pytest.mark.parametrize("chain", CHAINS)
def test_images_as_stored_are_warped_as_rgb_is(datasets: dict[str, Path], chain: str) -> None:
    found, expected = (batch(datasets["RGB"], CHAINS[chain], color=color) for color in ("as_stored", "rgb"))
    difference = np.abs(found - expected)
    one = 4 / 255 if any(isinstance(one, Normalize) for one in CHAINS[chain]) else 1
    assert difference.max() <= 2 * one + 1e-6
    assert difference.mean() < 0.1 * one


def test_each_channel_may_be_erased_with_a_number_of_its_own(datasets: dict[str, Path]) -> None:
    value = (1.0, 2.0, 3.0, 4.0, 5.0)
    transforms = [CenterCrop(16), RandomErasing(1, value=value)]
    found, plain = (batch(datasets["uint8"], chain) for chain in (transforms, transforms[:1]))
    changed = (found != plain).any(axis=1)
    assert changed.any(axis=(1, 2)).all()
    assert {tuple(one) for one in found.transpose(0, 2, 3, 1)[changed].tolist()} == {value}
    with pytest.raises(ConfigError, match="value has 5 numbers, and the images have 3 channels"):
        ImageLoader(datasets["RGB"], batch_size=2, transforms=transforms)


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_a_nan_spreads_over_the_pixels_that_are_computed_from_it(tmp_path: Path, engine: str) -> None:
    image = np.ones((16, 16, 1), np.float32)
    image[8, 8] = np.nan
    dataset = convert(tmp_path, {"0.npy": npy(image)})
    found = batch(dataset, [CenterCrop(16), RandomRotation((30, 30))], batch_size=1, engine=engine)
    assert 1 <= np.isnan(found).sum() <= 6


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_an_image_of_which_only_padding_is_left_is_its_fill(datasets: dict[str, Path], engine: str) -> None:
    transforms = [CenterCrop(8), Pad(20, fill=51), RandomCrop(9)]
    found = batch(datasets["float32"], transforms, engine=engine)
    uniform = [one for one in found if np.ptp(one) == 0]
    assert uniform
    np.testing.assert_allclose(uniform, 0.2)
