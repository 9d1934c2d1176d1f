"""The native engine against Pillow, on every kind of image that it decodes itself."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.images import decode_with_pillow, encode, first_images
from helpers.payloads import execute, photograph, samples_of, whole
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from stoker.augment import ColorJitter, ImageParams, RandomResizedCrop, Resize, reference
from stoker.augment.resampling import Interpolation
from stoker.formats.codecs.codec import Codec
from stoker.pipeline.engines.base import ImageFormat
from stoker.types import DType, Layout

IDENTITY = np.eye(3, 4, dtype=np.float32)
MIXING = np.array(
    [[0.513, 0.247, 0.2531, -3.1], [0.1037, 0.811, 0.097, 2.3], [-0.213, 0.317, 0.891, 1.7]], np.float32
)
ORIENTATION = 0x0112


@dataclass(frozen=True)
class Case:
    """An image and its transform; boxes are shares of the image before them."""

    height: int
    width: int
    orientation: int
    saved: dict[str, Any]
    crop: tuple[float, float, float, float]
    region: tuple[float, float, float, float]
    dest: tuple[float, float, float, float]
    flip: tuple[bool, bool]
    size: tuple[int, int]
    mode: str = "RGB"
    raw: bool = False
    interpolation: Interpolation | None = None


def params_of(case: Case, height: int, width: int) -> ImageParams:
    """Parameters of one sample; ``height`` and ``width`` are those of the oriented image."""

    def within(share: tuple[float, float, float, float], h: int, w: int) -> list[int]:
        rows, columns = max(1, round(share[2] * h)), max(1, round(share[3] * w))
        return [round(share[0] * (h - rows)), round(share[1] * (w - columns)), rows, columns]

    crop = within(case.crop, height, width)
    top, left, rows, columns = crop
    y = sorted([top + case.region[0] * rows, top + case.region[2] * rows])
    x = sorted([left + case.region[1] * columns, left + case.region[3] * columns])
    if y[1] - y[0] < 0.01 or x[1] - x[0] < 0.01:
        y, x = [top, top + rows], [left, left + columns]
    return ImageParams(
        size=case.size,
        crop=np.array([crop], np.int32),
        region=np.array([[y[0], x[0], y[1], x[1]]], np.float64),
        dest=np.array([within(case.dest, *case.size)], np.int32),
        flip=np.array([case.flip]),
        color=IDENTITY[None],
        fill=np.array([1, 128, 254], np.uint8),
        interpolation=None if case.interpolation is None else np.array([case.interpolation], np.uint8),
    )


def is_reduced(params: ImageParams) -> bool:
    """Whether the engine may decode the crop in a smaller DCT size."""
    if params.interpolation is not None and params.interpolation[0] == Interpolation.NEAREST:
        return False
    size = params.region[0, 2:] - params.region[0, :2]
    return bool((size >= 4 * params.dest[0, 2:]).all())


fractions = st.floats(0, 1, width=32)
boxes = st.tuples(fractions, fractions, fractions, fractions)
full = st.just((0.0, 0.0, 1.0, 1.0))
saved = st.fixed_dictionaries(
    {"quality": st.integers(20, 98), "subsampling": st.sampled_from(["4:4:4", "4:2:2", "4:2:0"])},
    optional={"progressive": st.booleans(), "restart_marker_rows": st.integers(1, 2)},
)
cases = st.builds(
    Case,
    height=st.integers(1, 150),
    width=st.integers(1, 150),
    orientation=st.integers(1, 8),
    saved=saved,
    crop=boxes | full,
    region=boxes | full,
    dest=boxes | full,
    flip=st.tuples(st.booleans(), st.booleans()),
    size=st.tuples(st.integers(1, 90), st.integers(1, 90)),
    mode=st.sampled_from(["RGB", "RGB", "L", "CMYK"]),
    raw=st.booleans(),
    interpolation=st.none() | st.sampled_from(Interpolation),
)


def most_levels(interpolation: Interpolation | None) -> int:
    """The tolerance: both passes round, and filters with lobes weigh the first rounding by more than 1."""
    if interpolation is None or interpolation == Interpolation.BILINEAR:
        return 1
    return 0 if interpolation == Interpolation.NEAREST else 2


@settings(max_examples=150)
@given(case=cases)
def test_every_kind_of_image_and_resize_is_near_pillow(
    case: Case, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "shard"
    payload = encode(
        photograph(case.height, case.width).convert(case.mode), orientation=case.orientation, **case.saved
    )
    pixels = decode_with_pillow(payload)
    height, width = pixels.shape[:2]
    samples = (
        samples_of([pixels.tobytes()], path, (height, width), Codec.RAW)
        if case.raw
        else samples_of([payload], path, (height, width), orientation=case.orientation)
    )
    params = params_of(case, height, width)
    result = execute(samples, params, path, ImageFormat("float32", "NCHW"))
    assert result.status.tolist() == [0], result.reason
    difference = np.abs(result.images[0] - reference.execute(params, 0, pixels))
    if not case.raw and is_reduced(params):
        # A handful of pixels may differ by much in noise; large reductions have a test of their own.
        assert difference.mean() <= 20
    else:
        assert difference.max() <= most_levels(case.interpolation)
        assert (difference > 1).mean() <= 0.005


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("size", [(20, 15), (10, 60), (7, 9)])
def test_nearest_takes_the_same_pixel_in_every_orientation(
    orientation: int, size: tuple[int, int], tmp_path: Path
) -> None:
    payload = encode(photograph(40, 30) if orientation < 5 else photograph(30, 40), orientation=orientation)
    params = whole(size, (40, 30), interpolation=np.array([Interpolation.NEAREST], np.uint8))
    samples = samples_of([payload], tmp_path / "shard", (40, 30), orientation=orientation)
    result = execute(samples, params, tmp_path / "shard")
    rows, columns = (((2 * np.arange(n) + 1) * of) // (2 * n) for n, of in zip(size, (40, 30), strict=True))
    np.testing.assert_array_equal(result.images[0], decode_with_pillow(payload)[np.ix_(rows, columns)])


@pytest.mark.parametrize("interpolation", [None, Interpolation.BICUBIC, Interpolation.LANCZOS])
@pytest.mark.parametrize("size", [None, (64, 64), (31, 47), (31, 17)])
def test_reduced_decoding_is_near_pillow(
    size: tuple[int, int] | None, interpolation: Interpolation | None, tmp_path: Path, photographs: list[Path]
) -> None:
    """The stated tolerance: a mean absolute difference of one level over photographs, of two in one."""
    differences = []
    for path in photographs[::5]:
        with Image.open(path) as image:
            height, width = image.height, image.width
            orientation = image.getexif().get(ORIENTATION, 1)
        kind = None if interpolation is None else np.array([interpolation], np.uint8)
        params = whole(size or (height // 4, width // 4), (height, width), interpolation=kind)
        if not is_reduced(params):
            continue
        payload = path.read_bytes()
        expected = reference.execute(params, 0, decode_with_pillow(payload))
        samples = samples_of([payload], tmp_path / "shard", (height, width), orientation=orientation)
        result = execute(samples, params, tmp_path / "shard", ImageFormat())
        differences.append(np.abs(result.images[0].astype(float) - expected).mean())
    assert len(differences) > 20
    assert np.mean(differences) <= 1
    assert max(differences) <= 2


@pytest.mark.parametrize("side", [32, 64])
def test_random_crops_of_photographs_are_near_the_reference(side: int, dataset: Path) -> None:
    """The same tolerance for the random crops of trainings, which reduce each photograph differently."""
    transforms = [RandomResizedCrop(side), ColorJitter(0.4, 0.4, 0.4)]
    options: dict[str, Any] = {"batch_size": 156, "seed": 3, "dtype": "uint8", "num_threads": 2}
    found, expected = (
        first_images(dataset, transforms, engine=engine, **options).astype(int)
        for engine in ("native", "reference")
    )
    differences = np.abs(found - expected).mean(axis=(1, 2, 3))
    assert len(differences) == 156
    assert differences.mean() <= 1
    assert differences.max() <= 2


@pytest.mark.parametrize("size", [(64, 64), (31, 17)])
def test_an_exact_loader_decodes_at_full_size(
    size: tuple[int, int], pack_images: Callable[..., Path], photographs: list[Path]
) -> None:
    dataset = pack_images([path.read_bytes() for path in photographs[::20]])
    exact, reduced, expected = (
        first_images(dataset, [Resize(size)], batch_size=99, dtype="uint8", **options).astype(int)
        for options in ({"engine": "native", "exact": True}, {"engine": "native"}, {"engine": "reference"})
    )
    assert np.abs(exact - expected).max() <= 1
    assert np.abs(reduced - expected).max() > 1


@pytest.mark.parametrize(("height", "width"), [(267, 403), (270, 405), (135, 209)])
def test_reduced_decoding_reaches_the_edges(height: int, width: int, tmp_path: Path) -> None:
    """The last rows and columns of an image are seen, though they fill no pixel of the smaller DCT size."""
    pixels = np.full((height, width, 3), 220, np.uint8)
    pixels[-5:], pixels[:, -5:] = 40, 40
    payload = encode(Image.fromarray(pixels), quality=95)
    params = whole((height // 4, width // 4), (height, width))
    samples = samples_of([payload], tmp_path / "shard", (height, width))
    result = execute(samples, params, tmp_path / "shard", ImageFormat())
    expected = reference.execute(params, 0, decode_with_pillow(payload))
    assert np.abs(result.images[0].astype(int) - expected).max() <= 25


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NHWC4"])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "bfloat16", "float32"])
@pytest.mark.parametrize("color", [IDENTITY, MIXING, IDENTITY * np.float32(0.017) - np.float32(1.9)])
@pytest.mark.parametrize("width", [37, 64, 200])
def test_every_dtype_and_layout_has_the_values_of_the_reference(
    dtype: DType, layout: Layout, color: Any, width: int, tmp_path: Path
) -> None:
    if color is not MIXING:
        color = np.where(np.eye(3, 4, dtype=bool) | (np.arange(4) == 3), color, np.float32(0))
    pixels = np.asarray(photograph(23, width))
    samples = samples_of([pixels.tobytes()], tmp_path / "shard", (23, width), Codec.RAW)
    params = whole((23, width), (23, width), color=np.array([color], np.float32))
    result = execute(samples, params, tmp_path / "shard", ImageFormat(dtype, layout))
    expected = reference.execute(params, 0, pixels, dtype, layout)
    assert result.images.dtype == expected.dtype
    assert result.images.ctypes.data % 64 == 0
    # The engine computes in float32 and the reference in float64: they may differ by one ULP at a tie.
    got, want = (
        (result.images[0].view(np.int16), expected.view(np.int16))
        if dtype in ("float16", "bfloat16")
        else (result.images[0], expected)
    )
    if dtype == "float32":
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-4)
    else:
        assert np.abs(got.astype(np.int64) - want.astype(np.int64)).max() <= 1
        assert (got != want).mean() < 0.01


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NHWC4"])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
@pytest.mark.parametrize("width", [224, 225])
def test_large_batches_have_the_bytes_of_small_ones(
    dtype: DType, layout: Layout, width: int, tmp_path: Path
) -> None:
    """Batches from 4 MiB on are stored by other code."""
    pixels = np.asarray(photograph(50, 60))
    results = []
    for n in (1, 32):
        samples = samples_of([pixels.tobytes()] * n, tmp_path / "shard", (50, 60), Codec.RAW)
        params = whole((224, width), (50, 60), n, color=np.tile(MIXING, (n, 1, 1)))
        output = ImageFormat(dtype, layout)
        results.append(execute(samples, params, tmp_path / "shard", output, threads=2).images)
    np.testing.assert_array_equal(results[1], np.repeat(results[0], 32, axis=0))
