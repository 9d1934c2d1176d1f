"""The reference engine: every transform, one sample at a time, with Pillow and NumPy.

It puts :mod:`stoker.augment.reference.reference` behind the contract of engines. Other engines are tested
against it, and ``engine="auto"`` takes it for transforms that they do not execute.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.augment.reference import reference
from stoker.errors import ConfigError, StokerError

from .base import ImageFormat, Result, Status, Work
from .payload_decode import PayloadError, decode
from .shard_files import matches_checksum, open_shards

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from stoker.augment.params.image_params import ImageParams
    from stoker.formats.dataset.reading.samples import Samples

    _Outcome = tuple[Status, str, StokerError | None]
    _Arrays = tuple[npt.NDArray[Any], ...]

__all__ = ["ReferenceEngine"]


class ReferenceEngine:
    """Executes batches with Pillow and NumPy on a pool of threads.

    Args:
        files: Data files of the dataset, in the manifest's order.
        sizes: Bytes of each.
        image_format: Dtype and layout of the images.
        num_threads: Threads, from 1.
        depth: Batches in flight at once, from 1.
        max_pixels: An image with more pixels is TOO_LARGE, found in its header.
        verify: Whether each payload is compared with its checksum.
        mapped: Whether files are mapped; otherwise each payload is read.

    Raises:
        StaleIndexError: A file has another size.
        DatasetError: A file cannot be opened.
    """

    name = "reference"
    device = "cpu"
    executes: frozenset[str] | None = None

    def __init__(
        self,
        files: Sequence[str],
        sizes: Sequence[int],
        image_format: ImageFormat,
        *,
        num_threads: int,
        depth: int,
        max_pixels: int,
        verify: bool,
        mapped: bool = True,
    ) -> None:
        self.max_in_flight = max(1, depth)
        self._shards = open_shards(files, sizes, mapped=mapped)
        self._image_format = image_format
        self._max_pixels = max_pixels
        self._verify = verify
        self._pool = ThreadPoolExecutor(num_threads, "stoker-reference")
        self._in_flight: deque[tuple[_Arrays, list[Future[_Outcome]]]] = deque()

    def read_ahead(self, samples: Samples, columns: Sequence[ImageParams] = ()) -> None:
        """Ask the kernel for the whole payloads of ``samples``."""
        self._shards.will_need(samples.shard, samples.offset, samples.length)

    def submit(self, work: Work) -> None:
        """Start a batch; returns at once."""
        arrays = tuple(
            np.zeros(self._image_format.shape(len(params), params.size), self._image_format.numpy_dtype)
            for params in work.columns
        )
        started = [self._pool.submit(self._execute, work, i, arrays) for i in range(len(work.samples))]
        self._in_flight.append((arrays, started))

    def collect(self) -> Result:
        """Wait for the oldest batch and return it."""
        (images, *others), started = self._in_flight.popleft()
        outcomes = [future.result() for future in started]
        reason = {i: message for i, (status, message, _) in enumerate(outcomes) if status != Status.OK}
        errors = {i: error for i, (_, _, error) in enumerate(outcomes) if error}
        status = np.array([status for status, _, _ in outcomes], dtype=np.uint8)
        return Result(images, status, reason, errors, tuple(others))

    def close(self) -> None:
        """End the threads and close the files; safe to call twice."""
        self._pool.shutdown(cancel_futures=True)
        self._in_flight.clear()
        self._shards.close()

    def _execute(self, work: Work, i: int, arrays: _Arrays) -> _Outcome:
        """Write all images of sample ``i``; returns its status, a message, and the error of a step."""
        samples = work.samples
        try:
            data = self._shards.view(int(samples.shard[i]), int(samples.offset[i]), int(samples.length[i]))
        except (ValueError, OSError) as error:
            return Status.READ_ERROR, str(error), None
        if self._verify and not matches_checksum(self._shards, data, samples, i):
            return Status.CHECKSUM_MISMATCH, "CRC32C differs from the index", None
        try:
            pixels = self._decode(data, samples, i)
        except PayloadError as error:
            return error.status, str(error), None
        try:
            self._check_channels(pixels)
            for params, images in zip(work.columns, arrays, strict=True):
                for image in range(i, len(params), len(samples)):
                    self._make(params, image, pixels, images[image])
        except StokerError as error:
            return Status.OK, "", error
        return Status.OK, "", None

    def _decode(self, data: Any, samples: Samples, i: int) -> npt.NDArray[Any]:
        """The pixels of sample ``i``; PayloadError also where they are more or fewer than the index says."""
        color = self._image_format.color
        pixels = decode(data, samples, i, max_pixels=self._max_pixels, color=color, reference=True)
        if pixels.shape[:2] != (int(samples.height[i]), int(samples.width[i])):
            raise PayloadError(Status.SIZE_MISMATCH, "the image has another size than the index says")
        return pixels

    def _check_channels(self, pixels: npt.NDArray[Any]) -> None:
        """Raise ConfigError for an image that is stored with other channels than the first one."""
        expected = self._image_format.channels, self._image_format.bits
        found = pixels.shape[2], 8 * pixels.itemsize
        if self._image_format.color == "as_stored" and found != expected:
            raise ConfigError(
                f"the image is stored with {found[0]} channels of {found[1]} bits, and the first image with "
                f"{expected[0]} of {expected[1]}; a batch needs one form",
                hint="Load with color='rgb', 'gray' or 'rgba', which convert each image.",
            )

    def _make(self, params: ImageParams, i: int, pixels: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
        """Write image ``i`` of the parameters into ``out``."""
        image_format = self._image_format
        made = reference.execute(params, i, pixels, image_format.dtype, image_format.layout)
        if image_format.color == "gray":
            made = made[:1] if image_format.layout == "NCHW" else made[..., :1]
        out[tuple(map(slice, made.shape))] = made
