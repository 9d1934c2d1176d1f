"""Small pictures, encoded and decoded."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from helpers.loaders import image_arguments
from helpers.options import convert_options
from PIL import Image, ImageChops, ImageOps

import stoker
from stoker import ImageLoader, _native
from stoker.augment import RandomResizedCrop, compile_image
from stoker.errors import DecodeError, SampleError
from stoker.formats.codecs.codec import Codec
from stoker.formats.codecs.decode import decode_for_reference, decode_rgb
from stoker.formats.dataset.dataset import Dataset
from stoker.pipeline.engines.base import Work


def encode(
    image: Image.Image | npt.NDArray[Any], form: str = "JPEG", orientation: int = 0, **saved: Any
) -> bytes:
    """Returns an image as a file in one of Pillow's formats; with an EXIF orientation, unless it is 0."""
    stream = io.BytesIO()
    image = image if isinstance(image, Image.Image) else Image.fromarray(image)
    image.save(stream, form, **({"exif": exif(orientation)} if orientation else {}), **saved)
    return stream.getvalue()


def exif(orientation: int) -> Image.Exif:
    """Returns EXIF data with an orientation, 1 to 8."""
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags


def npy(array: npt.NDArray[Any], **options: Any) -> bytes:
    """Returns an array as a file of NumPy."""
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Returns pixels as a PNG."""
    return encode(pixels, "PNG")


def decode(data: bytes) -> npt.NDArray[np.uint8]:
    """Returns the pixels of a file as Pillow decodes them."""
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image)


def smooth(height: int, width: int) -> Image.Image:
    """Returns a picture without edges."""
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    return Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC)


def noise(seed: int, height: int = 6, width: int = 8) -> npt.NDArray[np.uint8]:
    """Returns random pixels, (height, width, 3)."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


COUNT = 6
TURNED, PNG = 2, 4
"""Rows of the image with an EXIF orientation, and of the image that is no JPEG."""


def convert_marked(folder: Path) -> dict[bool, Dataset]:
    """Convert six images without restart markers (False) and with them (True)."""
    (folder / "source" / "one").mkdir(parents=True)
    for number in range(COUNT):
        noise = np.random.default_rng(number).integers(0, 256, (80, 100, 3), np.uint8)
        image = Image.fromarray(noise).resize((300, 230 + number), Image.Resampling.BICUBIC)
        suffix = "png" if number == PNG else "jpg"
        options: dict[str, Any] = {
            "exif": exif(6 if number == TURNED else 1),
            "subsampling": number % 3,
            "quality": 97,
        }
        image.save(folder / "source" / "one" / f"{number}.{suffix}", **({} if number == PNG else options))
    datasets = {}
    for restarts in (False, True):
        stoker.convert(
            folder / "source", folder / str(restarts), storage=stoker.ImageStorage(restarts=restarts)
        )
        datasets[restarts] = stoker.open(folder / str(restarts))
    return datasets


def work_of(dataset: Dataset, transforms: Any, seed: int) -> Work:
    """Return a batch of all samples."""
    samples = dataset.samples(np.arange(len(dataset)))
    plan = compile_image(transforms)
    return Work(samples, plan.draw(samples.height, samples.width, np.arange(len(samples)), seed, 0))


def convert_images(root: Path, files: Mapping[str, bytes], **options: Any) -> Path:
    """Converts files of one class, which stay in ``root / "images"``, and returns the dataset's folder."""
    folder = root / "images" / "a"
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    stoker.convert(root / "images", root / "shards", **convert_options(options))
    return root / "shards"


def first_images(dataset: Any, transforms: Any, **options: Any) -> np.ndarray[Any, Any]:
    """Returns the images of the first batch that a loader with one thread makes."""
    with ImageLoader(
        dataset, **image_arguments(transforms=transforms, **{"num_threads": 1, **options})
    ) as loader:
        return np.asarray(next(iter(loader)).image)


def all_images(dataset: Any, **options: Any) -> list[np.ndarray[Any, Any]]:
    """Returns the images of each batch of a pass, as signed numbers that can be subtracted."""
    with ImageLoader(dataset, **image_arguments(**{"num_threads": 1, **options})) as loader:
        return [np.asarray(batch.image).astype(int) for batch in loader]


def decode_in_cpp(data: bytes, max_pixels: int = 10**6) -> np.ndarray[Any, Any]:
    """Returns the (H, W, 3) uint8 pixels that the C++ module decodes."""
    pixels, height, width = _native.transcode(data, "none", 0, 0, "raw", 90, "420", max_pixels)
    return np.frombuffer(pixels, np.uint8).reshape(height, width, 3)


def assert_refused_in_the_words_of_pillow(data: bytes, codec: Codec, sides: tuple[int, int]) -> None:
    """Checks that C++ refuses a damaged file, and that the error is the one that Pillow alone leads to."""
    with pytest.raises(ValueError, match=r"\w"):
        decode_in_cpp(data)
    with pytest.raises(Exception, match=r"\w") as expected:
        decode_for_reference(data, codec, *sides)
    with pytest.raises(type(expected.value)) as raised:
        decode_rgb(data, codec, *sides)
    # The rest is the address of a file object.
    assert str(raised.value).partition("<")[0] == str(expected.value).partition("<")[0]


def assert_bad_sample_of_every_engine(folder: Path, name: str, data: bytes, message: str) -> None:
    """Checks that a loader of a damaged file raises an error of the same words on each engine."""
    (folder / "images" / "a").mkdir(parents=True)
    (folder / "images" / "a" / name).write_bytes(data)
    messages = set()
    for engine in ("native", "reference"):
        with pytest.raises(SampleError, match=message) as raised:
            all_images(folder / "images", batch_size=6, transforms=[RandomResizedCrop(16)], engine=engine)
        assert isinstance(raised.value, DecodeError)
        messages.add(raised.value.message)
    assert len(messages) == 1


def without_adobe_marker(jpeg: bytes) -> bytes:
    """Return a JPEG without Adobe's segment, which says how its colours are stored."""
    segment = jpeg.index(b"\xff\xee\x00\x0eAdobe")
    return jpeg[:segment] + jpeg[segment + 16 :]


def decode_with_pillow(data: bytes) -> npt.NDArray[np.uint8]:
    """Return the (H, W, 3) uint8 RGB pixels of an image, its EXIF orientation applied.

    16-bit grey keeps its higher 8 bits; Pillow's own conversion would make nearly all of it white. A JPEG
    without Adobe's segment stores amounts of ink; Pillow takes them for inverted amounts.
    """
    with Image.open(io.BytesIO(data)) as image:
        turned = ImageOps.exif_transpose(image)
        if turned.mode.startswith("I"):
            turned = Image.fromarray((np.asarray(turned).astype(np.uint16) >> 8).astype(np.uint8))
        if turned.mode == "CMYK" and image.format == "JPEG" and "adobe" not in image.info:
            turned = ImageChops.invert(turned)
        return np.array(turned.convert("RGB"))
