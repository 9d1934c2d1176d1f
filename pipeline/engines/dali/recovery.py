"""Recovery of a batch that failed as a whole: the samples that DALI cannot decode are found and left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base import Status
from .failures import engine_error, is_sticky, last_line, named_samples
from .inputs import DaliBatch

Run = Callable[[DaliBatch], Any]

__all__ = ["recover"]


def recover(batch: DaliBatch, error: RuntimeError | MemoryError, run: Run, device: str) -> Any:
    """Execute a batch that failed, without the samples that DALI cannot decode, which are rejected.

    DALI's message names one sample at most. A named sample is run alone to confirm it. Where no sample is
    named, halves of the batch are run until the samples are found.

    Args:
        batch: Batch that failed; the payloads of its bad samples are rejected.
        error: What DALI said.
        run: Executes a batch in a pipeline that has not failed, and raises what DALI raises.
        device: "cpu" or "cuda:N".

    Returns:
        The images of the batch.

    Raises:
        EngineError: No sample explains the failure, memory is missing, or a fault of CUDA ended its use.
    """
    for _ in range(len(batch.payloads)):  # each round but the last rejects a sample
        if isinstance(error, MemoryError) or is_sticky(error):
            break
        culprits = _culprits(batch, error, run)
        for i, reason in culprits.items():
            batch.payloads.reject(i, Status.NOT_DECODABLE, reason)
        try:
            return run(batch)
        except (RuntimeError, MemoryError) as again:
            error = again
        if not culprits:
            break
    raise engine_error(error, device) from error


def _culprits(batch: DaliBatch, error: RuntimeError, run: Run) -> dict[int, str]:
    """Reasons of the samples that fail alone, by position: those that ``error`` names, or else all."""
    good = [i for i in range(len(batch.payloads)) if i not in batch.payloads.bad]
    named = [i for i in named_samples(error) if i in good]
    found = {i: reason for i in named for reason in _failures(batch, [i], run).values()}
    return found or _failures(batch, good, run, known=error)


def _failures(
    batch: DaliBatch, rows: Sequence[int], run: Run, known: RuntimeError | None = None
) -> dict[int, str]:
    """Reasons of the samples among ``rows`` that fail alone, by position in the batch.

    Args:
        batch: Batch of the samples.
        rows: Positions in the batch.
        run: Executes a batch.
        known: What DALI said about these samples together, if they have been run.
    """
    error: RuntimeError | None = known
    if error is None:
        try:
            run(batch.of(rows))
        except RuntimeError as reason:
            error = reason
    if error is None or is_sticky(error) or not rows:
        return {}
    if len(rows) == 1:
        return {rows[0]: last_line(error)}
    middle = len(rows) // 2
    return _failures(batch, rows[:middle], run) | _failures(batch, rows[middle:], run)
