"""The code that calls a loader, for checks of how a framework uses the loader."""

from __future__ import annotations

import inspect
from types import FrameType


def calling_frame() -> FrameType | None:
    """The innermost frame that runs no code of Stoker; None if there is none."""
    frame = inspect.currentframe()
    while frame and package(frame) == "stoker":
        frame = frame.f_back
    return frame


def package(frame: FrameType) -> str:
    """Name of the top-level package whose code a frame runs."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
