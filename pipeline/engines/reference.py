"""The reference engine: every transform, one sample at a time, with Pillow and NumPy.

It runs :mod:`stoker.augment.reference` on threads. Other engines are tested against it, and
``engine="auto"`` takes it for transforms that they do not execute.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.augment import reference
from stoker.augment.params import ImageParams
from stoker.augment.reference import compose, shown_parts
from stoker.errors import ConfigError, StokerError
from stoker.formats.dataset.index import Samples

from .base import EngineSettings, PayloadError, Result, Status, Work, checked_payload, decode, open_shards

_Outcome = tuple[Status, str, StokerError | None]
_Arrays = tuple[npt.NDArray[Any], ...]
_Started = list[Future[list[_Outcome]]]
"""Outcomes of the samples of each image, in the order of the batch."""


class ReferenceEngine:
    """Executes batches with Pillow and NumPy on a pool of threads."""

    name = "reference"
    device = "cpu"

    def __init__(self, settings: EngineSettings) -> None:
        self.max_in_flight = settings.depth
        self._settings = settings
        self._image_format = settings.image_format
        self._shards = open_shards(
            settings.files, settings.sizes, mapped=settings.mapped, listing=settings.listing
        )
        self._pool = ThreadPoolExecutor(settings.num_threads, "stoker-reference")
        self._in_flight: deque[tuple[_Arrays, _Started]] = deque()

    def read_ahead(self, samples: Samples, columns: Sequence[ImageParams] = ()) -> None:
        self._shards.will_need(samples.shard, samples.offset, samples.length)

    def submit(self, work: Work) -> None:
        dtype = self._image_format.numpy_dtype
        shapes = (self._image_format.shape(one.image_count, one.size) for one in work.columns)
        arrays = tuple(np.zeros(shape, dtype) for shape in shapes)
        if work.params.composition is None:
            started = [self._pool.submit(self._make_all, work, i, arrays) for i in range(len(work.samples))]
        else:
            images = range(work.params.image_count)
            started = [self._pool.submit(self._compose, work, image, arrays[0]) for image in images]
        self._in_flight.append((arrays, started))

    def collect(self) -> Result:
        (images, *others), started = self._in_flight.popleft()
        by_image = [future.result() for future in started]
        outcomes = [outcome for of_image in by_image for outcome in of_image]
        reason = {i: message for i, (status, message, _) in enumerate(outcomes) if status != Status.OK}
        errors = {i: error for i, of_image in enumerate(by_image) for _, _, error in of_image if error}
        status = np.array([status for status, _, _ in outcomes], dtype=np.uint8)
        return Result(images, status, reason, errors, tuple(others))

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._in_flight.clear()
        self._shards.close()

    def _make_all(self, work: Work, i: int, arrays: _Arrays) -> list[_Outcome]:
        """Write all images of sample ``i``; returns its status, a message, and the error of a step."""
        pixels, outcome = self._read(work.samples, i, work.columns)
        if pixels is None:
            return [outcome]
        try:
            self._check_channels(pixels)
            for params, images in zip(work.columns, arrays, strict=True):
                for image in range(i, len(params), len(work.samples)):
                    self._make(params, image, pixels, images[image])
        except StokerError as error:
            return [(Status.OK, "", error)]
        return [outcome]

    def _compose(self, work: Work, image: int, images: npt.NDArray[Any]) -> list[_Outcome]:
        """Write an image of several samples; returns the outcomes of these."""
        params, composition = work.params, work.params.composition
        parts = [] if composition is None else np.flatnonzero(composition.image == image).tolist()
        outcomes: dict[int, _Outcome] = dict.fromkeys(parts, (Status.OK, "", None))
        pixels = {}
        for part in shown_parts(params, image):
            part_pixels, outcomes[part] = self._read(work.samples, part)
            if part_pixels is not None:
                pixels[part] = part_pixels
        good = all(status == Status.OK for status, _, _ in outcomes.values())
        if good:
            try:
                image_format = self._image_format
                composed = compose(params, image, pixels, image_format.dtype, image_format.layout)
                self._store(composed, images[image])
            except StokerError as error:
                outcomes[parts[0]] = (Status.OK, "", error)
        return list(outcomes.values())

    def _read(
        self, samples: Samples, i: int, columns: Sequence[ImageParams] = ()
    ) -> tuple[npt.NDArray[Any] | None, _Outcome]:
        """The pixels of sample ``i`` for its images in ``columns`` (None if it is bad), and its outcome."""
        try:
            data = checked_payload(self._shards, samples, i, verify=self._settings.verify)
            return self._decode(data, samples, i, columns), (Status.OK, "", None)
        except PayloadError as error:
            return None, (error.status, str(error), None)

    def _decode(
        self, data: Any, samples: Samples, i: int, columns: Sequence[ImageParams]
    ) -> npt.NDArray[Any]:
        """The pixels of sample ``i``; raises PayloadError if the index has another size."""
        color = self._image_format.color
        pixels = decode(data, samples, i, max_pixels=self._settings.max_pixels, color=color, reference=True)
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
        image_format = self._image_format
        self._store(reference.execute(params, i, pixels, image_format.dtype, image_format.layout), out)

    def _store(self, image: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
        image_format = self._image_format
        if image_format.color == "gray":
            image = image[:1] if image_format.layout == "NCHW" else image[..., :1]
        out[tuple(map(slice, image.shape))] = image


make_engine = ReferenceEngine
