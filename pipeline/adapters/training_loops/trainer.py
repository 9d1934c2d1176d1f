"""Hugging Face's Trainer and Accelerate: checks of a resume, as both count the steps of an epoch themselves.

The Trainer computes the epoch and the step at which it resumes from the number of steps done and from
``len()`` of its data. By default it leaves out the batches before that step. If the loader is at another
step, the training misses samples.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from stoker.errors import CheckpointError

from ...execution.loader import Loader
from .caller import calling_frame, package


def check_resume(loader: Loader) -> None:
    """Check the position of a loader whose length the Trainer asks for before it trains."""
    frames = list(_frames())
    if not any(_is_in(frame, "transformers", "set_initial_training_values") for frame in frames):
        return
    checkpoint, trainer = _local(frames, "resume_from_checkpoint"), _local(frames, "self")
    if not isinstance(checkpoint, str) or trainer is None or not loader.has_equal_epochs:
        return
    done = json.loads(Path(checkpoint, "trainer_state.json").read_text("utf-8"))["global_step"]
    accumulated = trainer.args.gradient_accumulation_steps
    epoch, step = divmod(done, -(-len(loader) // accumulated))
    wanted = epoch, step * accumulated if trainer.args.ignore_data_skip else 0
    current = loader.state_dict()["epoch"], len(loader) - loader.steps_left
    if wanted != current:
        raise CheckpointError(
            f"the Trainer would resume at step {wanted[1]} of epoch {wanted[0]}, but the loader is at step "
            f"{current[1]} of epoch {current[0]}: samples would be left out",
            hint="Load the state that was saved with this checkpoint into the loader, keep the samples of a "
            "step, and set ignore_data_skip=True.",
        )


def check_skipping(loader: Loader) -> None:
    """Check that Accelerate skips no batches of a pass that begins at the position of a loaded state."""
    for frame in _frames():
        skipped = getattr(frame.f_locals.get("self"), "skip_batches", 0)
        if _is_in(frame, "accelerate", "__iter__") and skipped and loader.steps_left < len(loader):
            raise CheckpointError(
                f"{skipped} batches would be left out, because the loader has skipped them already",
                hint="Leave out skip_first_batches; for Hugging Face's Trainer set ignore_data_skip=True.",
            )


def _frames() -> Iterator[FrameType]:
    frame = calling_frame()
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_in(frame: FrameType, package_name: str, function: str) -> bool:
    return frame.f_code.co_name == function and package(frame) == package_name


def _local(frames: list[FrameType], name: str) -> Any:
    """The innermost variable of this name in a function of the Trainer."""
    inside = (frame for frame in frames if package(frame) == "transformers" and name in frame.f_locals)
    return next((frame.f_locals[name] for frame in inside), None)
