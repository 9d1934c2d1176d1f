"""Custom steps that come last: the native engine executes the rest, with the pixels of the reference."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.annotations.annotated_scenes import COLUMNS, write_annotated
from helpers.data.annotations.annotated_scenes import first as first_annotated
from helpers.loaders.engine_settings import settings_of
from helpers.processes.waiting import wait_until
from helpers.transforms.custom_steps import RandomUpset, RandomUpsetTogether, images, of_both_engines

import stoker
from stoker.augment import (
    ColorJitter,
    DetectionMosaic,
    GaussianBlur,
    Normalize,
    RandomCrop,
    RandomErasing,
    RandomHorizontalFlip,
    RandomPosterize,
    RandomResizedCrop,
    Views,
    compile_image,
)
from stoker.augment.steps import Solarize, is_custom
from stoker.errors import ConfigError, EngineError
from stoker.formats.open import open as open_dataset
from stoker.pipeline.engines.base import Work
from stoker.pipeline.engines.native.engine import NativeEngine


@dataclass(frozen=True)
class OtherSolarize(Solarize):
    """A step that inherits the name of a C++ operation."""


def load(dataset: Path, transforms: Any, **options: Any) -> stoker.ImageLoader:
    return stoker.ImageLoader(dataset, transforms=transforms, **{"batch_size": 4, **options})


def random_upset(together: bool) -> Any:
    """The transform whose step changes one image, or several together."""
    return RandomUpsetTogether() if together else RandomUpset()


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NHWC4"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_pixels_equal_those_of_the_reference(thumbnails: Path, dtype: Any, layout: Any) -> None:
    normalize = [Normalize()] if dtype == "float32" else []
    transforms = [RandomCrop(24), RandomPosterize(2), RandomUpset(), RandomHorizontalFlip(), *normalize]
    native, reference = of_both_engines(thumbnails, transforms, dtype=dtype, layout=layout)
    assert native.dtype == dtype
    assert native.shape == reference.shape
    np.testing.assert_allclose(native, reference, rtol=0, atol=0 if dtype == "uint8" else 1e-6)


def test_resized_pixels_are_within_a_level_of_the_reference(thumbnails: Path) -> None:
    transforms = [RandomResizedCrop(24), RandomUpset(), RandomHorizontalFlip()]
    native, reference = of_both_engines(thumbnails, transforms)
    assert np.abs(native.astype(int) - reference).max() <= 1


@pytest.mark.parametrize("dtype", ["uint8", "float16", "bfloat16", "float32"])
def test_a_step_that_changes_nothing_leaves_the_pixels_of_a_single_pass(thumbnails: Path, dtype: Any) -> None:
    def pixels(p: float) -> Any:
        later = [ColorJitter(0.4, 0.4, 0.4), RandomErasing(0.5, value="random")]
        return images(thumbnails, [RandomResizedCrop(24), RandomUpset(p, "same"), *later], dtype=dtype)

    np.testing.assert_array_equal(pixels(0).view(np.uint8), pixels(1).view(np.uint8))


@pytest.mark.parametrize("together", [False, True])
def test_steps_change_mosaics(pack_images: Callable[..., Path], together: bool) -> None:
    transforms = [DetectionMosaic(48), RandomHorizontalFlip(), random_upset(together), Normalize()]
    native, reference = of_both_engines(write_annotated(pack_images), transforms)
    assert np.abs(native - reference).max() <= 1.001 / 255 / 0.224


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_steps_change_images_of_other_codecs(
    pack_images: Callable[..., Path], encode_picture: Callable[..., bytes], kind: str
) -> None:
    dataset = pack_images([encode_picture(i, kind) for i in range(5)])
    np.testing.assert_array_equal(*of_both_engines(dataset, [RandomCrop(20), RandomUpset()]))


def test_annotations_follow_their_images(pack_images: Callable[..., Path]) -> None:
    folder = write_annotated(pack_images)
    transforms = [RandomCrop(40), RandomUpset(), RandomHorizontalFlip()]
    native, reference = (
        first_annotated(folder, transforms=transforms, objects="padded", engine=engine)
        for engine in ("native", "reference")
    )
    for name in COLUMNS:
        np.testing.assert_equal(getattr(native, name), getattr(reference, name))


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_an_error_in_a_step_names_step_and_sample(thumbnails: Path, engine: str, on_error: Any) -> None:
    raising = [RandomCrop(24), RandomUpset(1, "raises")]
    with pytest.raises(
        EngineError, match=r"^Upset: apply raised KeyError: 'no such lamp' \(key 'k2'\)"
    ) as caught:
        images(thumbnails, raising, engine=engine, on_error=on_error)
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(ConfigError, match=r"^Upset: apply must return \(24, 24, 3\) uint8") as refused:
        images(thumbnails, [RandomCrop(24), RandomUpset(1, "floats")], engine=engine, on_error=on_error)
    assert refused.value.key == "k0"


@pytest.fixture
def damaged(pack_images: Callable[..., Path], make_jpeg: Callable[..., bytes]) -> Path:
    """Eight images; those for which the step raises, 2 and 5, have another checksum."""
    payloads = [make_jpeg(i) for i in range(8)]
    crc = open_dataset(pack_images(payloads)).index.column("crc").copy()
    crc[[2, 5]] ^= 1
    return pack_images(payloads, crc=crc)


@pytest.mark.filterwarnings("ignore:a bad sample was")
def test_bad_samples_are_skipped_before_the_step(damaged: Path) -> None:
    transforms = [RandomCrop(10), RandomUpset(1, "raises")]
    native, reference = of_both_engines(damaged, transforms, on_error="skip", max_bad=2)
    assert len(native) == 6
    np.testing.assert_array_equal(native, reference)


def test_images_of_bad_samples_are_zeros_in_a_batch_with_steps(damaged: Path) -> None:
    opened = open_dataset(damaged)
    samples = opened.samples(np.arange(8))
    transforms = [RandomCrop(10), RandomUpset(1, "raises"), Normalize()]
    params = compile_image(transforms).draw(samples.height, samples.width, samples.row, 0, 0)
    with closing(NativeEngine(settings_of(opened, num_threads=2))) as engine:
        engine.submit(Work(samples, params))
        result = engine.collect()
    assert list(result.reason) == [2, 5]
    assert [i for i in range(8) if not result.images[i].any()] == [2, 5]


def test_batches_do_not_depend_on_the_number_of_threads(thumbnails: Path) -> None:
    transforms = [RandomResizedCrop(24), RandomUpset(), Normalize()]
    one, four = (images(thumbnails, transforms, num_threads=threads) for threads in (1, 4))
    np.testing.assert_array_equal(one, four)


def test_threads_of_steps_end_with_their_loader(
    thumbnails: Path, new_threads: Callable[[str], list[threading.Thread]]
) -> None:
    with load(thumbnails, [RandomResizedCrop(24), RandomUpset()]) as loader:
        next(iter(loader))
        assert new_threads("stoker-python")
    wait_until(lambda: not new_threads("stoker-"))


@pytest.mark.parametrize("together", [False, True])
def test_steps_in_views_run_in_the_native_engine(thumbnails: Path, together: bool) -> None:
    large = [RandomCrop(24), RandomPosterize(2), random_upset(together), RandomHorizontalFlip()]
    transforms = {
        "large": Views(3, large),
        "plain": [RandomCrop(20)],
        "small": Views(2, [RandomCrop(12), RandomUpset()]),
    }
    native, reference = (
        list(load(thumbnails, transforms, batch_size=7, engine=engine, num_threads=3, seed=4))
        for engine in ("native", "reference")
    )
    for batch, expected in zip(native, reference, strict=True):
        for name in transforms:
            np.testing.assert_array_equal(getattr(batch, name), getattr(expected, name))
    with load(thumbnails, transforms) as loader:
        assert (loader.engine, loader.stats().slow_steps) == ("native", ())


def test_a_step_that_another_column_runs_before_others_is_slow(thumbnails: Path) -> None:
    transforms: Any = {
        "last": [RandomCrop(8), RandomUpset()],
        "first": [RandomCrop(8), RandomUpset(), GaussianBlur(3)],
    }
    with pytest.warns(UserWarning, match="Upset before another"):
        assert load(thumbnails, transforms).engine == "reference"


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_an_error_in_a_step_of_a_view_names_the_sample(thumbnails: Path, engine: str) -> None:
    transforms = {"views": Views(2, [RandomCrop(8), RandomUpset(1, "raises")])}
    with pytest.raises(EngineError, match=r"no such lamp' \(key 'k[12]'\)"):
        next(iter(load(thumbnails, transforms, engine=engine)))


@pytest.mark.parametrize("sizes", ["padded", "ragged"])
@pytest.mark.parametrize("together", [False, True])
def test_steps_get_images_without_padding(
    pack_images: Callable[..., Path], make_jpeg: Callable[..., bytes], sizes: Any, together: bool
) -> None:
    dataset = pack_images([make_jpeg(i, 10 + 3 * i, 30 - i) for i in range(6)])
    transforms = [RandomHorizontalFlip(), random_upset(together), Normalize()]
    native, reference = (
        list(load(dataset, transforms, engine=engine, sizes=sizes)) for engine in ("native", "reference")
    )
    assert len({len(image[0]) for batch in native for image in batch.image}) > 1
    for batch, expected in zip(native, reference, strict=True):
        for image, same in zip(batch.image, expected.image, strict=True):
            np.testing.assert_allclose(image, same, rtol=0, atol=1e-6)


def test_custom_steps_come_last_if_no_step_of_stoker_follows() -> None:
    def last(*transforms: Any) -> set[str]:
        return set(compile_image([RandomCrop(24), *transforms]).last_custom_steps)

    assert last(GaussianBlur(3), RandomUpset(), ColorJitter(0.4), Normalize()) == {"Upset"}
    assert last(RandomUpset(), RandomUpset()) == {"Upset"}
    assert last(RandomUpset(), GaussianBlur(3)) == set()
    assert last(RandomUpset(), GaussianBlur(3), RandomUpset()) == set()
    assert last(RandomUpset(), ColorJitter(0.4), RandomUpset()) == set(), "colours are rounded in between"


def test_a_class_that_inherits_an_operation_is_custom() -> None:
    assert is_custom(OtherSolarize(np.ones(1, bool), np.ones(1, np.int16)))
    assert not is_custom(Solarize(np.ones(1, bool), np.ones(1, np.int16)))


@pytest.mark.parametrize("threads", [1, 3, 20])
@pytest.mark.parametrize("p", [0.0, 0.5, 1.0])
def test_a_step_of_batches_gives_the_pixels_of_images(thumbnails: Path, threads: int, p: float) -> None:
    transforms = [RandomCrop(24), RandomUpset(), RandomUpsetTogether(p), RandomUpset(), Normalize()]
    native, reference = of_both_engines(thumbnails, transforms, num_threads=threads)
    np.testing.assert_allclose(native, reference, rtol=0, atol=1e-6)


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_an_error_in_a_step_of_batches_names_step_and_sample(thumbnails: Path, engine: str) -> None:
    raising = [RandomCrop(24), RandomUpsetTogether(1, "raises")]
    with pytest.raises(EngineError, match=r"^UpsetTogether: .* raised KeyError: .*\(key 'k2'\)"):
        images(thumbnails, raising, engine=engine)
    with pytest.raises(ConfigError, match=r"^UpsetTogether: .* must return .* uint8") as refused:
        images(thumbnails, [RandomCrop(24), RandomUpsetTogether(1, "floats")], engine=engine)
    assert refused.value.key == "k0"
