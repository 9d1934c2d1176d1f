"""Custom steps at the end of a list, which C++ calls once it has done the rest of an image."""

from __future__ import annotations

import weakref
from dataclasses import replace
from functools import reduce

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker.augment.params import ImageParams
from stoker.augment.steps import BatchStep, Step, split_last_custom
from stoker.errors import EngineError, StokerError

from .pending_batch import PendingBatch

Pixels = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.int64]


def split_custom(params: ImageParams) -> tuple[ImageParams, tuple[Step, ...]]:
    """Split the parameters of a column into what C++ executes, and the custom steps at its end that apply."""
    steps, custom = split_last_custom(params.steps or ())
    return replace(params, steps=steps or None), tuple(step for step in custom if step.where.any())


class CustomSteps:
    """The custom steps of a column of images, run one after the other."""

    def __init__(self, steps: tuple[Step, ...], batch: PendingBatch, *, one_size: bool) -> None:
        self._steps = steps
        self._samples = len(batch.status)
        # Errors refer to frames that refer to the batch in C++, which refers to this object.
        self._batch = weakref.ref(batch)
        self.together = one_size and any(isinstance(step, BatchStep) for step in steps)

    def for_cpp(self, memory: _native.BufferPool) -> _native.PythonSteps:
        """The steps as an argument for C++, which keeps their pixels in ``memory``."""
        where = reduce(np.logical_or, (step.where for step in self._steps))
        function = self._run_together if self.together else self._run_one
        return _native.PythonSteps(where, function, memory, takes_several=self.together)

    def _run_one(self, i: int, image: Pixels) -> Pixels:
        """Change image ``i``, (H, W, 3) uint8, and record the error of a step."""
        try:
            for step in self._steps:
                image = step.run(i, image)
        except BaseException as error:
            self._record(i, error)
        return np.ascontiguousarray(image)

    def _record(self, i: int, error: BaseException, *, only: bool = False) -> None:
        """Record the error of image ``i``, which C++ must not see; ``only`` if there is no other error."""
        if not isinstance(error, StokerError):
            ended = EngineError(f"a custom step ended with {type(error).__name__}: {error}")
            ended.__cause__, error = error, ended
        batch = self._batch()
        if batch and not (only and batch.step_errors):
            batch.step_errors.setdefault(i % self._samples, error)

    def _run_together(self, rows: Rows, pixels: Pixels) -> Pixels:
        """Change the images ``rows``, (M,), with one call of each :class:`BatchStep`; (M, H, W, 3) uint8.

        If a step fails, the images are run one by one, to find the sample on which it fails.
        """
        images = pixels
        try:
            for step in self._steps:
                if isinstance(step, BatchStep):
                    images = step.run_batch(rows, images)
                else:
                    images = np.stack([step.run(*pair) for pair in zip(rows.tolist(), images, strict=True)])
        except BaseException as error:
            for i, image in zip(rows.tolist(), pixels, strict=True):
                self._run_one(i, image)
            self._record(int(rows[0]), error, only=True)
            return pixels
        return np.ascontiguousarray(images)
