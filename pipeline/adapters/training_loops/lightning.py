"""Lightning: checks of a resume, as Lightning counts the steps of an epoch itself.

Lightning restores the number of steps done and ends the epoch at ``len(loader)`` steps. If a step has another
number of samples after a resume, the two numbers do not fit, and Lightning leaves out samples of the epoch.
"""

from __future__ import annotations

from stoker.errors import CheckpointError

from .caller import calling_frame, package

_PACKAGES = ("lightning", "pytorch_lightning")


def is_caller() -> bool:
    """Whether Lightning has called the method of a loader that calls this function."""
    frame = calling_frame()
    return frame is not None and package(frame) in _PACKAGES


def check_resume(saved: int, current: int, unit: str) -> None:
    """Check a state that Lightning loads into a loader; states of other callers are not checked."""
    if saved != current and is_caller():
        raise CheckpointError(
            f"a step of this checkpoint had {saved} {unit}, and a step of this loader has {current}: "
            "Lightning counts steps, and would leave out samples of the epoch",
            hint=f"Resume with {saved} {unit} in a step. Or load the weights alone, give the loader its "
            "state from the checkpoint yourself, and call fit without ckpt_path.",
        )
