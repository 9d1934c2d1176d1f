"""Steps: operations on pixels that an engine executes one after the other, and what each does to an image.

A step takes and returns (H, W, 3) uint8 RGB; an engine executes it on the image in its final size, after all
geometry, and after the maps of colours that stand before it in the list. A step belongs to a batch of N
samples: its arrays have one row for each sample, and ``where`` says which samples it changes. Numbers and
tuples hold for all samples. The order of the steps and their classes follow from the list of transforms
alone, so that an engine can prepare for them.

``docs/common-changes.md`` says how to add a step. If an engine lacks a step of the list, ``engine="auto"``
takes another engine. The reference engine executes every step.
"""

from __future__ import annotations

import ctypes
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeGuard, TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from stoker.errors import ConfigError, EngineError
from stoker.types import DType, Size

from .noise import displacement, normal_noise, quantiles
from .resampling import pick, resample

Pixels = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.integer]
Counts = npt.NDArray[np.intp]
Rule = Callable[[Counts], npt.NDArray[np.intp]]
Float = npt.NDArray[np.float64]

__all__ = [
    "AddNoise",
    "Affine",
    "Autocontrast",
    "BatchStep",
    "Blur",
    "Compiled",
    "Compress",
    "Displace",
    "Distort",
    "Equalize",
    "Posterize",
    "Sharpen",
    "Solarize",
    "Step",
    "Table",
    "WeightedSum",
    "step_names",
]

P = TypeVar("P", bound="PerSample")

_Change = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]


@dataclass(frozen=True)
class PerSample:
    """Base of dataclasses whose arrays have a row for each sample; the fields ``shared`` hold for all."""

    shared: ClassVar[frozenset[str]] = frozenset()

    def map_arrays(self: P, change: _Change) -> P:
        """The same with ``change`` applied to all arrays, within nested objects and tuples, too."""

        def changed(value: Any) -> Any:
            if isinstance(value, np.ndarray):
                return change(value)
            if isinstance(value, PerSample):
                return value.map_arrays(change)
            return tuple(map(changed, value)) if isinstance(value, tuple) else value

        names = (one.name for one in fields(self) if one.name not in self.shared)
        return replace(self, **{name: changed(getattr(self, name)) for name in names})

    def take(self: P, rows: Rows) -> P:
        """The same for the samples at ``rows``, (M,), alone."""
        return self.map_arrays(lambda array: array[rows])


