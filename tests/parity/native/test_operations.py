"""Steps, warps, means and erased boxes: the native engine against the reference.

Raw pixels that are not resized give both the same image to begin with, so that what steps do to it can be
compared level by level.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from helpers.images import decode_with_pillow, encode
from helpers.payloads import execute, photograph, samples_of, whole
from helpers.processes import BatchForm, digests_at_level
from helpers.transforms import MEAN, STEP_CASES, WHERE, N, rows
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from stoker import _native
from stoker.augment import ImageParams, RandomCrop, Resize, compile_image, reference
from stoker.augment.params import Erase, Noise, Warp
from stoker.augment.resampling import Interpolation
from stoker.formats.codecs.codec import Codec
from stoker.formats.dataset.index import Samples
from stoker.pipeline.engines.base import ImageFormat

Pixels = npt.NDArray[np.uint8]
SIZES = [(1, 1), (2, 5), (3, 3), (37, 97), (40, 200)]
EXACT = {name: case.step for name, case in STEP_CASES.items() if not case.native}
whole_batch = partial(whole, n=N)


def pixels_of(height: int, width: int, seed: int = 0) -> Pixels:
    return np.asarray(photograph(height, width, seed))


def images_of(samples: Samples, params: ImageParams, path: Path, output: ImageFormat | None = None) -> Any:
    result = execute(samples, params, path, output or ImageFormat("float32", "NHWC"), threads=2)
    assert not result.status.any(), result.reason
    return result.images


def difference(images: list[Pixels], params: ImageParams, path: Path) -> npt.NDArray[np.float64]:
    """How far the images of both engines are apart, which are made of raw pixels."""
    height, width = images[0].shape[:2]
    samples = samples_of([image.tobytes() for image in images], path, (height, width), Codec.RAW)
    expected = [reference.execute(params, i, image, "float32", "NHWC") for i, image in enumerate(images)]
    return np.abs(images_of(samples, params, path).astype(np.float64) - np.stack(expected))


def test_every_native_step_has_an_example() -> None:
    assert {case.step.operation for case in STEP_CASES.values()} == set(_native.STEP_COLUMNS)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", STEP_CASES)
def test_a_step_is_near_the_reference(name: str, size: tuple[int, int], tmp_path: Path) -> None:
    case = STEP_CASES[name]
    images = [pixels_of(*size, seed) // (1 if case.native else 1 + seed) for seed in range(N)]
    levels = difference(images, whole_batch(size, size, steps=(case.step,)), tmp_path / "shard")
    assert levels.max() <= case.native
    assert levels.mean() < 0.05


@settings(max_examples=60)
@given(names=st.lists(st.sampled_from(sorted(EXACT)), min_size=2, max_size=6), size=st.sampled_from(SIZES))
def test_chains_of_exact_steps_equal_the_reference(
    names: list[str], size: tuple[int, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Combined tables lose nothing, in any combination."""
    path = tmp_path_factory.getbasetemp() / "shard"
    images = [pixels_of(*size, seed) for seed in range(N)]
    params = whole_batch(size, size, steps=tuple(EXACT[name] for name in names))
    assert difference(images, params, path).max() == 0


@pytest.mark.parametrize("erased", [False, True])
@pytest.mark.parametrize("steps", [None, (EXACT["equalize"],)])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NHWC4"])
def test_contrast_and_erased_boxes_are_near_the_reference(
    steps: Any, erased: bool, dtype: Any, layout: Any, tmp_path: Path
) -> None:
    images = [pixels_of(37, 97, seed) for seed in range(N)]
    boxes = np.array([[3, 4, 10, 70], [0, 0, 37, 97], [36, 96, 0, 1]], np.int32)
    first = Erase(boxes, np.array([1, 20, 200], np.float32))
    noise = Noise(np.array([3, 2**63, 0], np.uint64), np.array([20, 50, -3], np.float32))
    second = Erase(boxes[::-1].copy(), np.array([0, 255, 4], np.float32), noise)
    mean = MEAN * np.array([1, 0, 1], np.float32)[:, None, None]
    erase = (first, second) if erased else None
    params = whole_batch((37, 97), (37, 97), mean_matrix=mean, steps=steps, erase=erase)
    path = tmp_path / "shard"
    samples = samples_of([image.tobytes() for image in images], path, (37, 97), Codec.RAW)
    got = images_of(samples, params, path, ImageFormat(dtype, layout))
    expected = np.stack(
        [reference.execute(params, i, image, dtype, layout) for i, image in enumerate(images)]
    )
    assert (
        np.abs(got.astype(np.float64) - expected).max()
        <= {"uint8": 1, "float16": 0.13, "float32": 1e-4}[dtype]
    )


