"""Batches with custom steps at the end: what C++ executes before these steps and after them."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np

from stoker.augment.params.image_params import ImageParams
from stoker.augment.steps import BatchStep
from stoker.augment.steps.custom import split_last_custom
from stoker.errors import StokerError

from ..base import ImageFormat, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor, Future

    import numpy.typing as npt

    from stoker.augment.steps import Step

    Pixels = npt.NDArray[np.uint8]

__all__ = ["PIXELS", "CustomSteps", "split_work", "work_after"]

PIXELS = ImageFormat("uint8", "NHWC")
"""Form of the images that custom steps get and return."""


def split_work(work: Work) -> tuple[Work, tuple[Step, ...]]:
    """Split a batch into what C++ executes first and the custom steps after it.

    Without custom steps at the end, or where they apply to no sample, this is the whole batch and no step.
    Otherwise the first part ends with uint8 pixels: colours, boxes to erase and the dtype are left out. A
    loader gives no such steps to this engine for batches of several images of a sample.
    """
    params = work.params
    steps, custom = split_last_custom(params.steps or ())
    custom = tuple(step for step in custom if step.where.any())
    params = replace(params, steps=steps or None)
    if custom:
        unchanged = np.tile(np.eye(3, 4, dtype=np.float32), (len(params), 1, 1))
        params = replace(params, color=unchanged, mean_matrix=None, erase=None)
    return replace(work, params=params), custom


def work_after(work: Work) -> Work:
    """The rest of a batch after its custom steps, whose results are samples of the output's size."""
    n, (height, width) = len(work.samples), work.params.size
    whole = np.tile(np.array([0, 0, height, width], np.int32), (n, 1))
    samples = replace(work.samples, height=np.full(n, height, np.int32), width=np.full(n, width, np.int32))
    params = ImageParams(
        size=work.params.size,
        crop=whole,
        region=whole.astype(np.float64),
        dest=whole,
        flip=np.zeros((n, 2), np.bool_),
        color=work.params.color,
        fill=work.params.fill,
        mean_matrix=work.params.mean_matrix,
        erase=work.params.erase,
    )
    return Work(samples, params)


@dataclass(frozen=True, eq=False)
class CustomSteps:
    """The custom steps of a batch, and the images that they change.

    Attributes:
        steps: Custom steps, run one after the other.
        pixels: (H, W, 3) uint8 of each sample by its position in the batch, which the results replace.
        errors: Gets the error of each sample on which a step failed.
        is_closed: Whether samples that are not begun are not wanted any more.
    """

    steps: tuple[Step, ...]
    pixels: dict[int, Pixels]
    errors: dict[int, StokerError]
    is_closed: Callable[[], bool]

    def start(self, pool: Executor, threads: int, samples: npt.NDArray[np.intp]) -> list[Future[None]]:
        """Start to run the steps on ``samples``, (M,) positions in the batch, spread over threads."""
        threads = max(1, min(threads, len(samples)))
        if any(isinstance(step, BatchStep) for step in self.steps):
            return [pool.submit(self._run_together, rows) for rows in np.array_split(samples, threads)]
        shared = takewhile(lambda _: not self.is_closed(), samples.tolist())
        return [pool.submit(self._run_singly, shared) for _ in range(threads)]

    def _run_singly(self, samples: Iterable[int]) -> None:
        """Run the steps on one sample after the other; several threads may share one iterator."""
        for i in samples:
            image = self.pixels[i]
            with _errors_of(i, self.errors):
                for step in self.steps:
                    image = step.run(i, image)
            self.pixels[i] = np.ascontiguousarray(image)

    def _run_together(self, rows: npt.NDArray[np.intp]) -> None:
        """Run the steps on the samples ``rows``, (M,), with one call of each :class:`BatchStep`.

        If a step fails, the samples are run one by one, to find the sample on which it fails.
        """
        samples = rows.tolist()
        if not samples:
            return
        images = np.stack([self.pixels[i] for i in samples])
        try:
            for step in self.steps:
                if isinstance(step, BatchStep):
                    images = step.run_batch(rows, images)
                else:
                    images = np.stack([step.run(*pair) for pair in zip(samples, images, strict=True)])
        except StokerError as error:
            self._run_singly(samples)
            if self.errors.keys().isdisjoint(samples):
                self.errors[samples[0]] = error
            return
        self.pixels.update(zip(samples, np.ascontiguousarray(images), strict=True))


@contextmanager
def _errors_of(i: int, errors: dict[int, StokerError]) -> Iterator[None]:
    try:
        yield
    except StokerError as error:
        errors[i] = error
