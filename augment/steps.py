"""Operations on pixels that no affine map of colour can express, as data, and what each does to an image.

A step takes (H, W, 3) uint8 RGB and leaves the same. It belongs to a batch of N samples: its arrays
have one row a sample, and ``where`` says which samples it is applied to. What all samples share is a
number or a tuple. The order of the steps and their classes follow from the list of transforms alone,
so that an engine can prepare for them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .reference.custom_step_checks import check_array, check_pixels
from .reference.levels import equalized, stretched, tables
from .reference.resample import pick, resample

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    Pixels = npt.NDArray[np.uint8]
    Rows = npt.NDArray[np.integer]

__all__ = [
    "Affine",
    "Autocontrast",
    "Blur",
    "Equalize",
    "Mix",
    "Posterize",
    "Sharpen",
    "Shift",
    "Solarize",
    "Step",
    "Table",
    "step_names",
]


@dataclass(frozen=True)
class Step:
    """Base of all steps; a transform of one's own may append one of its own.

    Attributes:
        where: (N,) bool, samples that it is applied to. Rows of other arrays mean nothing elsewhere.
    """

    where: npt.NDArray[np.bool_]

    def run(self, i: int, pixels: Pixels) -> Pixels:
        """Execute it on the image of sample ``i``; may return ``pixels`` itself, never changes it."""
        return check_pixels(self, self.apply(i, pixels), pixels) if self.where[i] else pixels

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """What :meth:`run` does where ``where`` is true."""
        raise NotImplementedError

    def check(self, n: int) -> None:
        """ConfigError where an array of one's own transform is not what a step of N samples holds."""
        check_array(self, "where", np.bool_, (n,))

    def spread(self, rows: Rows, n: int) -> Step:
        """The same for N samples, of which those at ``rows`` are this step's; False elsewhere."""
        return replace(self, **{f.name: _spread(getattr(self, f.name), rows, n) for f in fields(self)})


@dataclass(frozen=True)
class Affine(Step):
    """A colour map that another step follows: rounded half up and clipped to uint8.

    Attributes:
        color: (N, 3, 4) float32, as in ``ImageParams``.
        mean: (N, 3, 3) float32, as in ``ImageParams``, of the image that this step finds; or None.
    """

    color: npt.NDArray[np.float32]
    mean: npt.NDArray[np.float32] | None

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
        color = self.color[i].astype(np.float64)
        values: npt.NDArray[np.float64] = pixels @ color[:, :3].T + color[:, 3]
        if self.mean is not None:
            values += self.mean[i].astype(np.float64) @ pixels.mean(axis=(0, 1))
        return _to_uint8(values)


@dataclass(frozen=True)
class Table(Step):
    """Each level of each channel becomes another; for transforms of one's own.

    Attributes:
        levels: (N, 3, 256) uint8.
    """

    levels: npt.NDArray[np.uint8]

    def check(self, n: int) -> None:
        """See :class:`Step`."""
        super().check(n)
        check_array(self, "levels", np.uint8, (n, 3, 256))

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
        return _look_up(pixels, self.levels[i])


@dataclass(frozen=True)
class Posterize(Step):
    """The highest bits of each level stay, the others become 0.

    Attributes:
        bits: (N,) uint8, how many stay, 0 to 8.
    """

    bits: npt.NDArray[np.uint8]

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
        mask = 0xFF00 >> int(self.bits[i]) & 0xFF
        return np.asarray(pixels & np.uint8(mask))


@dataclass(frozen=True)
class Solarize(Step):
    """Level x becomes 255 - x where it is at least the threshold.

    Attributes:
        threshold: (N,) int16, 0 to 256.
    """

    threshold: npt.NDArray[np.int16]

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
        return np.where(pixels >= self.threshold[i], 255 - pixels, pixels)


@dataclass(frozen=True)
class Autocontrast(Step):
    """Each channel's range becomes 0..255: ``(x - low) * 255 // (high - low)``, if it is no single level.

    torchvision computes the same in float32, where an exact result may come out one lower.
    """

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
        return _look_up(pixels, tables(pixels, stretched))


@dataclass(frozen=True)
class Equalize(Step):
    """Each channel's histogram becomes flat, as torchvision and Pillow's ``ImageOps.equalize`` do it.

    With h the histogram and s the number of pixels that are not of the highest level, divided by 255
    and truncated, level x becomes ``min((sum(h[:x]) + s // 2) // s, 255)``; nothing changes if s is 0.
    """

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
        return _look_up(pixels, tables(pixels, equalized))