def rotation(angle: float, scale: float, size: tuple[int, int]) -> npt.NDArray[np.float64]:
    """Rotation about the middle, which shows more of the image the larger ``scale`` is."""
    cos, sin = np.cos(angle) * scale, np.sin(angle) * scale
    y, x = size[0] / 2, size[1] / 2
    return np.array([[cos, -sin, x - cos * x + sin * y], [sin, cos, y - sin * x - cos * y], [0, 0, 1]])


def random_projection(seed: int) -> npt.NDArray[np.float64]:
    """A projective map that may have its horizon in the picture."""
    return np.asarray(
        np.eye(3)
        + np.random.default_rng(seed).normal(0, 1, (3, 3)) * [[1, 1, 50], [1, 1, 50], [0.02, 0.02, 0.3]]
    )


@pytest.mark.parametrize("source", [(131, 97), (20, 31), (1, 1)])
@pytest.mark.parametrize(
    "matrix",
    [
        *(
            lambda size, a=angle, s=scale: rotation(a, s, size)
            for angle in (0, 0.3, -2.2)
            for scale in (0.2, 1, 1.7, 40)
        ),
        *(lambda size, s=seed: random_projection(s) for seed in range(8)),
        lambda size: np.diag([1e300, 1e-300, 1]),
        lambda size: np.zeros((3, 3)),
    ],
)
def test_warps_are_near_the_reference(
    matrix: Callable[[Any], Any], source: tuple[int, int], tmp_path: Path
) -> None:
    """Within a level, at ties and for the 256th of a pixel to which coordinates are rounded.

    Along the axes there are two passes as in any resize, and what lies between is rounded, too.
    """
    size = (73, 61)
    warp = Warp(np.tile(matrix(size), (N, 1, 1)), size, perspective=True)
    params = whole_batch(size, source, warp=warp)
    params.flip[:] = [(0, 0), (1, 0), (1, 1)]
    params.dest[1:] = 4, 5, 60, 50
    with np.errstate(all="ignore"):
        levels = difference([pixels_of(*source, seed) for seed in range(N)], params, tmp_path / "shard")
    assert levels.max() <= 1
    assert (levels > 0).mean() < (0.3 if matrix(size)[0, 1] == 0 else 0.05 if min(source) > 1 else 0.15)


@pytest.mark.parametrize("interpolation", Interpolation)
def test_a_sample_whose_matrix_is_the_identity_is_not_warped(
    interpolation: Interpolation, tmp_path: Path
) -> None:
    size = (37, 31)
    images = [pixels_of(131, 97, seed) for seed in range(N)]
    everything = whole_batch(size, (131, 97), interpolation=np.full(N, interpolation, np.uint8))
    everything.flip[:] = True
    samples = samples_of([image.tobytes() for image in images], tmp_path / "shard", (131, 97), Codec.RAW)
    plain = images_of(samples, everything, tmp_path / "shard")
    matrix = np.stack([np.eye(3), rotation(0.2, 1, size), np.eye(3)])
    warped = replace(everything, warp=Warp(matrix, size))
    got = images_of(samples, warped, tmp_path / "shard")
    bilinear = images_of(samples, replace(warped, interpolation=None), tmp_path / "shard")
    np.testing.assert_array_equal(got[1], bilinear[1])
    assert [(got[i] == plain[i]).all() for i in range(N)] == [True, False, True]
    for i in (0, 2):
        expected = reference.execute(everything, i, images[i])
        np.testing.assert_array_equal(reference.execute(warped, i, images[i]), expected)
    assert Warp(matrix, (40, 40)).applies(0, size)  # it shows a part of its canvas


@pytest.mark.parametrize("nearest", [None, np.array([True])])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_warped_region_of_a_rotated_jpeg_is_near_the_reference(
    orientation: int, nearest: Any, tmp_path: Path
) -> None:
    data = encode(photograph(131, 97), orientation=orientation, quality=90)
    pixels = decode_with_pillow(data)
    height, width = pixels.shape[:2]
    params = whole_batch((73, 61), (height, width), n=1)
    params = replace(params, warp=Warp(rotation(0.4, 1.1, (80, 90))[None], (80, 90), nearest=nearest))
    params.crop[:], params.region[:] = (10, 5, 80, 80), (11.3, 6.2, 88.9, 84.1)
    params.dest[:], params.flip[:] = (4, 5, 60, 70), (True, False)
    path = tmp_path / "shard"
    got = images_of(samples_of([data], path, (height, width), orientation=orientation), params, path)
    levels = np.abs(got[0] - reference.execute(params, 0, pixels, "float32", "NHWC"))
    assert levels.max() <= 1
    assert (levels > 0).mean() < 0.05


