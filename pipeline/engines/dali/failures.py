"""Failures of DALI, read from its messages: which sample failed, and whether CUDA can go on.

The words are those of DALI 2.4. Nothing here imports DALI.
"""

from __future__ import annotations

import re
import sys

from stoker.errors import EngineError

__all__ = ["engine_error", "is_sticky", "last_line", "named_samples"]

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
_OUT_OF_MEMORY = re.compile(
    r"cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY|NVJPEG_STATUS_ALLOCATOR_FAILURE"
    r"|out of memory|CUDA allocation failed|bad_alloc",
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
    """Whether a message names a fault after which CUDA works no more in this process."""
    return bool(_STICKY.search(str(error)))


def engine_error(error: BaseException, device: str) -> EngineError:
    """The error that a user sees for an error of DALI that no sample explains.

    Args:
        error: Error of DALI.
        device: "cpu" or "cuda:N".
    """
    said = last_line(error)
    if device != "cpu" and is_sticky(error):
        return EngineError(
            f"CUDA failed on {device} and can no longer be used in this process: {said}",
            hint="Start the process again from a checkpoint; engine='native' does not decode with CUDA.",
        )
    if device != "cpu" and (isinstance(error, MemoryError) or _OUT_OF_MEMORY.search(str(error))):
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
