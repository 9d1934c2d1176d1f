"""Resizes with ``antialias=False``: torch's pixels, and the same in every engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.images import convert_images, encode, first_images, npy, png
from PIL import Image

from stoker import ImageLoader
from stoker.augment import (
    CenterCrop,
    RandomChoice,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
)
from stoker.errors import ConfigError

SIZES = ((10, 17), (37, 53), (80, 61), (3, 200), (1, 1))
PIXELS = np.random.default_rng(0).random((37, 53, 3)).astype(np.float32)


def images(dataset: Path, transforms: Any, **options: Any) -> np.ndarray:
    options = {"batch_size": 8, "seed": 1, **options}
    return first_images(dataset, transforms, **options).astype(np.float64)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One image as floats and as a PNG; and photographs of noise as JPEG, in every orientation."""
    noise = Image.fromarray(np.random.default_rng(1).integers(0, 256, (30, 40, 3), np.uint8))
    files = {
        "npy": {"0.npy": npy(PIXELS)},
        "png": {"0.png": png((PIXELS * 255).astype(np.uint8))},
        "jpg": {
            f"{orientation}.jpg": encode(noise.resize((400, 300)), orientation=orientation, quality=90)
            for orientation in range(1, 9)
        },
    }
    root = tmp_path_factory.mktemp("antialias")
    return {name: convert_images(root / name, images) for name, images in files.items()}


@pytest.mark.parametrize("engine", ["native", "reference", "dali"])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_pixels_are_those_of_torch(datasets: dict[str, Path], mode: str, engine: str) -> None:
    torch = pytest.importorskip("torch")
    if engine == "dali":
        pytest.importorskip("nvidia.dali")
        if mode == "bicubic":
            pytest.skip("DALI interpolates bicubically with another kernel")
    for size in SIZES[: 2 if engine == "dali" else None]:  # a pipeline is built for each
        resize = [Resize(size, interpolation=mode, antialias=False)]
        levels = torch.from_numpy((PIXELS * 255).astype(np.uint8).transpose(2, 0, 1))[None]
        expected = torch.nn.functional.interpolate(levels, size=size, mode=mode)[0].numpy()
        assert np.abs(images(datasets["png"], resize, engine=engine)[0] - expected).max() <= 1
        if engine != "dali":
            whole = torch.from_numpy(PIXELS.transpose(2, 0, 1))[None]
            expected = torch.nn.functional.interpolate(whole, size=size, mode=mode)[0].numpy()
            found = images(datasets["npy"], resize, engine=engine, color="as_stored")[0]
            np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_the_native_engine_resizes_jpegs_as_the_reference_does(datasets: dict[str, Path], mode: str) -> None:
    crop = RandomResizedCrop((40, 30), interpolation=mode, antialias=False)
    nearest = RandomResizedCrop((40, 30), interpolation="nearest")
    for chain, options in (
        ([crop, RandomHorizontalFlip(), RandomVerticalFlip()], {}),
        ([Resize(25, interpolation=mode, antialias=False), CenterCrop(20)], {}),  # which shrinks twelve times
        ([RandomChoice([crop, RandomResizedCrop((40, 30)), nearest])], {"exact": True}),
    ):
        found, expected = (
            images(datasets["jpg"], chain, engine=engine, **options) for engine in ("native", "reference")
        )
        assert np.abs(found - expected).max() <= 2
        assert found.std() > 10


def test_an_image_that_is_also_warped_is_antialiased_all_the_same(datasets: dict[str, Path]) -> None:
    turn = RandomRotation((20, 20))
    found, expected = (
        images(datasets["png"], [Resize((12, 12), antialias=antialias), turn]) for antialias in (False, True)
    )
    assert np.array_equal(found, expected)


def test_dali_refuses_chains_that_it_would_resample_differently(datasets: dict[str, Path]) -> None:
    pytest.importorskip("nvidia.dali")
    plain = Resize((12, 12), antialias=False)
    for chain in (
        [Resize((12, 12), interpolation="bicubic", antialias=False)],
        [RandomChoice([plain, Resize((12, 12))])],
        [plain, RandomRotation(20)],
    ):
        with pytest.raises(ConfigError, match="antialias=False beside other resizes, warps or bicubic"):
            ImageLoader(datasets["png"], batch_size=1, transforms=chain, engine="dali")