@pytest.mark.parametrize(
    "matrix",
    [rotation(0.7, 0.9, (70, 90)), random_projection(1), random_projection(2), np.diag((-1.0, 1, 1))],
)
def test_nearest_pixels_equal_the_reference(matrix: Any, tmp_path: Path) -> None:
    images = [pixels_of(70, 90, seed) for seed in range(N)]
    params = whole_batch((61, 47), (70, 90))
    params.dest[:] = (5, 6, 70, 90)
    params.flip[1:] = (True, False)
    warp = Warp(rows(matrix, np.float64), (80, 100), True, np.full(N, True))
    assert not difference(images, replace(params, warp=warp), tmp_path / "shard").any()
    mixed = replace(params, warp=replace(warp, nearest=WHERE))
    assert difference(images, mixed, tmp_path / "shard").max() <= 1


@pytest.mark.parametrize("orientation", [1, 6, 3])
def test_a_border_of_a_rotated_jpeg_is_near_the_reference(orientation: int, tmp_path: Path) -> None:
    data = encode(photograph(131, 97), orientation=orientation, quality=90)
    pixels = decode_with_pillow(data)
    height, width = pixels.shape[:2]
    plan = compile_image([Resize((70, 60)), RandomCrop((80, 64), 20, padding_mode="reflect")])
    params = plan.draw(*(np.full(N, side) for side in (height, width)), np.arange(N), 0, 0)
    path = tmp_path / "shard"
    got = images_of(samples_of([data] * N, path, (height, width), orientation=orientation), params, path)
    for i in range(N):
        assert np.abs(got[i] - reference.execute(params, i, pixels, "float32", "NHWC")).max() <= 1


@pytest.mark.parametrize(("size", "most"), [((112, 112), 1), ((37, 40), 2)])
def test_a_warp_of_a_reduced_jpeg_is_near_the_reference(
    size: tuple[int, int], most: float, tmp_path: Path, photographs: list[Path]
) -> None:
    """The stated tolerance: a mean absolute difference of one level on photographs, two after more."""
    differences = []
    for photo in photographs[::40]:
        image = Image.open(photo).convert("RGB").resize((450, 350), Image.Resampling.BICUBIC)
        data = encode(image, quality=92)
        params = whole_batch(size, (350, 450), n=1, warp=Warp(rotation(0.3, 1, size)[None], size))
        path = tmp_path / "shard"
        got = images_of(samples_of([data], path, (350, 450)), params, path)
        expected = reference.execute(params, 0, decode_with_pillow(data), "float32", "NHWC")
        differences.append(np.abs(got[0] - expected).mean())
    assert max(differences) <= most


def test_instruction_sets_change_nothing(tmp_path: Path) -> None:
    """The same bytes of all steps, of warps and of resizes from every level that this machine has."""
    size, path = (51, 77), tmp_path / "shard"
    samples = samples_of([pixels_of(61, 77, seed).tobytes() for seed in range(N)], path, (61, 77), Codec.RAW)
    steps = [case.step for case in STEP_CASES.values()]
    steps.remove(EXACT["compiled"])  # an address means nothing in another process
    everything = whole_batch(size, (61, 77), mean_matrix=MEAN)
    turned = {scale: rows(rotation(0.3, scale, size), np.float64) for scale in (0.5, 1.6, 2, 3)}
    projected = [rows(random_projection(seed), np.float64) for seed in range(4)]
    params = [
        *(replace(everything, steps=(step,)) for step in steps),
        *(replace(everything, warp=Warp(turned[scale], size)) for scale in (0.5, 1.6, 3)),
        *(replace(everything, warp=Warp(matrix, size, True)) for matrix in projected),
        replace(everything, warp=Warp(turned[2], size, nearest=WHERE)),
        *(
            whole_batch(resized, (61, 77), interpolation=np.full(N, interpolation, np.uint8))
            for resized in ((150, 41), (20, 19), (40, 100))
            for interpolation in Interpolation
        ),
    ]
    batches: list[BatchForm] = [("uint8", "NCHW", batch) for batch in params]
    levels = (digests_at_level(level, path, samples, batches) for level in ("plain", "avx2", "avx512"))
    assert len(set(map(tuple, levels))) == 1
