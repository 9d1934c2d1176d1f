"""Tests of pixel statistics against NumPy over all pixels at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.datasets import flip_bit
from helpers.images import encode, noise
from PIL import Image

import stoker
from stoker.augment import CenterCrop, Normalize, SubtractMean
from stoker.errors import ConfigError, CorruptRecordError, DatasetError, DecodeError
from stoker.formats.pixel_statistics import pixel_statistics, save_mean_image


@pytest.fixture
def pictures() -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    return [rng.integers(0, 256, (5 + i, 300, 3), np.uint8) for i in range(40)]


@pytest.mark.parametrize("threads", [1, 3])
def test_moments_are_those_of_all_pixels(pictures, pack_images: Callable[..., Path], threads: int) -> None:
    dataset = stoker.open(pack_images([encode(p, "PNG") for p in pictures]))
    seen: list[tuple[int, int]] = []
    found = pixel_statistics(dataset, num_threads=threads, progress=lambda *counts: seen.append(counts))
    assert (seen[-1], sorted(seen)) == ((40, 40), seen)
    flat = np.concatenate([p.reshape(-1, 3) for p in pictures]) / 255
    np.testing.assert_allclose(found.mean, flat.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.std, flat.std(axis=0), rtol=1e-9)
    assert (found.images, found.pixels) == (40, len(flat))


def test_jpegs_have_the_mean_of_their_raw_pixels(
    photographs: list[Path], pack_images: Callable[..., Path]
) -> None:
    files = photographs[:3]
    arrays = [np.array(Image.open(file)) for file in files]
    raw = {
        "codec": np.zeros(3),
        "height": np.array([a.shape[0] for a in arrays]),
        "width": np.array([a.shape[1] for a in arrays]),
        "orientation": np.ones(3),
    }
    as_jpeg = pixel_statistics(stoker.open(pack_images([file.read_bytes() for file in files])))
    as_raw = pixel_statistics(stoker.open(pack_images([a.tobytes() for a in arrays], **raw)))
    flat = np.concatenate([a.reshape(-1, 3) for a in arrays]) / 255
    np.testing.assert_allclose(as_raw.mean, flat.mean(axis=0), rtol=1e-9)
    # Two builds of libjpeg may round a few pixels differently.
    np.testing.assert_allclose(as_jpeg.mean, as_raw.mean, atol=1e-3)


def test_mean_image_is_the_mean_of_resized_images(pictures, pack_images: Callable[..., Path]) -> None:
    dataset = stoker.open(pack_images([encode(p, "PNG") for p in pictures]))
    found = pixel_statistics(dataset, mean_image_size=(6, 9)).mean_image
    resized = [np.array(Image.fromarray(p).resize((9, 6), Image.Resampling.BILINEAR)) for p in pictures]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.mean(resized, axis=0), atol=1)


@pytest.mark.parametrize(("last", "expected"), [((12, 20), (12, 20)), ((12, 21), (256, 256))])
def test_the_mean_image_has_the_size_that_all_images_have(
    pack_images: Callable[..., Path], last: tuple[int, int], expected: tuple[int, int]
) -> None:
    pictures = [noise(0, 12, 20), noise(1, *last)]
    found = pixel_statistics(stoker.open(pack_images([encode(p, "PNG") for p in pictures]))).mean_image
    assert found.shape == (*expected, 3)
    if last == expected:
        np.testing.assert_array_equal(found, np.mean(pictures, axis=0))


def test_white_images_have_mean_1_and_deviation_0_exactly(pack_images: Callable[..., Path]) -> None:
    white = encode(np.full((700, 700, 3), 255, np.uint8), "PNG")
    found = pixel_statistics(stoker.open(pack_images([white] * 3)), mean_image_size=(2, 2))
    assert (found.mean, found.std) == ((1.0, 1.0, 1.0), (0.0, 0.0, 0.0))


def test_mean_image_is_saved_as_png_or_array(tmp_path: Path) -> None:
    image = np.linspace(0, 255, 48, dtype=np.float32).reshape(4, 4, 3)
    save_mean_image(tmp_path / "mean.npy", image)
    save_mean_image(tmp_path / "mean.PNG", image)
    np.testing.assert_array_equal(np.load(tmp_path / "mean.npy"), image)
    np.testing.assert_array_equal(np.array(Image.open(tmp_path / "mean.PNG")), np.rint(image))
    with pytest.raises(ConfigError, match="jpg"):
        save_mean_image(tmp_path / "mean.jpg", image)


@pytest.mark.parametrize(("dtype", "white"), [("uint8", 255), ("uint16", 65535), ("float32", 1)])
def test_arrays_have_statistics_of_each_channel(tmp_path: Path, dtype: str, white: int) -> None:
    rng = np.random.default_rng(3)
    arrays = [(rng.random((7 + i, 9, 5)) * np.arange(1, 6) / 5 * white).astype(dtype) for i in range(3)]
    (tmp_path / "tiles").mkdir()
    for i, array in enumerate(arrays):
        np.save(tmp_path / "tiles" / f"{i}.npy", array)
    stoker.convert(
        tmp_path / "tiles", tmp_path / "shards", source_options=stoker.SourceOptions(unlabelled=True)
    )
    found = pixel_statistics(stoker.open(tmp_path / "shards"), mean_image_size=(4, 6))
    flat = np.concatenate([array.reshape(-1, 5) for array in arrays]).astype(np.float64) / white
    np.testing.assert_allclose(found.mean, flat.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(found.std, flat.std(axis=0), rtol=1e-6)
    assert found.mean_image.shape == (4, 6, 5)
    np.testing.assert_allclose(found.mean_image.mean(axis=(0, 1)) / white, found.mean, rtol=0.15)
    save_mean_image(tmp_path / "mean.npy", found.mean_image)
    transforms = [CenterCrop(5), SubtractMean(tmp_path / "mean.npy"), Normalize(0.0, 1.0)]
    with stoker.ImageLoader(
        tmp_path / "shards", batch_size=3, transforms=transforms, color="as_stored"
    ) as loader:
        assert abs(next(iter(loader)).image.mean()) < 0.1
    with pytest.raises(ConfigError, match=r"not an image.*mean.png"):
        save_mean_image(tmp_path / "mean.png", found.mean_image)


def test_an_array_of_another_form_than_the_first_is_named(tmp_path: Path) -> None:
    (tmp_path / "tiles").mkdir()
    for i, channels in enumerate((4, 5)):
        np.save(tmp_path / "tiles" / f"{i}.npy", np.zeros((3, 3, channels), np.uint8))
    stoker.convert(
        tmp_path / "tiles", tmp_path / "shards", source_options=stoker.SourceOptions(unlabelled=True)
    )
    with pytest.raises(DecodeError, match=r"the array has 5 channels of uint8, and the first image 4.*1.npy"):
        pixel_statistics(stoker.open(tmp_path / "shards"))


def test_a_dataset_that_cannot_be_measured_is_refused(pictures, pack_images: Callable[..., Path]) -> None:
    payloads = [encode(p, "PNG") for p in pictures[:3]]
    payloads[1] = payloads[1][:60] + bytes(len(payloads[1]) - 60)
    dataset = stoker.open(pack_images(payloads))
    with pytest.raises(DatasetError, match="holds no images"):
        pixel_statistics(dataset.select([]))
    with pytest.raises(DecodeError) as caught:
        pixel_statistics(dataset)
    assert (caught.value.key, caught.value.record) == ("k1", 1)
    flip_bit(dataset, 2, byte=50)
    with pytest.raises(CorruptRecordError, match="k2"):
        pixel_statistics(dataset.select([0, 2]))
