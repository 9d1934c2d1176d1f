"""Loaders of grey images, of images with alpha and of images as they are stored, on every engine."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.images import convert_images, encode, first_images
from helpers.loaders import image_arguments
from PIL import Image

import stoker
from stoker import ImageLoader
from stoker.augment import (
    CenterCrop,
    ColorJitter,
    MixUp,
    Normalize,
    Pad,
    RandomErasing,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
    Transform,
)
from stoker.errors import CheckpointError, ConfigError

GEOMETRY = (
    RandomResizedCrop((30, 40), interpolation="bicubic"),
    RandomHorizontalFlip(),
    RandomVerticalFlip(),
)
COLORS = (RandomResizedCrop(24), RandomRotation(20), ColorJitter(0.4, 0.4), RandomErasing(0.5))
PADDED = (Resize(20), Pad(9, fill=77), CenterCrop(64))
KINDS = {
    "RGB.jpg": ("RGB", "JPEG", {"subsampling": 2}),
    "L.jpg": ("L", "JPEG", {}),
    "CMYK.jpg": ("CMYK", "JPEG", {}),
    "RGBA.png": ("RGBA", "PNG", {}),
}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Smooth images of several modes and sizes, among them a progressive JPEG."""
    noise = np.random.default_rng(0).integers(0, 256, (12, 16, 4), np.uint8)
    smooth = Image.fromarray(noise).resize((160, 120))
    files = {
        name: encode(smooth.resize((160 - i, 120 + i)).convert(mode), form, **options)
        for i, (name, (mode, form, options)) in enumerate(KINDS.items())
    }
    files["progressive.jpg"] = encode(smooth.convert("RGB"), progressive=True)
    return convert_images(tmp_path_factory.mktemp("color"), files)


def images(dataset: Path, transforms: Any, **options: Any) -> np.ndarray:
    options = {"batch_size": 8, "seed": 3, "exact": True, **options}
    return first_images(dataset, transforms, **options).astype(np.float32)


@pytest.mark.parametrize(
    ("color", "transforms", "layout"),
    [
        *product(["gray"], [GEOMETRY, COLORS, PADDED], ["NCHW"]),
        *product(["rgba"], [GEOMETRY, PADDED], ["NCHW", "NHWC"]),
        ("gray", GEOMETRY, "NHWC"),
    ],
)
def test_the_native_engine_makes_what_the_reference_makes(
    mixed: Path, color: str, transforms: tuple[Transform, ...], layout: str
) -> None:
    found, expected = (
        images(mixed, transforms, color=color, layout=layout, engine=engine)
        for engine in ("native", "reference")
    )
    difference = np.abs(found - expected)
    assert found.shape == expected.shape
    assert found.shape[1 if layout == "NCHW" else 3] == {"gray": 1, "rgba": 4}[color]
    assert difference.max() <= 2
    assert difference.mean() < 0.05
    assert found.std() > 10


def test_engines_decode_the_same_grey(mixed: Path) -> None:
    whole = [CenterCrop(118)]
    grey = images(mixed, whole, color="gray")
    assert np.array_equal(grey, images(mixed, whole, color="gray", engine="reference"))
    pytest.importorskip("nvidia.dali")
    assert np.abs(grey - images(mixed, whole, color="gray", engine="dali")).max() <= 2


