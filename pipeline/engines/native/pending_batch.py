"""A batch in the native engine, from submit to collect."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker.errors import StokerError

from ..base import Status, Work

__all__ = ["PendingBatch"]


@dataclass
class PendingBatch:
    """A batch from submit to collect.

    Attributes:
        work: What to execute.
        images: ImageFormat arrays, one for each of the work's columns.
        status: (N,) uint8.
        waiting: Samples that Pillow has not finished, and one more until all of them are handed over.
        decoded: Pixels from Pillow by position.
        failed: What Pillow or C++ said, by position.
        step_errors: Errors of custom steps, by position.
        job: The batch in C++.
        error: What kept the batch from being started.
        started: Set when ``job`` or ``error`` is.
    """

    work: Work
    images: tuple[npt.NDArray[Any], ...]
    status: npt.NDArray[np.uint8]
    waiting: int = 1
    decoded: dict[int, npt.NDArray[np.uint8]] = field(default_factory=dict)
    failed: dict[int, tuple[Status, str]] = field(default_factory=dict)
    step_errors: dict[int, StokerError] = field(default_factory=dict)
    job: _native.Job | None = None
    error: BaseException | None = None
    started: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
