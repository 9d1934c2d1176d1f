"""The native engine: custom steps, the memory of batches, and restart markers."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest
from helpers.annotations import write_annotated
from helpers.images import COUNT, exif, work_of
from helpers.loaders import image_arguments, settings_of
from helpers.processes import wait_until
from helpers.transforms import RandomUpset, RandomUpsetTogether, darken, images, of_both_engines
from PIL import Image

import stoker
from stoker import _native
from stoker.augment import (
    CenterCrop,
    ColorJitter,
    GaussianBlur,
    Mosaic,
    Normalize,
    RandomAffine,
    RandomCrop,
    RandomErasing,
    RandomHorizontalFlip,
    RandomPosterize,
    RandomResizedCrop,
    Resize,
    Transform,
    Views,
    compile_image,
)
from stoker.augment import steps as kinds
from stoker.augment.params import ImageParams
from stoker.augment.steps import Compiled, Solarize, is_custom
from stoker.errors import ConfigError, EngineError
from stoker.formats.codecs.codec import Codec
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.dataset.index import Samples
from stoker.formats.open import open as open_dataset
from stoker.pipeline.engines import native as engine
from stoker.pipeline.engines import native as native_steps
from stoker.pipeline.engines.base import EngineSettings, ImageFormat, Result, Status, Work
from stoker.pipeline.engines.native import ByteRanges, NativeEngine, needed_bytes
from stoker.pipeline.engines.registry import make_engine


@dataclass(frozen=True)
class RandomDarken(Transform):
    """A compiled function, which may stand before other steps."""

    function: ClassVar[Any] = darken

    draws: ClassVar[int] = 2

    def params(self, state: Any, u: Any) -> None:
        state.add_steps(Compiled(u[:, 0] < 0.7, u[:, 1:], type(self).function))


def test_a_compiled_function_runs_in_the_native_engine_also_between_other_steps(thumbnails: Path) -> None:
    transforms = [RandomCrop(24), RandomDarken(), RandomPosterize(4), RandomDarken(), RandomHorizontalFlip()]
    np.testing.assert_array_equal(*of_both_engines(thumbnails, transforms))
    with stoker.ImageLoader(thumbnails, batch_size=4, transforms={"views": Views(2, transforms)}) as loader:
        assert loader.engine == "native"
        assert next(iter(loader)).views.shape == (2, 4, 3, 24, 24)


def test_a_function_of_numba_and_an_address_are_compiled_functions() -> None:
    numba = pytest.importorskip("numba")

    @numba.cfunc("void(CPointer(uint8), int64, int64, CPointer(float64))")
    def invert(rgb: Any, height: int, width: int, values: Any) -> None:
        for k in range(3 * height * width):
            rgb[k] = 255 - rgb[k]

    pixels = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    for function in (invert, invert.address):
        step = Compiled(np.ones(1, bool), np.zeros((1, 0)), function)
        step.check(1)
        np.testing.assert_array_equal(step.run(0, pixels), 255 - pixels)


@pytest.mark.parametrize("wrong", [None, 0, True, len])
def test_what_is_no_compiled_function_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="function must be a compiled function"):
        Compiled(np.ones(1, bool), np.zeros((1, 0)), wrong).check(1)


def test_values_of_a_compiled_function_have_a_row_for_each_sample() -> None:
    with pytest.raises(ConfigError, match=r"values must be \(1, K\) float64"):
        Compiled(np.ones(1, bool), np.zeros(1), darken).check(1)


@dataclass(frozen=True)
class OtherSolarize(Solarize):
    """A step that inherits the name of a C++ operation."""


def load(dataset: Path, transforms: Any, **options: Any) -> stoker.ImageLoader:
    return stoker.ImageLoader(
        dataset, **image_arguments(transforms=transforms, **{"batch_size": 4, **options})
    )


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


@pytest.mark.parametrize("dtype", ["uint8", "float16", "bfloat16", "float32"])
def test_a_step_that_changes_nothing_leaves_the_pixels_of_a_single_pass(thumbnails: Path, dtype: Any) -> None:
    def pixels(p: float) -> Any:
        later = [ColorJitter(0.4, 0.4, 0.4), RandomErasing(0.5, value="random")]
        return images(thumbnails, [RandomResizedCrop(24), RandomUpset(p, "same"), *later], dtype=dtype)

    np.testing.assert_array_equal(pixels(0).view(np.uint8), pixels(1).view(np.uint8))


@pytest.mark.parametrize("together", [False, True])
def test_steps_change_mosaics(pack_images: Callable[..., Path], together: bool) -> None:
    transforms = [Mosaic(48), RandomHorizontalFlip(), random_upset(together), Normalize()]
    native, reference = of_both_engines(write_annotated(pack_images), transforms)
    assert np.abs(native - reference).max() <= 1.001 / 255 / 0.224


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_steps_change_images_of_other_codecs(
    pack_images: Callable[..., Path], encode_picture: Callable[..., bytes], kind: str
) -> None:
    dataset = pack_images([encode_picture(i, kind) for i in range(5)])
    np.testing.assert_array_equal(*of_both_engines(dataset, [RandomCrop(20), RandomUpset()]))


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize(("upset", "name"), [(RandomUpset, "Upset"), (RandomUpsetTogether, "UpsetTogether")])
def test_an_error_in_a_step_names_step_and_sample(
    thumbnails: Path, engine: str, on_error: Any, upset: Any, name: str
) -> None:
    options = {"engine": engine, "on_error": on_error}
    with pytest.raises(EngineError, match=rf"^{name}: .* raised KeyError: .*\(key 'k2'\)") as caught:
        images(thumbnails, [RandomCrop(24), upset(1, "raises")], **options)
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(ConfigError, match=rf"^{name}: .* must return .* uint8") as refused:
        images(thumbnails, [RandomCrop(24), upset(1, "floats")], **options)
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


def test_a_smaller_batch_takes_the_memory_of_the_largest_so_far(thumbnails: Path) -> None:
    asked: list[int] = []

    def empty(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
        asked.append(math.prod(shape))
        return np.empty(shape, dtype)

    opened = open_dataset(thumbnails)
    samples = opened.samples(np.arange(2))
    with closing(NativeEngine(settings_of(opened, allocate=empty))) as engine:
        for side in (4, 8, 2, 8):
            first, second = (
                compile_image([Resize(size)]).draw(samples.height, samples.width, samples.row, 0, 0)
                for size in ((side, 6), (5, 5))
            )
            engine.submit(Work(samples, first, (second,)))
            result = engine.collect()
            assert result.images.flags.c_contiguous
            assert [images.shape for images in result.columns] == [(2, 3, side, 6), (2, 3, 5, 5)]
    assert asked == [2 * 3 * 24, 150, 2 * 3 * 48, 150, 2 * 3 * 48, 150, 2 * 3 * 48, 150]


@pytest.fixture
def dataset(tmp_path: Path) -> stoker.Dataset:
    """Eight JPEGs with restart markers, of 3 to 6 bands: 4:4:4, 4:2:0, and one to be rotated."""
    photos = tmp_path / "photos" / "a"
    photos.mkdir(parents=True)
    for i in range(8):
        noise = np.random.default_rng(i).integers(0, 256, (200 + 11 * i, 161, 3), dtype=np.uint8)
        Image.fromarray(noise).save(
            photos / f"{i}.jpg", quality=60, subsampling=i % 2 * 2, exif=exif(6 if i == 7 else 1)
        )
    stoker.convert(photos.parent, tmp_path / "out", storage=stoker.ImageStorage(restarts=True, shards=1))
    return stoker.open(tmp_path / "out")


def band_images(path: Path, size: int) -> list[npt.NDArray[np.uint8]]:
    """The images of each batch of an epoch: crops of a tenth to a third of the area."""
    crop = RandomResizedCrop(size, scale=(0.1, 0.33))
    with stoker.ImageLoader(path, batch_size=4, transforms=[crop], engine="native", seed=3) as loader:
        return [batch[0].copy() for batch in loader]


@pytest.mark.parametrize("size", [96, 8])
def test_bytes_that_are_not_asked_for_are_not_looked_at(
    dataset: stoker.Dataset, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    asked: list[ByteRanges] = []

    def record(*arguments: Any) -> ByteRanges:
        asked.append(needed_bytes(*arguments))
        return asked[-1]

    # What a process asks the kernel to read is seen only in the kernel.
    monkeypatch.setattr(engine, "needed_bytes", record)
    expected = band_images(dataset.path, size)
    shard = next(dataset.path.glob("*.tfrecord"))
    data = np.fromfile(shard, np.uint8)
    asked_alone = np.zeros_like(data)
    for ranges in asked:
        for offset, length in zip(ranges.offset, ranges.length, strict=True):
            asked_alone[offset : offset + length] = data[offset : offset + length]
    asked_alone.tofile(shard)
    for batch, same in zip(band_images(dataset.path, size), expected, strict=True):
        np.testing.assert_array_equal(batch, same)
    share = np.concatenate([ranges.length for ranges in asked[:2]]).sum() / dataset.column("length").sum()
    assert 0.3 < share < 0.85


def test_every_operation_of_the_module_is_claimed() -> None:
    claimed = {getattr(kinds, name).operation for name in native_steps.EXECUTES if hasattr(kinds, name)}
    assert claimed == set(_native.STEP_COLUMNS)


pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


def run(
    files: list[str], sizes: Any, batches: list[Work], name: str = "native", **options: Any
) -> list[Result]:
    """The results of batches over these data files, made one after the other."""
    settings: dict[str, Any] = {"num_threads": 2, "batch_size": COUNT, "max_pixels": 10**6, **options}
    results = []
    form = ImageFormat("uint8", "NHWC")
    with closing(make_engine(name, EngineSettings(files, sizes, form, **settings))) as engine:
        for batch in batches:
            engine.submit(batch)
            results.append(engine.collect())
    return results


def restart_images(dataset: Dataset, transforms: Any, **options: Any) -> np.ndarray:
    batches = [work_of(dataset, transforms, seed) for seed in range(4)]
    results = run([str(file) for file in dataset.data_files], dataset.data_sizes, batches, **options)
    assert not any(result.status.any() for result in results)
    return np.stack([result.images for result in results])


@pytest.mark.parametrize(
    "options", [{}, {"verify": False}, {"mapped": False}, {"exact": True}, {"name": "dali"}], ids=str
)
@pytest.mark.parametrize(
    "transforms",
    [
        [RandomResizedCrop(24, scale=(0.05, 0.4)), RandomHorizontalFlip()],
        [RandomResizedCrop(150, scale=(0.5, 1))],
        [Resize((30, 40))],
        [CenterCrop(90), RandomAffine(20, scale=(2, 3))],
    ],
    ids=["small crops", "large crops", "whole", "warp"],
)
def test_restart_markers_change_no_image(
    datasets: dict[bool, Dataset], transforms: Any, options: dict[str, Any]
) -> None:
    if options.get("name") == "dali":
        pytest.importorskip("nvidia.dali")
    marked, plain = (restart_images(datasets[restarts], transforms, **options) for restarts in (True, False))
    np.testing.assert_array_equal(marked, plain)


def crop_of(samples: Samples, crop: tuple[int, int, int, int]) -> Work:
    """Return a batch that shows a crop of each sample, its pixels unchanged."""
    n, (top, left, height, width) = len(samples), crop
    params = ImageParams(
        size=(height, width),
        crop=np.tile(np.int32([crop]), (n, 1)),
        region=np.tile(np.float64([[top, left, top + height, left + width]]), (n, 1)),
        dest=np.tile(np.int32([[0, 0, height, width]]), (n, 1)),
        flip=np.zeros((n, 2), bool),
        color=np.tile(np.eye(3, 4, dtype=np.float32), (n, 1, 1)),
        fill=np.zeros(3, np.uint8),
    )
    return Work(samples, params)


class TestDamage:
    """Bytes that a crop does not need are neither checked nor looked at; all others are."""

    @pytest.fixture
    def sample(self, datasets: dict[bool, Dataset]) -> Samples:
        return datasets[True].samples([0])

    def statuses(
        self, datasets: dict[bool, Dataset], sample: Samples, at: int, folder: Path
    ) -> list[tuple[int, Status]]:
        """Return the first row and the status of crops after the byte ``at`` of the payload has changed."""
        (file,) = datasets[True].data_files
        data = bytearray(file.read_bytes())
        data[int(sample.offset[0]) + at] ^= 1
        (folder / "shard").write_bytes(data)
        tops = range(0, int(sample.height[0]) - 8, 8)
        batches = [crop_of(sample, (top, 40, 8, 8)) for top in tops]
        results = run([str(folder / "shard")], [len(data)], batches)
        return [(top, Status(int(result.status[0]))) for top, result in zip(tops, results, strict=True)]

    @pytest.mark.skipif(_native.jpeg_decoder() != "stoker", reason="libjpeg-turbo looks at all of an image")
    def test_damage_in_one_band_spoils_only_the_crops_that_show_the_band(
        self, datasets: dict[bool, Dataset], sample: Samples, tmp_path: Path
    ) -> None:
        assert sample.bands is not None
        starts = [start for start in sample.bands[0, 2::2].tolist() if start]
        assert len(starts) >= 3
        found = self.statuses(datasets, sample, starts[1] + 100, tmp_path)
        bad = [top for top, status in found if status == Status.CHECKSUM_MISMATCH]
        assert {status for _, status in found} == {Status.OK, Status.CHECKSUM_MISMATCH}
        assert bad == [top for top, _ in found if bad[0] <= top <= bad[-1]]
        assert 0 < bad[0] < bad[-1] < found[-1][0]

    def test_damage_in_the_headers_spoils_every_crop(
        self, datasets: dict[bool, Dataset], sample: Samples, tmp_path: Path
    ) -> None:
        found = self.statuses(datasets, sample, 30, tmp_path)
        assert {status for _, status in found} == {Status.CHECKSUM_MISMATCH}


@pytest.mark.parametrize("number", range(12))
def test_wrong_bands_of_an_index_change_no_pixel(datasets: dict[bool, Dataset], number: int) -> None:
    dataset = datasets[True]
    samples = dataset.samples(np.arange(COUNT))
    assert samples.bands is not None
    bands = samples.bands.copy()
    bands[:, number] += 1
    wrong = replace(samples, bands=bands)
    files = [str(file) for file in dataset.data_files]
    batches = [crop_of(rows, (100, 50, 60, 70)) for rows in (samples, wrong)]
    right, result = run(files, dataset.data_sizes, batches)
    assert not right.status.any()
    assert not result.status.any()
    np.testing.assert_array_equal(result.images, right.images)


def test_bands_of_a_payload_that_is_no_jpeg_are_ignored(datasets: dict[bool, Dataset]) -> None:
    dataset = datasets[True]
    samples = dataset.samples(np.arange(COUNT))
    wrong = replace(samples, codec=np.full(COUNT, Codec.RAW, np.uint8), crc=samples.crc + 1)
    files = [str(file) for file in dataset.data_files]
    (result,) = run(files, dataset.data_sizes, [crop_of(wrong, (0, 0, 9, 9))])
    assert set(result.status.tolist()) == {Status.CHECKSUM_MISMATCH}