def test_normalize_takes_a_number_for_each_channel(mixed: Path) -> None:
    mean, std = (0.1, 0.2, 0.3, 0.4), (0.5, 0.6, 0.7, 0.8)
    levels = images(mixed, [CenterCrop(64)], color="rgba")
    expected = (levels / 255 - np.reshape(mean, (4, 1, 1))) / np.reshape(std, (4, 1, 1))
    found = images(mixed, [CenterCrop(64), Normalize(mean, std)], color="rgba")
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_an_image_with_other_channels_than_the_first_is_named(mixed: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"(?s)stored with 1 channels of 8 bits, and the first image with 3 of 8.*a/L.jpg"
    ):
        images(mixed, [CenterCrop(16)], color="as_stored")


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_images_as_stored_keep_all_their_channels(mixed: Path, engine: str) -> None:
    opened = stoker.open(mixed)
    alone = opened.select([opened.keys(range(len(opened))).index("a/RGBA.png")])
    found = images(alone, [CenterCrop(64)], color="as_stored", engine=engine)
    assert np.array_equal(found, images(mixed, [CenterCrop(64)], color="rgba")[alone.rows])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"color": "blue"}, "color must be one of rgb, gray"),
        (
            {"color": "gray", "transforms": [CenterCrop(8), Normalize()]},
            "3 numbers, and the images have 1 channel",
        ),
        ({"transforms": [CenterCrop(8), Normalize((0.1, 0.2))]}, "2 numbers, and the images have 3 channels"),
        (
            {"color": "rgba", "transforms": [CenterCrop(8), ColorJitter(0.4)]},
            "ColorJitter executes on RGB and grey",
        ),
        (
            {"color": "rgba", "transforms": [CenterCrop(8), Pad(2, padding_mode="edge")]},
            "Pad executes on RGB",
        ),
        ({"color": "rgba", "engine": "dali"}, "engine='dali' makes images of color='rgb' or 'gray'"),
        ({"color": "gray", "layout": "NHWC4"}, "layout='NHWC4' is RGB"),
        ({"color": "gray", "transforms": [Pad(2, fill=(1, 2, 3)), CenterCrop(8)]}, "Pad fills with"),
        (
            {"color": "gray", "transforms": [CenterCrop(8), RandomErasing(value=(1, 2, 3))]},
            "value has 3 numbers, and the images have 1 channel",
        ),
    ],
)
def test_options_that_do_not_fit_the_color_are_refused(
    mixed: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        ImageLoader(mixed, **image_arguments(**{"batch_size": 2, "transforms": [CenterCrop(8)], **options}))


def test_a_state_of_another_color_is_refused(mixed: Path) -> None:
    grey = ImageLoader(mixed, batch_size=2, transforms=[CenterCrop(8)], color="gray")
    rgb = ImageLoader(mixed, batch_size=2, transforms=[CenterCrop(8)])
    with pytest.raises(CheckpointError, match="color was 'gray'"):
        rgb.load_state_dict(grey.state_dict())


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Grey images of 16 bits, PNG and TIFF, as a conversion keeps them."""
    levels = np.random.default_rng(0).integers(0, 65536, (12, 16)).astype(np.uint16)
    large = [np.kron(levels, np.ones((5 + i, 6), np.uint16)) for i in range(3)]
    names = {"0.png": "PNG", "1.tif": "TIFF", "2.png": "PNG"}
    files = {name: encode(pixels, form) for pixels, (name, form) in zip(large, names.items(), strict=True)}
    return convert_images(tmp_path_factory.mktemp("deep"), files)


@pytest.mark.parametrize(
    ("transforms", "dtype", "most"),
    [
        ([CenterCrop(48)], None, 0),
        ([RandomResizedCrop(24, interpolation="bicubic"), RandomHorizontalFlip()], None, 1),
        ([Resize(30), Pad(4, fill=128), CenterCrop(40), Normalize(0.5, 0.5)], None, 1e-5),
        ([RandomResizedCrop(24)], "float16", 1e-3),
    ],
)
def test_images_of_sixteen_bits_are_near_the_reference(
    deep: Path, transforms: list[Transform], dtype: Any, most: float
) -> None:
    found, expected = (
        images(deep, transforms, color="as_stored", dtype=dtype, engine=engine)
        for engine in ("native", "reference")
    )
    assert np.abs(found - expected).max() <= most
    assert found.std() > found.max() / 8


def test_sixteen_bits_are_kept_or_become_shares_of_the_full_range(deep: Path) -> None:
    levels = first_images(deep, [CenterCrop(48)], batch_size=3, color="as_stored")
    assert levels.dtype == np.uint16
    assert len(np.unique(levels & 255)) > 50
    floats = images(deep, [CenterCrop(48)], color="as_stored", dtype="float32")
    np.testing.assert_allclose(floats, levels / 65535, atol=1e-6)
    padded = images(deep, [Resize(20), Pad(9, fill=128), CenterCrop(64)], color="as_stored")
    assert padded[0, 0, 0, 0] == 128 * 257


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"color": "as_stored", "dtype": "uint8"}, "uint8 output of images with 16 bits"),
        ({"dtype": "uint16"}, "uint16 output of images with 8 bits"),
        ({"color": "as_stored", "transforms": [CenterCrop(8), MixUp()]}, "mix no images of dtype='uint16'"),
    ],
)
def test_options_that_do_not_fit_sixteen_bits_are_refused(
    deep: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        ImageLoader(deep, **image_arguments(**{"batch_size": 2, "transforms": [CenterCrop(8)], **options}))
