"""Batches with custom steps at the end: what C++ executes before these steps and after them."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stoker.augment.params.image_params import ImageParams
from stoker.augment.steps.custom import split_last_custom
from stoker.errors import StokerError

from ..base import ImageFormat, Work

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from stoker.augment.steps import Step

    Pixels = npt.NDArray[np.uint8]

__all__ = ["PIXELS", "run_steps", "split_work", "work_after"]

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


def run_steps(
    steps: tuple[Step, ...], samples: Iterable[int], pixels: dict[int, Pixels], errors: dict[int, StokerError]
) -> None:
    """Run steps on samples, one after the other.

    Args:
        steps: Custom steps.
        samples: Positions in the batch. Several threads may share one iterator.
        pixels: (H, W, 3) uint8 of each sample, which the results replace.
        errors: Gets the error of each sample on which a step failed.
    """
    for i in samples:
        image = pixels[i]
        with _errors_of(i, errors):
            for step in steps:
                image = step.run(i, image)
        pixels[i] = np.ascontiguousarray(image)


@contextmanager
def _errors_of(i: int, errors: dict[int, StokerError]) -> Iterator[None]:
    try:
        yield
    except StokerError as error:
        errors[i] = error
