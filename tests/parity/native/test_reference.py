"""The native engine against Pillow, on every kind of image that it decodes itself."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.pillow_decoding import decode_with_pillow, without_adobe_marker
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from stoker import ImageLoader, _native
from stoker.augment import ImageParams, Resize
from stoker.augment.geometry.interpolation import Interpolation
from stoker.augment.reference import reference
from stoker.formats.codecs.codec import Codec
from stoker.formats.codecs.decode import decode_for_reference
from stoker.formats.dataset.samples import Samples
from stoker.pipeline.engines.base import ImageFormat, Result, Work
from stoker.pipeline.engines.native.engine import NativeEngine
from stoker.types import DType, Layout

IDENTITY = np.eye(3, 4, dtype=np.float32)
MIXING = np.array(
    [[0.513, 0.247, 0.2531, -3.1], [0.1037, 0.811, 0.097, 2.3], [-0.213, 0.317, 0.891, 1.7]], np.float32
)
ORIENTATION = 0x0112


@dataclass(frozen=True)
class Case:
    """An image and what is to become of it; boxes are shares of what is there."""

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


def photograph(height: int, width: int, seed: int = 0) -> Image.Image:
    """Something between a photograph and noise: coarse colours, fine grain."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (height // 8 + 2, width // 8 + 2, 3), np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC), np.int16)
    grain = rng.integers(-20, 21, smooth.shape, np.int16)
    return Image.fromarray((smooth + grain).clip(0, 255).astype(np.uint8))


def encode(image: Image.Image, orientation: int = 1, **saved: Any) -> bytes:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    stream = io.BytesIO()
    image.save(stream, "JPEG", exif=exif, **saved)
    return stream.getvalue()


def samples_of(payloads: Sequence[bytes], folder: Path, codec: Codec = Codec.JPEG) -> Samples:
    """Payloads one after the other in the file ``shard``, with the rows of an index."""
    (folder / "shard").write_bytes(b"".join(payloads))
    sizes = [decode_with_pillow(p).shape[:2] if codec == Codec.JPEG else (0, 0) for p in payloads]
    length = np.array([len(payload) for payload in payloads], np.int64)
    n = len(payloads)
    return Samples(
        row=np.arange(n),
        shard=np.zeros(n, np.int32),
        record=np.arange(n),
        offset=np.cumsum(length) - length,
        length=length,
        crc=np.array([_native.crc32c(payload) for payload in payloads], np.uint32),
        codec=np.full(n, codec, np.uint8),
        height=np.array([size[0] for size in sizes], np.int32),
        width=np.array([size[1] for size in sizes], np.int32),
        orientation=np.array([_native.probe(payload)[3] for payload in payloads], np.uint8),
    )


def execute(
    samples: Samples, params: ImageParams, folder: Path, output: ImageFormat, threads: int = 1
) -> Result:
    path = folder / "shard"
    engine = NativeEngine(
        [str(path)],
        [path.stat().st_size],
        output,
        num_threads=threads,
        depth=1,
        max_pixels=10**7,
        verify=True,
    )
    engine.submit(Work(samples, params))
    result = engine.collect()
    engine.close()
    return result


def params_of(case: Case, height: int, width: int, color: Any = IDENTITY) -> ImageParams:
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
        color=np.array([color], np.float32),
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
    """Both passes round, and behind the first one a filter with lobes weighs more than 1."""
    if interpolation is None or interpolation == Interpolation.BILINEAR:
        return 1
    return 0 if interpolation == Interpolation.NEAREST else 2