@dataclass(frozen=True)
class Sharpen(Step):
    """The distance from the smoothed image is multiplied: torchvision's ``adjust_sharpness``.

    With s the sum of the 3 x 3 pixels about level x, x itself counted five times, the smoothed level
    is ``b = (s + 6) // 13``, and x becomes ``x + floor((1 - factor) * (b - x))``, clipped to 0..255.
    Pixels of the border stay, and so do images with a side below 3. This is exact (in float64, or with
    a table over b - x); torchvision computes it in float32, where it may come out one lower or higher.

    Attributes:
        factor: (N,) float32, from 0: 0 smooths, 1 changes nothing, 2 sharpens.
    """

    factor: npt.NDArray[np.float32]

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
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
    """Convolution with a Gaussian that is cut off: torchvision's ``gaussian_blur``.

    The weight at distance d is ``exp(-d**2 / (2 * sigma**2))`` for d up to half the kernel, weights of
    an axis sum to 1. The image is continued by reflection that does not repeat the border (NumPy's
    ``pad(mode="reflect")``, again and again if it is small), and rounded once, half up, after both axes.

    Attributes:
        kernel_size: Height and width of the kernel, odd, pixels.
        sigma: (N, 2) float32, standard deviations along y and x, pixels, more than 0.
    """

    kernel_size: tuple[int, int]
    sigma: npt.NDArray[np.float32]

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
        values = pixels.astype(np.float64)
        for axis, (taps, sigma) in enumerate(zip(self.kernel_size, self.sigma[i].tolist(), strict=True)):
            offsets = np.arange(taps) - taps // 2
            weights = np.exp(-0.5 * (offsets / sigma) ** 2)
            margin = [(taps // 2, taps // 2) if a == axis else (0, 0) for a in range(3)]
            windows = np.lib.stride_tricks.sliding_window_view(
                np.pad(values, margin, "reflect"), taps, axis=axis
            )
            values = windows @ (weights / weights.sum())
        return _to_uint8(values)


@dataclass(frozen=True)
class Shift(Step):
    """A projective resampling to the same size, within the chains of :class:`Mix`.

    It is that of :class:`stoker.augment.params.optional_params.Warp` with the image as it is as the source,
    or the canvas.

    Attributes:
        matrix: (N, 3, 3) float64, from homogeneous (x, y, 1) in the output to the image.
        fill: RGB of what comes into sight, uint8.
        nearest: Whether pixels are picked, not interpolated.
    """

    matrix: npt.NDArray[np.float64]
    fill: tuple[int, int, int]
    nearest: bool = False

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
        execute = pick if self.nearest else resample
        return execute(pixels, self.matrix[i], (pixels.shape[0], pixels.shape[1]), self.fill)


@dataclass(frozen=True)
class Mix(Step):
    """A weighted sum of the image and of what chains of steps make of it (AugMix), rounded half up.

    Attributes:
        weights: (N, chains + 1) float32, of the image and then of each chain.
        chains: Steps of each, done one after the other.
    """

    weights: npt.NDArray[np.float32]
    chains: tuple[tuple[Step, ...], ...]

    def apply(self, i: int, pixels: Pixels) -> Pixels:
        """See :class:`Step`."""
        own, *others = self.weights[i].astype(np.float64)
        mixed = own * pixels
        for weight, chain in zip(others, self.chains, strict=True):
            changed = pixels
            for step in chain:
                changed = step.run(i, changed)
            mixed += weight * changed
        return _to_uint8(mixed)


def step_names(steps: Iterable[Step]) -> frozenset[str]:
    """Names of the classes of ``steps``, and of those that a :class:`Mix` among them contains."""
    names: frozenset[str] = frozenset()
    for step in steps:
        names |= {type(step).__name__}
        for chain in step.chains if isinstance(step, Mix) else ():
            names |= step_names(chain)
    return names


def _spread(value: Any, rows: Rows, n: int) -> Any:
    if isinstance(value, np.ndarray):
        spread = np.zeros((n, *value.shape[1:]), value.dtype)
        spread[rows] = value
        return spread
    if isinstance(value, Step):
        return value.spread(rows, n)
    return tuple(_spread(item, rows, n) for item in value) if isinstance(value, tuple) else value


def _to_uint8(values: npt.NDArray[np.float64]) -> Pixels:
    return np.floor(values.clip(0, 255) + 0.5).astype(np.uint8)


def _look_up(pixels: Pixels, levels: npt.NDArray[np.uint8]) -> Pixels:
    return np.stack([levels[c][pixels[..., c]] for c in range(3)], axis=-1)
