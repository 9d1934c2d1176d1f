"""Batches with custom steps at the end: what C++ executes before these steps and after them."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np

from stoker.augment.params.image_params import ImageParams
from stoker.augment.steps import BatchStep
from stoker.augment.steps.custom import split_last_custom
from stoker.errors import StokerError

from ..base import ImageFormat, Status, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor, Future

    import numpy.typing as npt

    from stoker.augment.steps import Step
    from stoker.formats.dataset.reading.samples import Samples

    Pixels = npt.NDArray[np.uint8]

__all__ = ["PIXELS", "CustomSteps", "split_work", "work_after"]

PIXELS = ImageFormat("uint8", "NHWC")
"""Form of the images that custom steps get and return."""


def split_work(work: Work) -> tuple[Work, tuple[tuple[Step, ...], ...]]:
    """Split a batch into what C++ executes first, and the custom steps of each column of images after it.

    The first part of a column with such steps ends with uint8 pixels: colours, boxes to erase and the dtype
    are left out. A column without custom steps at the end, or where they apply to no image, stays whole.
    """
    columns, custom = zip(*map(_split, work.columns), strict=True)
    return replace(work, params=columns[0], others=tuple(columns[1:])), custom


def _split(params: ImageParams) -> tuple[ImageParams, tuple[Step, ...]]:
    steps, custom = split_last_custom(params.steps or ())
    custom = tuple(step for step in custom if step.where.any())
    params = replace(params, steps=steps or None)
    if custom:
        unchanged = np.tile(np.eye(3, 4, dtype=np.float32), (len(params), 1, 1))
        params = replace(params, color=unchanged, mean_matrix=None, erase=None)
    return params, custom


def work_after(samples: Samples, params: ImageParams) -> Work:
    """The rest of a column of M images after its custom steps, whose results are its samples.

    Args:
        samples: The N samples of the batch.
        params: Parameters of the column.
    """
    m = len(params)
    size = (
        np.tile(np.array(params.size, np.int32), (m, 1)) if params.image_size is None else params.image_size
    )
    whole = np.concatenate((np.zeros_like(size), size), axis=1)
    shown = samples if m == len(samples) else samples.take(np.arange(m) % len(samples))
    rest = ImageParams(
        size=params.size,
        crop=whole,
        region=whole.astype(np.float64),
        dest=whole,
        flip=np.zeros((m, 2), np.bool_),
        color=params.color,
        fill=params.fill,
        mean_matrix=params.mean_matrix,
        erase=params.erase,
        image_size=params.image_size,
    )
    return Work(replace(shown, height=size[:, 0].copy(), width=size[:, 1].copy()), rest)


class CustomSteps:
    """The custom steps of a column of images, and the images that they change.

    Args:
        steps: Custom steps, run one after the other.
        params: Parameters of the M images.
        pixels: (M, H, W, 3) uint8, the images before the steps, which may change it.
        status: (N,) uint8, the :class:`~..base.Status` of each sample; image i shows sample i % N.

    Attributes:
        images: (h, w, 3) uint8 of each image by its position, C-contiguous; :meth:`start` replaces them by
            the results.
        errors: The error of each sample on which a step failed.
    """

    def __init__(
        self, steps: tuple[Step, ...], params: ImageParams, pixels: Pixels, status: npt.NDArray[np.uint8]
    ) -> None:
        self._steps = steps
        self._pixels = pixels
        self._samples = len(status)
        self._good = np.flatnonzero(np.tile(status, len(params) // len(status)) == Status.OK)
        self._together = params.image_size is None and any(isinstance(step, BatchStep) for step in steps)
        self.images: dict[int, Pixels] = dict(enumerate(pixels))
        if params.image_size is not None:
            sizes = params.image_size.tolist()
            self.images = {i: np.ascontiguousarray(pixels[i, :h, :w]) for i, (h, w) in enumerate(sizes)}
        self.errors: dict[int, StokerError] = {}

    def start(self, pool: Executor, threads: int, is_closed: Callable[[], bool]) -> list[Future[None]]:
        """Start to run the steps on the images of good samples, spread over threads.

        Args:
            pool: Where to run them.
            threads: How many threads share the work.
            is_closed: Whether images that are not begun are not wanted any more.
        """
        threads = max(1, min(threads, len(self._good)))
        if self._together:
            return [pool.submit(self._run_together, rows) for rows in np.array_split(self._good, threads)]
        shared = takewhile(lambda _: not is_closed(), self._good.tolist())
        return [pool.submit(self._run_singly, shared) for _ in range(threads)]

    def _run_singly(self, rows: Iterable[int]) -> None:
        """Run the steps on one image after the other; several threads may share one iterator."""
        for i in rows:
            image = self.images[i]
            with self._errors_of(i):
                for step in self._steps:
                    image = step.run(i, image)
            self.images[i] = np.ascontiguousarray(image)

    def _run_together(self, rows: npt.NDArray[np.intp]) -> None:
        """Run the steps on the images ``rows``, (M,), with one call of each :class:`BatchStep`.

        If a step fails, the images are run one by one, to find the sample on which it fails.
        """
        if not len(rows):
            return
        is_range = rows[-1] - rows[0] + 1 == len(rows)
        images = self._pixels[rows[0] : rows[-1] + 1] if is_range else self._pixels[rows]
        try:
            for step in self._steps:
                if isinstance(step, BatchStep):
                    images = step.run_batch(rows, images)
                else:
                    images = np.stack([step.run(*pair) for pair in zip(rows.tolist(), images, strict=True)])
        except StokerError as error:
            self._run_singly(rows.tolist())
            if not self.errors:
                self.errors[int(rows[0]) % self._samples] = error
            return
        self.images.update(zip(rows.tolist(), np.ascontiguousarray(images), strict=True))

    @contextmanager
    def _errors_of(self, i: int) -> Iterator[None]:
        """Take down an error of image ``i``."""
        try:
            yield
        except StokerError as error:
            self.errors.setdefault(i % self._samples, error)
