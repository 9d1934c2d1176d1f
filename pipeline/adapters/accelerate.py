"""Accelerate: how many processes it has, and that it learns which batch of a loader is an epoch's last.

Without the latter, ``accumulate`` would not apply the gradients of last batches, which fill no step.
"""

from __future__ import annotations

import weakref
from typing import Any

from accelerate.data_loader import DataLoaderStateMixin  # type: ignore[import-untyped]
from accelerate.state import GradientState, PartialState, is_initialized  # type: ignore[import-untyped]

from ..execution.passes import EpochIterator, Progress


class _Pass(DataLoaderStateMixin):  # type: ignore[misc]  # accelerate is optional
    """The pass of a loader that an accelerator knows."""

    _drop_last = True  # gather_for_metrics leaves nothing out: a padded batch has a mask

    def __init__(self, progress: Progress) -> None:
        self.gradient_state = GradientState()
        self.progress = progress


def _is_at_end(known: Any) -> bool:
    return bool(known.progress.received == len(known.progress.steps))


# Here, as the base class sets it on its subclasses.
_Pass.end_of_dataloader = property(_is_at_end, lambda known, value: None)


def announce(running: EpochIterator) -> None:
    """Tell an accelerator, if there is one, of a pass until it is dropped."""
    if is_initialized():
        known = _Pass(running.progress)
        known.begin()
        weakref.finalize(running, known.end)


def number_of_processes() -> int:
    """Number of processes of the accelerator; 1 if there is none."""
    return int(PartialState().num_processes) if is_initialized() else 1
