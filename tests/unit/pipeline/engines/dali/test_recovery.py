"""Batches that fail as a whole: what DALI's messages name, and what is found without them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from stoker.augment import Resize, compile_image
from stoker.errors import EngineError
from stoker.pipeline.engines.base import Status
from stoker.pipeline.engines.dali.failures import engine_error, is_sticky, last_line, named_samples, recover
from stoker.pipeline.engines.dali.inputs import DaliBatch
from stoker.pipeline.engines.dali.payloads import Payloads
from stoker.pipeline.engines.dali.spec import PipelineSpec

# As DALI 2.4 says it.
NAMED = """Critical error in pipeline:
Error in MIXED operator `nvidia.dali.fn.decoders.image`,
which was used in the pipeline definition with the following traceback:

  File "pipeline.py", line 96, in _decoded
    image = fn.decoders.image(payload)

encountered:

Failed to decode sample #{} :
Current pipeline object is no longer valid."""
UNNAMED = "Critical error in pipeline:\nencountered:\n\nnvImageCodec failure: '#4'\n"
FAULT = "CUDA runtime API error cudaErrorIllegalAddress (700):\nan illegal memory access was encountered"


class Runs:
    """Executes batches, and fails where they hold one of the bad samples."""

    def __init__(self, bad: set[int], say: Callable[[int], str] = NAMED.format) -> None:
        self.bad, self.say = bad, say
        self.sizes: list[int] = []

    def __call__(self, batch: DaliBatch) -> str:
        self.sizes.append(len(batch.payloads))
        rows = batch.rows or range(len(batch.payloads))
        for position, row in enumerate(rows):
            if row in self.bad and position not in batch.payloads.bad:
                raise RuntimeError(self.say(position))
        return "images"


def batch_of(n: int) -> DaliBatch:
    sides = np.full(n, 8)
    params = compile_image([Resize((8, 8))]).draw(sides, sides, np.arange(n), 0, 0)
    return DaliBatch(PipelineSpec.of(params), params, Payloads([np.zeros(9, np.uint8)] * n))


def recovered(batch: DaliBatch, runs: Runs) -> list[int]:
    """Positions of the samples that were rejected."""
    with pytest.raises(RuntimeError) as failed:
        runs(batch)
    assert recover(batch, failed.value, runs, "cuda:0") == "images"
    assert set(batch.payloads.status()) <= {Status.OK, Status.NOT_DECODABLE}
    return np.flatnonzero(batch.payloads.status()).tolist()


def test_a_sample_that_the_message_names_is_tried_alone_and_no_other() -> None:
    runs = Runs({5})
    assert recovered(batch_of(256), runs) == [5]
    assert runs.sizes == [256, 1, 256]


def test_every_message_names_one_of_several() -> None:
    runs = Runs({0, 100, 255})
    assert recovered(batch_of(256), runs) == [0, 100, 255]
    assert runs.sizes == [256, 1, 256, 1, 256, 1, 256]


def test_samples_that_no_message_names_are_found_by_halves() -> None:
    runs = Runs({5, 200}, lambda _: UNNAMED)
    assert recovered(batch_of(256), runs) == [5, 200]
    assert len(runs.sizes) < 2 + 2 * 2 * 8 + 1


def test_a_name_of_a_good_sample_rejects_it_not() -> None:
    runs = Runs({5}, lambda _: NAMED.format(7))
    assert recovered(batch_of(8), runs) == [5]


def test_a_failure_that_does_not_come_back_costs_nothing() -> None:
    assert recover(batch_of(4), RuntimeError(UNNAMED), Runs(set()), "cuda:0") == "images"


def test_a_fault_of_cuda_is_not_tried_again() -> None:
    runs = Runs({0}, lambda _: FAULT)
    with pytest.raises(EngineError, match="CUDA failed on cuda:0 and can no longer be used in this process"):
        recover(batch_of(4), RuntimeError(FAULT), runs, "cuda:0")
    assert runs.sizes == []
    runs = Runs({2}, lambda _: FAULT)  # it comes while the samples are tried
    with pytest.raises(EngineError, match="Start the process again"):
        recover(batch_of(4), RuntimeError(NAMED.format(2)), runs, "cuda:0")


MISSING_MEMORY = [
    MemoryError("std::bad_alloc"),
    RuntimeError("CUDA allocation failed"),
    RuntimeError("CUDA runtime API error cudaErrorMemoryAllocation (2):\nout of memory"),
    RuntimeError("Error in MIXED operator\nFailed to decode sample #0 :\nnvImageCodec failure: '#5'"),
]


@pytest.mark.parametrize("error", MISSING_MEMORY)
def test_a_batch_without_memory_keeps_all_its_samples(error: Any) -> None:
    batch, runs = batch_of(256), Runs(set())
    with pytest.raises(EngineError, match="cuda:0 has too little memory for DALI"):
        recover(batch, error, runs, "cuda:0")
    assert runs.sizes == []
    assert not batch.payloads.bad


@pytest.mark.parametrize("error", MISSING_MEMORY)
@pytest.mark.parametrize("message", [UNNAMED, NAMED.format(3)])
def test_memory_that_is_missing_in_the_search_ends_it(error: Any, message: str) -> None:
    batch, sizes = batch_of(256), []

    def run(batch: DaliBatch) -> str:
        sizes.append(len(batch.payloads))
        raise type(error)(*error.args)  # the one of the table would keep the batch by its traceback

    with pytest.raises(EngineError, match="cuda:0 has too little memory for DALI"):
        recover(batch, RuntimeError(message), run, "cuda:0")
    assert len(sizes) == 1
    assert not batch.payloads.bad


def test_an_error_of_the_engine_is_handed_on_as_it_is() -> None:
    def run(batch: DaliBatch) -> str:
        raise EngineError("the pipeline cannot be built") from MemoryError()

    with pytest.raises(EngineError, match=r"^the pipeline cannot be built$") as failed:
        recover(batch_of(4), RuntimeError(UNNAMED), run, "cuda:0")
    assert isinstance(failed.value.__cause__, MemoryError)


@pytest.mark.parametrize(
    ("message", "named"),
    [
        (NAMED.format(0), [0]),
        (NAMED.format(17) + NAMED.format(3), [3, 17]),
        (UNNAMED, []),
        ("Assert on sample 4 failed", []),
    ],
)
def test_names_in_messages(message: str, named: list[int]) -> None:
    assert named_samples(RuntimeError(message)) == named


def test_the_line_that_tells_what_happened() -> None:
    assert last_line(RuntimeError(NAMED.format(3))) == "Failed to decode sample #3 :"
    assert last_line(RuntimeError(UNNAMED)) == "nvImageCodec failure: '#4'"
    assert last_line(RuntimeError("")) == "no message"


def test_which_faults_end_the_use_of_cuda() -> None:
    assert is_sticky(RuntimeError(FAULT))
    assert is_sticky(RuntimeError("CUDA driver API error CUDA_ERROR_LAUNCH_FAILED (719)"))
    assert not is_sticky(RuntimeError("cudaErrorMemoryAllocation (2): out of memory"))


@pytest.mark.parametrize(
    ("framework", "hint"),
    [("tensorflow", "set_memory_growth"), ("jax", "XLA_PYTHON_CLIENT_PREALLOCATE=false")],
)
@pytest.mark.parametrize("error", [MemoryError("std::bad_alloc"), RuntimeError("CUDA allocation failed")])
def test_a_framework_that_holds_the_memory_is_named(
    framework: str, hint: str, error: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("tensorflow", "jax"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert "TensorFlow" not in str(engine_error(error, "cuda:0"))
    monkeypatch.setitem(sys.modules, framework, ModuleType(framework))
    found = str(engine_error(error, "cuda:0"))
    assert "cuda:0 has too little memory for DALI" in found
    assert hint in found
    assert hint not in str(engine_error(error, "cpu"))
