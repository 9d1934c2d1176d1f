"""DALI on the CPU against the reference, on real photographs.

DALI treats the edge of a crop differently from Pillow, so a few levels are allowed within four
pixels of it; inside, and on average, they agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.images import decode_with_pillow, encode, without_adobe_marker
from helpers.loaders import settings_of
from helpers.payloads import run_once
from PIL import Image

from stoker.augment import (
    JPEG,
    CenterCrop,
    ColorJitter,
    Normalize,
    RandomChoice,
    RandomCrop,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomInvert,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
    ToDtype,
    compile_image,
    reference,
)
from stoker.augment.resampling import Interpolation
from stoker.formats.codecs.codec import Codec
from stoker.formats.open import open as open_dataset
from stoker.pipeline.engines.base import ImageFormat, Status, Work

pytest.importorskip("nvidia.dali")


from helpers.dali import assert_close, check, execute, inside, truth

from stoker.augment import Transform
from stoker.formats.dataset.dataset import Dataset
from stoker.pipeline.engines.dali.engine import DaliEngine

CROP = (RandomResizedCrop(64), RandomHorizontalFlip())


RESIZES: list[Callable[[str], Sequence[Transform]]] = [
    lambda name: (RandomResizedCrop(64, interpolation=name), RandomHorizontalFlip()),
    lambda name: (RandomResizedCrop((40, 90), scale=(0.01, 0.1), interpolation=name),),
    lambda name: (Resize(72, name), CenterCrop((70, 64)), RandomVerticalFlip()),
]


@pytest.mark.parametrize("resize", RESIZES)
@pytest.mark.parametrize("interpolation", ["nearest", "bicubic", "lanczos"])
def test_interpolations_are_near_the_reference(
    opened: Dataset, interpolation: str, resize: Callable[[str], Sequence[Transform]]
) -> None:
    output = ImageFormat("uint8", "NHWC")
    params, result = execute(opened, resize(interpolation), output)
    assert (result.status == Status.OK).all(), result.reason
    difference = np.abs(result.images.astype(np.int64) - truth(opened, params, output))
    if interpolation == "nearest":  # another pixel where the centre falls between two of them
        assert (difference > 0).mean() < 0.02
        return
    assert difference.mean() < 0.25
    # DALI clips after its first axis, and filters with lobes weigh clipped pixels by more than 1.
    assert difference[inside(params)].max() <= 8
    assert (difference[inside(params)] > 1).mean() < 0.001


def test_interpolations_that_differ_between_samples_are_near_the_reference(opened: Dataset) -> None:
    names = ("nearest", "bilinear", "bicubic", "lanczos")
    crops = [RandomResizedCrop(64, interpolation=name) for name in names]
    output = ImageFormat("uint8", "NHWC")
    params, result = execute(opened, (RandomChoice(crops), RandomHorizontalFlip()), output)
    assert params.interpolation is not None
    assert set(params.interpolation.tolist()) == {int(Interpolation[name.upper()]) for name in names}
    difference = np.abs(result.images.astype(np.int64) - truth(opened, params, output))
    assert (difference.mean(axis=(1, 2, 3)) < 0.5).all()
    assert (difference[inside(params)] > 1).mean() < 0.005


def test_images_are_mirrored_before_steps_that_depend_on_the_coordinates_of_a_pixel(opened: Dataset) -> None:
    output = ImageFormat("uint8", "NHWC")
    params, result = execute(
        opened, (Resize((64, 70)), RandomHorizontalFlip(1.0), JPEG(quality=(5, 5))), output
    )
    difference = np.abs(result.images.astype(np.int64) - truth(opened, params, output))
    assert difference.mean() < 1, "blocks of 8 pixels begin at the other edge"


@pytest.fixture(scope="module")
def opened(dataset: Path) -> Dataset:
    return open_dataset(dataset)


@pytest.fixture(scope="module")
def pictures(photographs: list[Path]) -> list[Image.Image]:
    return [Image.open(file).convert("RGB") for file in photographs[::40]]


@pytest.mark.parametrize(
    "transforms",
    [
        pytest.param(CROP, id="random crops"),
        pytest.param((RandomResizedCrop((40, 90), scale=(0.01, 0.1)),), id="enlarged crops"),
        pytest.param((Resize(72), CenterCrop(64)), id="validation"),
        pytest.param((Resize((64, 48)),), id="squashed"),
        pytest.param((CenterCrop(64),), id="not resampled"),
        pytest.param((RandomVerticalFlip(), *CROP), id="vertical flips"),
        pytest.param((Resize(50), CenterCrop((70, 60)), RandomVerticalFlip()), id="padded"),
        pytest.param((CenterCrop(700),), id="padded and not resampled"),
        # A gain above one would turn one level of difference into two.
        pytest.param(
            (*CROP, RandomGrayscale(0.5), ColorJitter((0.6, 1.0), saturation=(0.2, 1.0))), id="colours mixed"
        ),
        pytest.param((*CROP, RandomInvert(0.5)), id="colours inverted"),
    ],
)
def test_geometry_is_near_the_reference(opened: Dataset, transforms: Sequence[Transform]) -> None:
    check(opened, transforms, n=24 if transforms != (CenterCrop(700),) else 4)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NHWC4"])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "bfloat16", "float32"])
def test_every_dtype_in_every_layout_is_near_the_reference(opened: Dataset, dtype: Any, layout: Any) -> None:
    output = ImageFormat(dtype, layout)
    transforms = CROP if dtype == "uint8" else (*CROP, Normalize())
    params, result = execute(opened, transforms, output, n=6)
    expected = truth(opened, params, output)
    assert result.images.shape == expected.shape == output.shape(6, (64, 64))
    assert result.images.dtype == expected.dtype
    found, expected = (as_float(images, dtype) for images in (result.images, expected))
    if layout == "NCHW":
        found, expected = (images.transpose(0, 2, 3, 1) for images in (found, expected))
    if layout == "NHWC4":
        assert not found[..., 3].any()
    # bfloat16 has eight bits: values near two are 1/64 apart, which is about one level.
    level = {"uint8": 1.0, "bfloat16": 3 / 255 / 0.224}.get(dtype, 1.05 / 255 / 0.224)
    assert_close(found, expected, params, level)


def as_float(images: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    if dtype == "bfloat16":
        return (images.astype(np.uint32) << 16).view(np.float32)
    return images.astype(np.float32)


def test_float32_is_uint8_scaled(opened: Dataset) -> None:
    _, whole = execute(opened, CROP, ImageFormat("uint8", "NHWC"), n=4)
    _, scaled = execute(opened, (*CROP, ToDtype("float32")), ImageFormat("float32", "NHWC"), n=4)
    assert np.allclose(scaled.images * 255, whole.images, atol=1e-4)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientations_are_near_the_reference(
    pack_images: Callable[..., Path], pictures: list[Image.Image], orientation: int
) -> None:
    payloads = [encode(picture, orientation=orientation, quality=95) for picture in pictures]
    dataset = open_dataset(pack_images(payloads))
    assert (dataset.column("orientation") == orientation).all()
    check(dataset, (RandomResizedCrop(64, scale=(0.3, 0.9)),))


@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_grey_and_cmyk_jpeg_are_near_the_reference(
    pack_images: Callable[..., Path], pictures: list[Image.Image], mode: str
) -> None:
    payloads = [encode(picture.convert(mode), "JPEG", quality=95) for picture in pictures]
    check(open_dataset(pack_images(payloads)), CROP)


def test_cmyk_without_adobe_marker_is_near_the_reference(
    pack_images: Callable[..., Path], pictures: list[Image.Image]
) -> None:
    files = [encode(picture.convert("CMYK"), "JPEG", quality=95) for picture in pictures]
    check(open_dataset(pack_images([without_adobe_marker(file) for file in files])), CROP)


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "RGBA", "1", "I;16"])
def test_png_is_near_the_reference(
    pack_images: Callable[..., Path], pictures: list[Image.Image], mode: str
) -> None:
    if mode == "I;16":
        converted = [Image.fromarray(np.asarray(p.convert("L")).astype(np.uint16) * 257) for p in pictures]
    else:
        converted = [picture.convert(mode) for picture in pictures]
    check(open_dataset(pack_images([encode(picture, "PNG") for picture in converted])), CROP)


@pytest.mark.parametrize("kind", ["BMP", "GIF", "TIFF", "WEBP"])
def test_other_codecs_are_near_the_reference(
    pack_images: Callable[..., Path], pictures: list[Image.Image], kind: str
) -> None:
    check(open_dataset(pack_images([encode(picture, kind) for picture in pictures])), CROP)


def test_raw_pixels_beside_jpeg_and_png_are_near_the_reference(
    pack_images: Callable[..., Path], pictures: list[Image.Image]
) -> None:
    pixels = [np.asarray(picture) for picture in pictures]
    payloads = [pixels[0].tobytes(), encode(pixels[1], "JPEG"), encode(pixels[2], "PNG")]
    dataset = open_dataset(
        pack_images(
            payloads,
            codec=np.array([Codec.RAW, Codec.JPEG, Codec.PNG], np.uint8),
            height=np.array([p.shape[0] for p in pixels[:3]]),
            width=np.array([p.shape[1] for p in pixels[:3]]),
        )
    )
    output = ImageFormat("uint8", "NHWC")
    params, result = execute(dataset, CROP, output)
    assert (result.status == Status.OK).all(), result.reason
    decoded = [pixels[0], *(decode_with_pillow(payload) for payload in payloads[1:])]
    expected = np.stack([reference.execute(params, i, p, "uint8", "NHWC") for i, p in enumerate(decoded)])
    assert_close(result.images, expected, params)


@pytest.mark.parametrize(
    "transforms",
    [
        pytest.param(CROP, id="random crops"),
        pytest.param((Resize(72), CenterCrop(64), RandomVerticalFlip()), id="validation"),
        pytest.param((CenterCrop(700),), id="padded and not resampled"),
        pytest.param((RandomCrop(64), RandomRotation(30)), id="warped"),
    ],
)
def test_raw_pixels_are_the_same_in_batches_with_and_without_jpegs(
    pack_images: Callable[..., Path], pictures: list[Image.Image], transforms: Sequence[Transform]
) -> None:
    pixels = [np.asarray(picture) for picture in pictures]
    # Only the last sample's codec differs: a batch with a JPEG goes to DALI's decoder.
    last = [encode(pixels[0], "PNG"), encode(pixels[0], "JPEG")]
    shown = []
    for codec, payload in zip((Codec.PNG, Codec.JPEG), last, strict=True):
        dataset = open_dataset(
            pack_images(
                [*(array.tobytes() for array in pixels), payload],
                codec=np.array([Codec.RAW] * len(pixels) + [codec], np.uint8),
                height=np.array([array.shape[0] for array in (*pixels, pixels[0])]),
                width=np.array([array.shape[1] for array in (*pixels, pixels[0])]),
            )
        )
        _, result = execute(dataset, transforms, ImageFormat("uint8", "NHWC"))
        assert (result.status == Status.OK).all(), result.reason
        shown.append(result.images[:-1])
    assert np.array_equal(*shown)


def test_an_image_of_one_pixel_is_enlarged(pack_images: Callable[..., Path]) -> None:
    payload = encode(np.full((1, 1, 3), 77, np.uint8), "PNG")
    _, result = execute(open_dataset(pack_images([payload])), (Resize((8, 8)),), ImageFormat("uint8", "NHWC"))
    assert (result.images == 77).all()


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_bad_sample_is_all_zeros_beside_padded_images(
    pack_images: Callable[..., Path], pictures: list[Image.Image], kind: str
) -> None:
    opened = open_dataset(pack_images([encode(picture, kind) for picture in pictures[:3]]))
    samples = opened.samples(np.arange(3))
    samples.crc[1] ^= 1
    plan = compile_image((Resize(50), CenterCrop((70, 60)), Normalize()))
    params = plan.draw(samples.height, samples.width, samples.row, 0, 0)
    engine = DaliEngine(settings_of(opened, batch_size=3))
    result = run_once(engine, Work(samples, params))
    assert result.status.tolist() == [Status.OK, Status.CHECKSUM_MISMATCH, Status.OK]
    assert not result.images[1].any()
    assert result.images[0].any()
