"""Accelerate: ``accumulate`` also applies the gradients of an epoch's last batches, which fill no step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from accelerate.data_loader import DataLoaderStateMixin  # type: ignore[import-untyped]
from accelerate.state import GradientState, is_initialized  # type: ignore[import-untyped]


class _Pass(DataLoaderStateMixin):  # type: ignore[misc]  # accelerate is optional
    """The pass of a loader that an accelerator knows."""

    _drop_last = True  # gather_for_metrics leaves nothing out: a padded batch has a mask

    def __init__(self) -> None:
        self.gradient_state = GradientState()


def announced(running: Iterator[Any], batches: int) -> Iterator[Any]:
    """The same ``batches`` of a pass; an accelerator, if there is one, is told which is the last."""
    if not is_initialized():
        return running
    return _announced(running, batches)


def _announced(running: Iterator[Any], batches: int) -> Iterator[Any]:
    known = _Pass()
    known.begin()
    try:
        for number, batch in enumerate(running, 1):
            known.end_of_dataloader = number == batches
            yield batch
    finally:
        known.end()
