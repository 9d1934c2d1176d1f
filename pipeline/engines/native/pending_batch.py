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


@dataclass
class PendingBatch:
    """A batch from submit to collect."""

    work: Work  # Samples and parameters of the batch
    # Arrays that the images are written into, one for each of the work's columns
    images: tuple[npt.NDArray[Any], ...]
    status: npt.NDArray[np.uint8]  # (N,) uint8, the :class:`Status` of each sample, which C++ writes
    waiting: int = 1  # Samples that Pillow has not decoded, and one more until all of them are handed to it
    # Pixels that Pillow has decoded, by index in the batch
    decoded: dict[int, npt.NDArray[np.uint8]] = field(default_factory=dict)
    # Status and message of each bad sample, from Pillow or C++, by index in the batch
    failed: dict[int, tuple[Status, str]] = field(default_factory=dict)
    # Errors of custom steps, by index in the batch
    step_errors: dict[int, StokerError] = field(default_factory=dict)
    job: _native.Job | None = None  # The batch in C++; None until it starts
    error: BaseException | None = None  # What kept the batch from starting
    # Set once ``job`` or ``error`` has a value
    started: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)  # Guards ``waiting``
