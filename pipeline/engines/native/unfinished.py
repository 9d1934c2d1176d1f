"""Images that the native engine makes as uint8, for another process to finish.

Colours, dtype, layout and erased boxes come last, and need only the pixels of an image. A worker of a
cluster leaves these steps to the trainer, because uint8 pixels are a quarter of the bytes of float32.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker.augment.params import ImageParams
from stoker.formats.dataset.index import Samples

from ..base import ImageFormat, Result, Work
from .engine import LAYOUT_NUMBERS, NativeEngine
from .steps import pack_images

_PART_BYTES = 1 << 20  # for larger arrays Ray starts threads, which cost more than they gain on busy cores

PIXELS_DTYPE: Final = "uint8"
PIXELS_LAYOUT: Final = "NCHW"


@dataclass(frozen=True, eq=False)
class UnfinishedImages:
    """M images before their colours."""

    # (K, 3, H, W) uint8, RGB, of one part of the images after the other
    pixels: Sequence[npt.NDArray[np.uint8]]
    params: ImageParams  # The parameters of the remaining steps: colours, and boxes to erase
    image_format: ImageFormat  # Form of the finished images

    @property
    def nbytes(self) -> int:
        """Bytes of the pixels."""
        return sum(part.nbytes for part in self.pixels)

    def finish(self, empty: Callable[[tuple[int, ...], str], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Return the finished images, bit for bit those of the engine; ``empty`` makes the array.

        The calling thread does the work, without the interpreter's lock.
        """
        form = self.image_format
        out = empty(form.shape(len(self.params), self.params.size), form.numpy_dtype)
        images = pack_images(self.params, out, LAYOUT_NUMBERS[form.layout], exact=False)
        _native.ImageArray(**images).finish(self.pixels)
        return out


class UnfinishedEngine:
    """A native engine whose results hold :class:`UnfinishedImages`."""

    def __init__(self, engine: NativeEngine, image_format: ImageFormat) -> None:
        self.name = engine.name
        self.device = engine.device
        self.max_in_flight = engine.max_in_flight
        self._engine = engine
        self._image_format = image_format
        self._left: deque[tuple[ImageParams, ...]] = deque()

    def read_ahead(self, samples: Samples, columns: Sequence[ImageParams] = ()) -> None:
        """See :meth:`NativeEngine.read_ahead`."""
        self._engine.read_ahead(samples, columns)

    def submit(self, work: Work) -> None:
        """See :meth:`NativeEngine.submit`."""
        made, *others = map(_before_colors, work.columns)
        self._engine.submit(Work(work.samples, made, tuple(others)))
        self._left.append(work.columns)

    def collect(self) -> Result:
        """See :meth:`NativeEngine.collect`."""
        result = self._engine.collect()
        images, *others = (
            UnfinishedImages(_parts(pixels), _after_pixels(params), self._image_format)
            for pixels, params in zip(result.columns, self._left.popleft(), strict=True)
        )
        return replace(result, images=images, others=tuple(others))

    def close(self) -> None:
        """See :meth:`NativeEngine.close`."""
        self._engine.close()


def _parts(pixels: npt.NDArray[np.uint8]) -> list[npt.NDArray[np.uint8]]:
    """The images of an array, (M, 3, H, W), in parts that Ray copies without new threads."""
    count = max(1, _PART_BYTES // max(1, pixels[:1].nbytes))
    return [pixels[i : i + count] for i in range(0, len(pixels), count)]


def _before_colors(params: ImageParams) -> ImageParams:
    """The parameters of all that comes before colours; the result is uint8."""
    unchanged = np.tile(np.eye(3, 4, dtype=np.float32), (len(params), 1, 1))
    return replace(params, color=unchanged, mean_matrix=None, erase=None)


def _after_pixels(params: ImageParams) -> ImageParams:
    """The parameters of colours and erased boxes, for images whose pixels are there."""
    n = len(params)
    whole = np.zeros((n, 4), np.int32)
    whole[:, 2:] = params.size if params.image_size is None else params.image_size
    return ImageParams(
        params.size,
        crop=whole,
        region=whole.astype(np.float64),
        dest=whole,
        flip=np.zeros((n, 2), np.bool_),
        color=params.color,
        fill=params.fill,
        mean_matrix=params.mean_matrix,
        erase=params.erase,
        image_size=params.image_size,
    )