@settings(max_examples=300)
@given(case=cases)
def test_every_kind_of_image_and_resize_is_near_pillow(
    case: Case, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    payload = encode(photograph(case.height, case.width).convert(case.mode), case.orientation, **case.saved)
    pixels = decode_with_pillow(payload)
    height, width = pixels.shape[:2]
    samples = samples_of(
        [pixels.tobytes() if case.raw else payload], folder, Codec.RAW if case.raw else Codec.JPEG
    )
    samples.height[:], samples.width[:] = height, width
    params = params_of(case, height, width)
    result = execute(samples, params, folder, ImageFormat("float32", "NCHW"))
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
def test_the_nearest_of_two_is_the_same_in_every_orientation(
    orientation: int, size: tuple[int, int], tmp_path: Path
) -> None:
    payload = encode(photograph(40, 30) if orientation < 5 else photograph(30, 40), orientation)
    params = whole(size, (40, 30), interpolation=Interpolation.NEAREST)
    result = execute(samples_of([payload], tmp_path), params, tmp_path, ImageFormat("uint8", "NHWC"))
    rows, columns = (((2 * np.arange(n) + 1) * of) // (2 * n) for n, of in zip(size, (40, 30), strict=True))
    np.testing.assert_array_equal(result.images[0], decode_with_pillow(payload)[np.ix_(rows, columns)])


def whole(
    size: tuple[int, int],
    source: tuple[int, int],
    color: Any = IDENTITY,
    interpolation: Interpolation | None = None,
) -> ImageParams:
    everything = (0, 0, 1, 1)
    case = Case(
        *(0, 0, 1, {}, everything, everything, everything),
        flip=(False, False),
        size=size,
        interpolation=interpolation,
    )
    return params_of(case, *source, color)


@pytest.mark.parametrize("interpolation", [None, Interpolation.BICUBIC, Interpolation.LANCZOS])
@pytest.mark.parametrize("size", [None, (64, 64), (31, 47), (31, 17)])
def test_reduced_decoding_is_near_pillow(
    size: tuple[int, int] | None,
    interpolation: Interpolation | None,
    tmp_path: Path,
    photographs: list[Path],
) -> None:
    """The stated tolerance: a mean absolute difference of one level over photographs, of two in one."""
    differences = []
    for path in photographs[::5]:
        with Image.open(path) as image:
            height, width = image.height, image.width
        params = whole(size or (height // 4, width // 4), (height, width), interpolation=interpolation)
        if not is_reduced(params):
            continue
        payload = path.read_bytes()
        result = execute(samples_of([payload], tmp_path), params, tmp_path, ImageFormat())
        expected = reference.execute(params, 0, decode_with_pillow(payload))
        differences.append(np.abs(result.images[0].astype(float) - expected).mean())
    assert len(differences) > 20
    assert np.mean(differences) <= 1
    assert max(differences) <= 2


@pytest.mark.parametrize("size", [(64, 64), (31, 17)])
def test_an_exact_loader_decodes_at_full_size(
    size: tuple[int, int], pack_images: Callable[..., Path], photographs: list[Path]
) -> None:
    dataset = pack_images([path.read_bytes() for path in photographs[::20]])
    batches = {}
    kinds: dict[str, dict[str, Any]] = {
        "exact": {"exact": True, "engine": "native"},
        "reduced": {"engine": "native"},
        "reference": {"engine": "reference"},
    }
    transforms = [Resize(size)]
    for name, options in kinds.items():
        with ImageLoader(dataset, batch_size=99, transforms=transforms, dtype="uint8", **options) as loader:
            batches[name] = next(iter(loader)).image.astype(int)
    assert np.abs(batches["exact"] - batches["reference"]).max() <= 1
    assert np.abs(batches["reduced"] - batches["reference"]).max() > 1


@pytest.mark.parametrize(("height", "width"), [(267, 403), (270, 405), (135, 209)])
def test_reduced_decoding_reaches_the_edges(height: int, width: int, tmp_path: Path) -> None:
    """The last rows and columns of an image are seen, though they fill no pixel of the smaller DCT size."""
    pixels = np.full((height, width, 3), 220, np.uint8)
    pixels[-5:], pixels[:, -5:] = 40, 40
    payload = encode(Image.fromarray(pixels), quality=95)
    params = whole((height // 4, width // 4), (height, width))
    result = execute(samples_of([payload], tmp_path), params, tmp_path, ImageFormat())
    expected = reference.execute(params, 0, decode_with_pillow(payload))
    assert np.abs(result.images[0].astype(int) - expected).max() <= 25


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NHWC4"])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "bfloat16", "float32"])
@pytest.mark.parametrize("color", [IDENTITY, MIXING, IDENTITY * np.float32(0.017) - np.float32(1.9)])
@pytest.mark.parametrize("width", [37, 64, 200])
def test_every_form_of_output_has_the_same_values(
    dtype: DType, layout: Layout, color: Any, width: int, tmp_path: Path
) -> None:
    if color is not MIXING:
        color = np.where(np.eye(3, 4, dtype=bool) | (np.arange(4) == 3), color, np.float32(0))
    pixels = np.asarray(photograph(23, width))
    samples = samples_of([pixels.tobytes()], tmp_path, Codec.RAW)
    samples.height[:], samples.width[:] = 23, width
    params = whole((23, width), (23, width), color)
    result = execute(samples, params, tmp_path, ImageFormat(dtype, layout))
    expected = reference.execute(params, 0, pixels, dtype, layout)
    assert result.images.dtype == expected.dtype
    assert result.images.ctypes.data % 64 == 0
    # The engine works in float32, the reference in float64: one unit in the last place at a tie.
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


def sampled(horizontal: int, vertical: int) -> bytes:
    """A JPEG whose luminance has these sampling factors, which Pillow can read and not write.

    The header of a 4:4:4 image is rewritten; what it shows is not the picture that was encoded, but every
    decoder sees the same.
    """
    data = bytearray(encode(photograph(64, 64), subsampling="4:4:4", quality=90))
    frame = data.index(b"\xff\xc0")
    data[frame + 11] = horizontal << 4 | vertical
    blocks = horizontal * vertical + 2
    height, width = (64 * 3 // blocks) // vertical * vertical or vertical, 64
    data[frame + 5 : frame + 9] = (height // 8 * 8 or 8).to_bytes(2, "big") + width.to_bytes(2, "big")
    return bytes(data)


@pytest.mark.parametrize(("horizontal", "vertical"), [(4, 1), (1, 2), (2, 1), (2, 2), (1, 4), (4, 2)])
def test_unusual_sampling_factors_are_near_pillow(horizontal: int, vertical: int, tmp_path: Path) -> None:
    payload = sampled(horizontal, vertical)
    pixels = decode_with_pillow(payload)
    height, width = pixels.shape[:2]
    for top, left in [(0, 0), (3, 5), (height // 2, 31)]:
        params = whole((height - top, width - left), (height, width))
        params.crop[:] = top, left, height - top, width - left
        params.region[:] = top, left, height, width
        result = execute(samples_of([payload], tmp_path), params, tmp_path, ImageFormat("uint8", "NHWC"))
        assert result.status.tolist() == [0], result.reason
        np.testing.assert_array_equal(result.images[0], pixels[top:, left:])


@pytest.mark.parametrize(
    "factors", [(0x41, 0x21, 0x11), (0x41, 0x11, 0x21), (0x11, 0x41, 0x21), (0x21, 0x11, 0x21)]
)
def test_a_region_of_components_with_three_widths_is_decoded_bit_for_bit(
    factors: tuple[int, int, int], tmp_path: Path
) -> None:
    data = bytearray(encode(photograph(64, 64), subsampling="4:4:4", quality=90))
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 7] = (8).to_bytes(2, "big")
    data[frame + 11 : frame + 20 : 3] = bytes(factors)
    payload = bytes(data)
    pixels = decode_with_pillow(payload)
    for left, right in [(0, 1), (0, 2), (1, 2), (1, 7), (3, 6), (29, 35), (62, 64)]:
        params = whole((8, right - left), (8, 64))
        params.crop[:] = 0, left, 8, right - left
        params.region[:] = 0, left, 8, right
        result = execute(samples_of([payload], tmp_path), params, tmp_path, ImageFormat("uint8", "NHWC"))
        np.testing.assert_array_equal(result.images[0], pixels[:, left:right])


@pytest.mark.parametrize(("horizontal", "vertical"), [(4, 2), (2, 4), (2, 2)])
def test_unusual_sampling_factors_decoded_at_half_the_size_are_those_of_the_whole_image(
    horizontal: int, vertical: int, tmp_path: Path
) -> None:
    """A region is what it is in the whole image: colours are reduced less than light, and widened later."""
    payload = sampled(horizontal, vertical)
    height, width = decode_with_pillow(payload).shape[:2]
    samples = samples_of([payload], tmp_path)
    everything = whole((height // 4, 16), (height, width))
    quarter = execute(samples, everything, tmp_path, ImageFormat("uint8", "NHWC")).images[0]
    for left, right in [(0, 20), (12, 40), (32, 64)]:
        params = whole((height // 4, (right - left) // 4), (height, width))
        params.crop[:] = 0, left, height, right - left
        params.region[:] = 0, left, height, right
        result = execute(samples, params, tmp_path, ImageFormat("uint8", "NHWC"))
        # The pixels at the edges of a region are resized without their neighbours.
        inner = quarter[:, left // 4 + 1 : right // 4 - 1]
        np.testing.assert_array_equal(result.images[0][:, 1:-1], inner)


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.parametrize("progressive", [False, True])
def test_a_region_is_decoded_bit_for_bit(subsampling: str, progressive: bool, tmp_path: Path) -> None:
    payload = encode(photograph(67, 83), quality=85, subsampling=subsampling, progressive=progressive)
    pixels = decode_with_pillow(payload)
    corners = [(top, left) for top in range(0, 40, 3) for left in range(0, 50, 7)]
    boxes = [(y, x, y + h, x + w) for y, x in corners for h, w in [(5, 9), (27, 33)]]
    samples = samples_of([payload] * len(boxes), tmp_path)
    for top, left, bottom, right in boxes:
        params = whole((bottom - top, right - left), (67, 83))
        params.crop[:] = top, left, bottom - top, right - left
        params.region[:] = top, left, bottom, right
        one = Samples(**{name: column[:1] for name, column in vars(samples).items()})
        result = execute(one, params, tmp_path, ImageFormat("uint8", "NHWC"))
        np.testing.assert_array_equal(result.images[0], pixels[top:bottom, left:right])


def test_cmyk_without_adobe_marker_is_not_inverted(tmp_path: Path) -> None:
    payload = without_adobe_marker(encode(photograph(24, 24).convert("CMYK"), quality=95))
    expected = np.asarray(Image.open(io.BytesIO(payload)), np.int64)
    # Pillow takes every CMYK for Adobe's; undo that, then convert by its own formula.
    ink = 255 - expected
    rgb = (255 - ink[..., 3:]) - ((255 - ink[..., 3:]) * ink[..., :3] + 127) // 255
    result = execute(
        samples_of([payload], tmp_path),
        whole((24, 24), (24, 24)),
        tmp_path,
        ImageFormat("uint8", "NHWC"),
    )
    for pixels in (result.images[0], decode_for_reference(payload, Codec.JPEG, 24, 24)):
        assert np.abs(pixels - rgb).max() <= 1


def test_trailing_bytes_are_tolerated(tmp_path: Path) -> None:
    payload = encode(photograph(40, 30))
    results = [
        execute(samples_of([data], tmp_path), whole((40, 30), (40, 30)), tmp_path, ImageFormat()).images
        for data in (payload, payload + b"\0" * 1000, payload + b"\xff\xd8\xff\xe0 and more")
    ]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NHWC4"])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
@pytest.mark.parametrize("width", [224, 225])
def test_large_batches_hold_the_same_bytes(dtype: DType, layout: Layout, width: int, tmp_path: Path) -> None:
    """Batches of 4 MiB and more are stored in another way."""
    pixels = np.asarray(photograph(50, 60))
    results = []
    for n in (1, 32):
        samples = samples_of([pixels.tobytes()] * n, tmp_path, Codec.RAW)
        samples.height[:], samples.width[:] = 50, 60
        one = whole((224, width), (50, 60), MIXING)
        columns = {
            name: np.repeat(getattr(one, name), n, axis=0)
            for name in ("crop", "region", "dest", "flip", "color")
        }
        params = ImageParams(size=one.size, fill=one.fill, **columns)
        results.append(execute(samples, params, tmp_path, ImageFormat(dtype, layout), threads=2).images)
    np.testing.assert_array_equal(results[1], np.repeat(results[0], 32, axis=0))
