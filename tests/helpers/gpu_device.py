"""The device of the tests in tests/gpu: the first GPU, or what ``STOKER_TEST_DEVICE`` names.

With ``STOKER_TEST_DEVICE=cpu`` the CPU stands in for the GPU, so that the tests themselves are tried on a
machine without one.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from stoker.benchmarks.comparison.usage import unshared_memory

__all__ = ["DEVICE", "ON_GPU", "consumer_stream", "fall_behind", "memory_in_use", "needs_cuda"]

DEVICE = os.environ.get("STOKER_TEST_DEVICE", "cuda:0")
ON_GPU = DEVICE != "cpu"
needs_cuda = pytest.mark.skipif(not ON_GPU, reason="the CPU cannot stand in for the GPU")


def consumer_stream() -> AbstractContextManager[Any]:
    """A new CUDA stream for a consumer of batches; nothing on the CPU."""
    if not ON_GPU:
        return nullcontext()
    import torch

    stream: AbstractContextManager[Any] = torch.cuda.stream(torch.cuda.Stream())
    return stream


def fall_behind(cycles: int = 1_000_000) -> None:
    """Make the current CUDA stream wait, so that memory that is used again too early shows other pixels."""
    if ON_GPU:
        import torch

        torch.cuda._sleep(cycles)


def memory_in_use() -> int:
    """Bytes of the GPU's memory that are in use; on the CPU, those of this process."""
    if not ON_GPU:
        return unshared_memory(os.getpid())
    import torch

    free, total = torch.cuda.mem_get_info(DEVICE)
    return int(total - free)
