"""Failures of DALI: the meaning of its messages, and the recovery of a batch that failed as a whole.

The messages are from DALI 2.4. Nothing here imports DALI.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from stoker.errors import EngineError

from ..base import Status
from .inputs import DaliBatch

Run = Callable[[DaliBatch], Any]

# DALI's image decoder (operators/imgcodec/image_decoder.h) numbers samples from the start of the batch.
_DECODE = re.compile(r"Failed to decode sample #(\d+)")

# Errors after which every call of CUDA in this process fails (CUDA Runtime API, "cudaError" types).
_STICKY = re.compile(
    r"cudaError(IllegalAddress|LaunchFailure|HardwareStackError|IllegalInstruction|MisalignedAddress"
    r"|InvalidAddressSpace|InvalidPc|Assert|LaunchTimeout|ECCUncorrectable|ContextIsDestroyed)"
    r"|CUDA_ERROR_(ILLEGAL_ADDRESS|LAUNCH_FAILED|HARDWARE_STACK_ERROR|ILLEGAL_INSTRUCTION|MISALIGNED_ADDRESS"
    r"|INVALID_ADDRESS_SPACE|INVALID_PC|ASSERT|LAUNCH_TIMEOUT|ECC_UNCORRECTABLE|CONTEXT_IS_DESTROYED)"
    r"|an illegal memory access was encountered|unspecified launch failure|misaligned address"
    r"|device-side assert triggered"
)
# nvimgcodec.h: 5 is NVIMGCODEC_STATUS_ALLOCATOR_FAILURE, 15 is the failure of an extension.
_OUT_OF_MEMORY = re.compile(
    r"cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY|NVJPEG_STATUS_ALLOCATOR_FAILURE"
    r"|out of memory|CUDA allocation failed|bad_alloc|nvImageCodec failure: '#(5|15)'",
    re.IGNORECASE,
)

_MEMORY_OF = {
    "tensorflow": "TensorFlow takes nearly all memory of a GPU when it first uses it: call "
    "tf.config.experimental.set_memory_growth(gpu, True) for each GPU before that.",
    "jax": "JAX takes 75% of the memory of a GPU when it first uses it: set the environment variable "
    "XLA_PYTHON_CLIENT_PREALLOCATE=false, or a smaller XLA_PYTHON_CLIENT_MEM_FRACTION, before that.",
}


def named_samples(error: BaseException) -> list[int]:
    """Positions in the batch of the samples that a message says could not be decoded, ascending."""
    return sorted({int(number) for number in _DECODE.findall(str(error))})


def is_sticky(error: BaseException) -> bool:
    """Whether a message names a fault after which CUDA no longer works in this process."""
    return bool(_STICKY.search(str(error)))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory was missing, in this process or on a GPU: no sample is to blame."""
    return isinstance(error, MemoryError) or bool(_OUT_OF_MEMORY.search(str(error)))


def engine_error(error: BaseException, device: str) -> EngineError:
    """The error that a user sees for an error of DALI that no sample explains."""
    if isinstance(error, EngineError):
        return error
    said = last_line(error)
    if device != "cpu" and is_sticky(error):
        return EngineError(
            f"CUDA failed on {device} and can no longer be used in this process: {said}",
            hint="Start the process again from a checkpoint; engine='native' does not decode with CUDA.",
        )
    if device != "cpu" and is_out_of_memory(error):
        hints = [hint for framework, hint in _MEMORY_OF.items() if framework in sys.modules]
        return EngineError(
            f"{device} has too little memory for DALI: {said}",
            hint=" ".join([*hints, "A smaller batch_size or prefetch needs less memory."]),
        )
    return EngineError(f"DALI failed: {said}")


def last_line(error: BaseException) -> str:
    """The line of a DALI error that says what happened, without its C++ traceback."""
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [line for line in lines if _tells(line)]
    return next(iter(telling[1:2] or telling or [line for line in lines if line]), "no message")


def _tells(line: str) -> bool:
    words = ("Assert", "Failed to decode", "CUDA")
    return line.startswith("Error") or "failure" in line.lower() or any(word in line for word in words)


def recover(batch: DaliBatch, error: RuntimeError | MemoryError, run: Run, device: str) -> Any:
    """Execute a batch that failed, without the samples that DALI cannot decode, which are rejected."""
    # DALI's message names one sample at most. A named sample is run alone to confirm it. Where no sample is
    # named, halves of the batch are run until the samples are found. The search ends where memory is missing:
    # each sample that fails then may be good.
    for _ in range(len(batch.payloads)):  # each round but the last rejects a sample
        if not _may_be_a_sample(error):
            break
        culprits: dict[int, str] = {}
        try:
            culprits = _culprits(batch, error, run)
            for i, reason in culprits.items():
                batch.payloads.reject(i, Status.NOT_DECODABLE, reason)
            return run(batch)
        except (RuntimeError, MemoryError) as again:
            error = again
        if not culprits:
            break
    raise engine_error(error, device) from (error.__cause__ if isinstance(error, EngineError) else error)


def _may_be_a_sample(error: BaseException) -> bool:
    """Whether a sample may explain an error of DALI, or of the making of its pipeline."""
    return not (isinstance(error, EngineError) or is_out_of_memory(error) or is_sticky(error))


def _culprits(batch: DaliBatch, error: RuntimeError | MemoryError, run: Run) -> dict[int, str]:
    """Reasons of the samples that fail alone, by position: those that ``error`` names, or else all."""
    good = [i for i in range(len(batch.payloads)) if i not in batch.payloads.bad]
    named = [i for i in named_samples(error) if i in good]
    found = {i: reason for i in named for reason in _failures(batch, [i], run).values()}
    return found or _failures(batch, good, run, known=error)


def _failures(
    batch: DaliBatch, rows: Sequence[int], run: Run, known: RuntimeError | MemoryError | None = None
) -> dict[int, str]:
    """Reasons of the samples among ``rows`` that fail alone, by position in the batch."""
    error = known
    if error is None:
        try:
            run(batch.of(rows))
        except (RuntimeError, MemoryError) as reason:
            if not _may_be_a_sample(reason):
                raise
            error = reason
    if error is None or not rows:
        return {}
    if len(rows) == 1:
        return {rows[0]: last_line(error)}
    middle = len(rows) // 2
    return _failures(batch, rows[:middle], run) | _failures(batch, rows[middle:], run)