@dataclass(frozen=True)
class Step(PerSample):
    """Base of all steps: a frozen dataclass of arrays. A user's transform may append a user's step.

    The reference engine runs ``apply``, and so does the native engine for custom steps that come last. C++
    gets the fields that ``_native.STEP_COLUMNS`` names, in the dtypes that it states. DALI gets what its row
    in ``pipeline/engines/dali/steps.py`` feeds. ``tests/helpers/transforms.py`` states how far engines may
    differ.

    Attributes:
        operation: Name under which C++ registers the operation; empty for a step that C++ does not execute.
        where: (N,) bool, samples that it changes. The other arrays are ignored for all other samples.
    """

    operation: ClassVar[str] = ""

    where: npt.NDArray[np.bool_]

    def run(self, i: int, pixels: Pixels) -> Pixels:
        """Execute it on the image of sample ``i``; may return ``pixels`` itself, never changes it."""
        return self._called("apply", i, pixels) if self.where[i] else pixels

    def _called(self, method: str, at: int | npt.NDArray[np.intp], pixels: Pixels) -> Pixels:
        """What a method of a user's makes of ``pixels``."""
        name = f"{type(self).__name__}: {method}"
        try:
            changed = getattr(self, method)(at, pixels)
        except Exception as error:
            said = f"{name} raised {type(error).__name__}: {error}"
            hint = f"Correct {method}; the error above says where it failed."
            raise EngineError(said, hint=hint) from error
        if _is_array(changed, np.uint8, pixels.shape):
            return changed
        raise ConfigError(
            f"{name} must return {pixels.shape} uint8, as it gets, found {_form(changed)}",
            hint=f"Let {method} clip to 0..255, end with .astype(numpy.uint8), and return the array.",
        )

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """What :meth:`run` does where ``where`` is true."""
        raise NotImplementedError

    def check(self, n: int) -> None:
        """Raise ConfigError if an array that a user gave has a wrong shape or dtype for N samples."""
        self.check_array("where", np.bool_, (n,))

    def check_array(self, name: str, dtype: type[np.generic], shape: tuple[int, ...]) -> None:
        """Raise ConfigError unless an attribute is an array of ``dtype`` and ``shape``."""
        value = getattr(self, name)
        if not _is_array(value, dtype, shape):
            rule = f"{shape} {np.dtype(dtype).name}, one row for each sample"
            raise ConfigError(f"{type(self).__name__}: {name} must be {rule}, found {_form(value)}")

    def spread(self: P, rows: Rows, n: int) -> P:
        """The step for ``n`` samples: its samples at ``rows``, and others that it does not change."""

        def spread(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
            spread_array = np.zeros((n, *array.shape[1:]), array.dtype)
            spread_array[rows] = array
            return spread_array

        return self.map_arrays(spread)


@dataclass(frozen=True)
class BatchStep(Step):
    """Base of users' steps that change several images in one call, for functions that work on batches.

    The native engine calls ``apply_batch`` once for each thread, with its share of a batch, the reference
    with one image at a time. So the result for an image must not depend on the others.
    """

    def apply_batch(self, rows: npt.NDArray[np.intp], pixels: Pixels) -> Pixels:
        """Change M images, (M, H, W, 3) uint8, in place or not, and return them.

        ``rows``, (M,), are the samples that they belong to, to look up the step's arrays.
        """
        raise NotImplementedError

    def run_batch(self, rows: npt.NDArray[np.intp], pixels: Pixels) -> Pixels:
        """Execute it on the images, (M, H, W, 3), of the samples ``rows``; see :meth:`Step.run`."""
        chosen = np.flatnonzero(self.where[rows])
        if not len(chosen):
            return pixels
        if len(chosen) == len(rows):
            return self._called("apply_batch", rows, pixels)
        pixels[chosen] = self._called("apply_batch", rows[chosen], pixels[chosen])
        return pixels

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        return np.asarray(self.apply_batch(np.array([i]), pixels[None].copy())[0])


def to_uint8(values: npt.NDArray[np.floating[Any]]) -> Pixels:
    """Pixels rounded half up and clipped to 0..255."""
    return np.floor(values.clip(0, 255) + 0.5).astype(np.uint8)


def convert(values: npt.NDArray[np.floating[Any]], dtype: DType) -> npt.NDArray[Any]:
    """Convert to the output's element type."""
    # Integers are rounded half up and clipped to their range; floats are rounded to nearest even; bfloat16 is
    # returned as uint16 bit patterns, because NumPy has no such dtype.
    if dtype == "uint8":
        return to_uint8(values)
    if dtype == "uint16":
        return np.floor(values.clip(0, 65535) + 0.5).astype(np.uint16)
    if dtype == "bfloat16":
        bits = values.astype(np.float32).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return values.astype(dtype)


def _is_array(value: object, dtype: type[np.generic], shape: tuple[int, ...]) -> TypeGuard[npt.NDArray[Any]]:
    return isinstance(value, np.ndarray) and value.dtype == dtype and value.shape == shape


def _form(value: Any) -> str:
    """Shape and dtype of an array, or the repr of another value, for an error."""
    return f"{value.shape} {value.dtype}" if isinstance(value, np.ndarray) else repr(value)


@dataclass(frozen=True)
class Affine(Step):
    """A map of colours that another step follows: rounded half up and clipped to uint8.

    ``color``, (N, 3, 4) float32, and ``mean_matrix``, (N, 3, 3) float32 or None, are as in ``ImageParams``.
    """

    operation: ClassVar[str] = "affine"

    color: npt.NDArray[np.float32]
    mean_matrix: npt.NDArray[np.float32] | None

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        color = self.color[i].astype(np.float64)
        values: npt.NDArray[np.float64] = pixels @ color[:, :3].T + color[:, 3]
        if self.mean_matrix is not None:
            values += self.mean_matrix[i].astype(np.float64) @ pixels.mean(axis=(0, 1))
        return to_uint8(values)


@dataclass(frozen=True)
class Table(Step):
    """A lookup table for each channel of each image: ``levels``, (N, 3, 256) uint8; DALI has none."""

    operation: ClassVar[str] = "table"

    levels: npt.NDArray[np.uint8]

    def check(self, n: int) -> None:
        super().check(n)
        self.check_array("levels", np.uint8, (n, 3, 256))

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        return _look_up(pixels, self.levels[i])


@dataclass(frozen=True)
class Posterize(Step):
    """The highest ``bits``, (N,) uint8, 0 to 8, of each level stay; the others become 0."""

    operation: ClassVar[str] = "posterize"

    bits: npt.NDArray[np.uint8]

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        mask = 0xFF00 >> int(self.bits[i]) & 0xFF
        return np.asarray(pixels & np.uint8(mask))


@dataclass(frozen=True)
class Solarize(Step):
    """Level x becomes 255 - x where it is at least the ``threshold``, (N,) int16, 0 to 256."""

    operation: ClassVar[str] = "solarize"

    threshold: npt.NDArray[np.int16]

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        return np.where(pixels >= self.threshold[i], 255 - pixels, pixels)


@dataclass(frozen=True)
class Autocontrast(Step):
    """Each channel's range becomes 0..255: ``(x - low) * 255 // (high - low)``, unless it is a single level.

    torchvision computes the same in float32, where an exact result may come out one lower.
    """

    operation: ClassVar[str] = "autocontrast"

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        return _by_histogram(pixels, _stretched)


@dataclass(frozen=True)
class Equalize(Step):
    """Each channel's histogram becomes flat, as torchvision and Pillow's ``ImageOps.equalize`` do it.

    With h the histogram and s the number of pixels that are not of the highest level, divided by 255
    and truncated, level x becomes ``min((sum(h[:x]) + s // 2) // s, 255)``; nothing changes if s is 0.
    """

    operation: ClassVar[str] = "equalize"

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        return _by_histogram(pixels, _equalized)


def _look_up(pixels: Pixels, levels: npt.NDArray[np.uint8]) -> Pixels:
    return np.stack([levels[c][pixels[..., c]] for c in range(3)], axis=-1)


def _by_histogram(pixels: Pixels, rule: Rule) -> Pixels:
    """The image by the table, (256,), that ``rule`` makes of the histogram, (256,), of each channel."""
    histograms = [np.bincount(pixels[..., c].ravel(), minlength=256) for c in range(3)]
    return _look_up(pixels, np.stack([rule(histogram) for histogram in histograms]).astype(np.uint8))


def _stretched(histogram: Counts) -> npt.NDArray[np.intp]:
    low, *_, high = np.flatnonzero(histogram).repeat(2)
    if low == high:
        return np.arange(256)
    return np.asarray(np.clip((np.arange(256) - low) * 255 // (high - low), 0, 255))


def _equalized(histogram: Counts) -> npt.NDArray[np.intp]:
    highest = np.flatnonzero(histogram)[-1]
    quota = (histogram.sum() - histogram[highest]) // 255
    if quota == 0:
        return np.arange(256)
    before = histogram.cumsum() - histogram
    return np.asarray(np.clip((before + quota // 2) // quota, 0, 255))


@dataclass(frozen=True)
class Sharpen(Step):
    """The difference from the smoothed image is multiplied: torchvision's ``adjust_sharpness``.

    With s the sum of the 3 x 3 pixels about level x, x itself counted five times, the smoothed level
    is ``b = (s + 6) // 13``, and x becomes ``x + floor((1 - factor) * (b - x))``, clipped to 0..255. A
    ``factor``, (N,) float32, of 0 smooths, 1 changes nothing, 2 sharpens. Pixels of the border stay. This is
    exact; torchvision computes it in float32, where it may come out one lower or higher.
    """

    operation: ClassVar[str] = "sharpen"

    factor: npt.NDArray[np.float32]

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        height, width = pixels.shape[:2]
        levels = pixels.astype(np.int64)
        inner = levels[1:-1, 1:-1]
        total = 4 * inner
        for row in range(3):
            for column in range(3):
                total += levels[row : row + height - 2, column : column + width - 2]
        change = np.floor((1 - float(self.factor[i])) * ((total + 6) // 13 - inner))
        output: Pixels = pixels.copy()
        output[1:-1, 1:-1] = (inner + change).clip(0, 255)
        return output


@dataclass(frozen=True)
class Blur(Step):
    """Convolution with a truncated Gaussian: torchvision's ``gaussian_blur``.

    The weight at distance d is ``exp(-d**2 / (2 * sigma**2))`` for d up to half the kernel, weights of
    an axis sum to 1. The image is continued by reflection that does not repeat the border (NumPy's
    ``pad(mode="reflect")``, repeated where the image is small), and rounded once, half up, after both axes.
    ``kernel_size`` is the odd height and width of the kernel, pixels; ``sigma``, (N, 2) float32, the standard
    deviations along y and x, pixels, more than 0.
    """

    operation: ClassVar[str] = "blur"

    kernel_size: tuple[int, int]
    sigma: npt.NDArray[np.float32]

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        values = pixels.astype(np.float64)
        for axis, (taps, sigma) in enumerate(zip(self.kernel_size, self.sigma[i].tolist(), strict=True)):
            offsets = np.arange(taps) - taps // 2
            weights = np.exp(-0.5 * (offsets / sigma) ** 2)
            margin = [(taps // 2, taps // 2) if a == axis else (0, 0) for a in range(3)]
            padded = np.pad(values, margin, "reflect")
            windows = np.lib.stride_tricks.sliding_window_view(padded, taps, axis=axis)
            values = windows @ (weights / weights.sum())
        return to_uint8(values)


@dataclass(frozen=True)
class AddNoise(Step):
    """Normal noise for each pixel and channel: x becomes ``x + deviation * normal + mean``, rounded half up.

    :mod:`stoker.augment.noise` says how the noise follows from ``keys``, (N,) uint64. ``mean`` and
    ``deviation``, (N,) float32, are in levels of 0..255. torchvision truncates the noise to whole levels.
    """

    operation: ClassVar[str] = "add_noise"

    keys: npt.NDArray[np.uint64]
    mean: npt.NDArray[np.float32]
    deviation: npt.NDArray[np.float32]

    @property
    def quantiles(self) -> npt.NDArray[np.float32]:
        """(65536,) float32, from which C++ draws the noise."""
        return quantiles()

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        height, width = pixels.shape[:2]
        normal = normal_noise(int(self.keys[i]), (0, 0, height, width), width).astype(np.float64)
        return to_uint8(pixels + normal * float(self.deviation[i]) + float(self.mean[i]))


@dataclass(frozen=True)
class Compress(Step):
    """The image, encoded as a baseline JPEG with 4:2:0 subsampling and decoded, as by torchvision's ``jpeg``.

    It uses libjpeg's tables of ``quality``, (N,) uint8, 1 to 100, its exact integer transforms, and its
    smooth upsampling.
    """

    operation: ClassVar[str] = "compress"

    quality: npt.NDArray[np.uint8]

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "JPEG", quality=int(self.quality[i]), subsampling="4:2:0")
        stream.seek(0)
        with JpegImageFile(stream) as decoded:
            return np.asarray(decoded)


@dataclass(frozen=True)
class Displace(Step):
    """The image, displaced by the field of :func:`stoker.augment.noise.displacement`.

    Values between pixels are bilinear and rounded half up, or with ``nearest`` the values of the pixel that
    the coordinates fall into. Outside of the image is ``fill``, RGB. ``keys``, (N,) uint64, draw the
    fields, ``alpha`` is their strength, and ``sigma`` the standard deviation of the Gaussian in pixels, from
    0, both along x and y.
    """

    operation: ClassVar[str] = "displace"

    keys: npt.NDArray[np.uint64]
    alpha: tuple[float, float]
    sigma: tuple[float, float]
    fill: tuple[int, int, int]
    nearest: bool = False

    def field(self, i: int, size: Size) -> Float:
        """(2, H, W) float64, the field of image ``i``: rows, then columns."""
        return displacement(int(self.keys[i]), size, self.alpha, self.sigma)

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        return to_uint8(self.move(i, pixels, np.array(self.fill, np.float64)))

    def move(self, i: int, pixels: npt.NDArray[Any], fill: Float) -> Float:
        """Image ``i``, (H, W, C) of any dtype, displaced and not rounded; ``fill``, (C,), outside of it."""
        source = pixels.astype(np.float64)
        if not self.where[i]:
            return source
        coordinates = self._coordinates(i, (pixels.shape[0], pixels.shape[1]))
        if self.nearest:
            return _picked(source, coordinates, fill)
        top, left = corner = np.floor(coordinates).astype(np.intp)
        down, right = (coordinates - corner)[..., None]
        source = _framed(source, fill)
        # Pixel (-1, -1) of the image is pixel (0, 0) of the frame.
        upper, upper_next = source[top + 1, left + 1], source[top + 1, left + 2]
        lower, lower_next = source[top + 2, left + 1], source[top + 2, left + 2]
        upper, lower = upper + (upper_next - upper) * right, lower + (lower_next - lower) * right
        moved: Float = upper + (lower - upper) * down
        return moved

    def mask(self, i: int, mask: npt.NDArray[Any], outside: int) -> npt.NDArray[Any]:
        """Mask of image ``i``, (H, W), displaced as its image; pixels are picked."""
        if not self.where[i]:
            return mask
        size = mask.shape[0], mask.shape[1]
        return _picked(mask, self._coordinates(i, size), np.array(outside, mask.dtype))

    def _coordinates(self, i: int, size: Size) -> Float:
        """(2, H, W), row and column that each pixel shows, at most one pixel outside of the image."""
        coordinates = np.indices(size, np.float64) + self.field(i, size)
        return coordinates.clip(-1, np.reshape(size, (2, 1, 1)))


def _framed(pixels: npt.NDArray[Any], fill: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The image within a frame of ``fill``: one pixel at the top and left, two at the bottom and right."""
    height, width = pixels.shape[:2]
    framed = np.empty((height + 3, width + 3, *pixels.shape[2:]), pixels.dtype)
    framed[:] = fill
    framed[1 : height + 1, 1 : width + 1] = pixels
    return framed


def _picked(pixels: npt.NDArray[Any], coordinates: Float, fill: npt.NDArray[Any]) -> npt.NDArray[Any]:
    rows, columns = np.floor(coordinates + 0.5).astype(np.intp) + 1
    picked: npt.NDArray[Any] = _framed(pixels, fill)[rows, columns]
    return picked


@dataclass(frozen=True)
class Distort(Step):
    """A projective resampling to the same size, within the chains of :class:`WeightedSum`.

    ``matrix``, (N, 3, 3) float64, leads from homogeneous (x, y, 1) in the output to the image; ``fill``, RGB,
    is outside of it. :class:`stoker.augment.params.Warp` defines it, where the image is the source or, with
    ``nearest``, the canvas, whose pixels are picked.
    """

    operation: ClassVar[str] = "distort"

    matrix: npt.NDArray[np.float64]
    fill: tuple[int, int, int]
    nearest: bool = False

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        execute = pick if self.nearest else resample
        return execute(pixels, self.matrix[i], (pixels.shape[0], pixels.shape[1]), self.fill)


@dataclass(frozen=True)
class WeightedSum(Step):
    """A weighted sum of the image and of what chains of steps make of it (AugMix), rounded half up.

    ``weights``, (N, chains + 1) float32, are of the image and then of each chain.
    """

    operation: ClassVar[str] = "weighted_sum"

    weights: npt.NDArray[np.float32]
    chains: tuple[tuple[Step, ...], ...]

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        own, *others = self.weights[i].astype(np.float64)
        total = own * pixels
        for weight, chain in zip(others, self.chains, strict=True):
            changed = pixels
            for step in chain:
                changed = step.run(i, changed)
            total += weight * changed
        return to_uint8(total)


def step_names(steps: Iterable[Step]) -> frozenset[str]:
    """Names of the classes of ``steps``, and of those that a :class:`WeightedSum` among them contains."""
    names: frozenset[str] = frozenset()
    for step in steps:
        names |= {type(step).__name__}
        for chain in step.chains if isinstance(step, WeightedSum) else ():
            names |= step_names(chain)
    return names


_BYTES, _DOUBLES = ctypes.POINTER(ctypes.c_uint8), ctypes.POINTER(ctypes.c_double)
_FUNCTION = ctypes.CFUNCTYPE(None, _BYTES, ctypes.c_int64, ctypes.c_int64, _DOUBLES)
_OF_CTYPES: Any = _FUNCTION.__mro__[1]  # the base of all functions of ctypes; its own name is private


@dataclass(frozen=True)
class Compiled(Step):
    """A call of a compiled function that changes the image.

    The function is ``void f(uint8_t* rgb, int64_t height, int64_t width, const double* values)``. It changes
    the image, (height, width, 3) uint8, in place, by the numbers of the sample. The native engine calls it on
    its threads, without the interpreter's lock, anywhere in the list. It must not raise. With numba::

        @numba.cfunc("void(CPointer(uint8), int64, int64, CPointer(float64))")
        def darken(rgb, height, width, values):
            for k in range(3 * height * width):
                rgb[k] = int(rgb[k] * values[0])

        @dataclass(frozen=True)
        class RandomDarken(Transform):
            draws: ClassVar[int] = 1

            def params(self, state, u):
                state.add_steps(Compiled(np.ones(len(u), bool), u, darken))

    Attributes:
        values: (N, K) float64, K from 0.
        function: What numba's ``cfunc`` makes, a function of ctypes, or the address as an integer; of an
            address, the caller must keep the function alive as long as the loader.
    """

    operation: ClassVar[str] = "compiled"

    values: npt.NDArray[np.float64]
    function: Any

    @property
    def address(self) -> int:
        """The address of the function."""
        function = self.function
        if isinstance(function, _OF_CTYPES):
            return ctypes.cast(function, ctypes.c_void_p).value or 0
        return int(getattr(function, "address", function))

    def check(self, n: int) -> None:
        super().check(n)
        values = self.values
        good = isinstance(values, np.ndarray) and values.dtype == np.float64
        if not (good and values.ndim == 2 and len(values) == n):
            rule = f"({n}, K) float64, one row for each sample"
            raise ConfigError(f"Compiled: values must be {rule}, found {_form(values)}")
        address = getattr(self.function, "address", self.function)
        is_address = isinstance(address, int) and not isinstance(address, bool) and address > 0
        if not is_address and not isinstance(self.function, _OF_CTYPES):
            raise ConfigError(
                f"Compiled: function must be a compiled function, found {self.function!r}",
                hint="Give what numba.cfunc makes, a function of ctypes, or an address. Use Step for Python.",
            )

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        rgb, values = np.array(pixels, order="C"), np.ascontiguousarray(self.values[i])
        height, width = pixels.shape[:2]
        call = _FUNCTION(self.address)
        call(rgb.ctypes.data_as(_BYTES), height, width, values.ctypes.data_as(_DOUBLES))
        return rgb


def is_custom(step: Step) -> bool:
    """Whether the class of a step names no C++ operation itself; an inherited name does not count."""
    return not vars(type(step)).get("operation")


def split_last_custom(steps: Sequence[Step]) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """Split steps into those up to the last one that is not custom, and the custom steps after it."""
    end = len(steps)
    while end and is_custom(steps[end - 1]):
        end -= 1
    return tuple(steps[:end]), tuple(steps[end:])


def last_custom_names(steps: Sequence[Step]) -> frozenset[str]:
    """Class names of the custom steps, if they all come after the other steps."""
    first, last = split_last_custom(steps)
    return step_names(last) - step_names(first)
