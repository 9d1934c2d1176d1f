"""Failures of DALI: batches that fail as a whole, the samples to blame, and the errors that users see."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.dali import FLIPPED, PLAIN, images, work
from helpers.loaders import settings_of

from stoker.augment import Resize, compile_image
from stoker.errors import EngineError
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.open import open as open_dataset
from stoker.pipeline.engines.base import ImageFormat, Status
from stoker.pipeline.engines.dali.engine import BuiltPipeline, DaliEngine
from stoker.pipeline.engines.dali.failures import engine_error, recover
from stoker.pipeline.engines.dali.inputs import DaliBatch, DamageScan, Payloads, PipelineSpec
from stoker.pipeline.options import DaliOptions

pytest.importorskip("nvidia.dali")


class TestABatchThatFailsAsAWhole:
    @pytest.fixture(params=["thumbnails", "squares"])
    def opened(self, request: pytest.FixtureRequest) -> Dataset:
        """A dataset of JPEGs, and one of PNGs, which DALI gets as pixels."""
        return open_dataset(request.getfixturevalue(request.param))

    @pytest.fixture
    def fails(self, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
        """Whether each of the next runs of a pipeline fails."""
        left: list[bool] = []
        finish = BuiltPipeline.finish

        def sometimes(pipe: Any) -> Any:
            found = finish(pipe)
            if left and left.pop(0):
                raise RuntimeError("Error in CPU operator\nAssert on something failed: no reason\n")
            return found

        monkeypatch.setattr(BuiltPipeline, "finish", sometimes)
        return left

    def test_the_sample_that_cannot_be_decoded_is_found(
        self, opened: Dataset, make: Callable[..., DaliEngine], fails: list[bool]
    ) -> None:
        engine = make()
        engine.submit(work(opened, 0, PLAIN))
        engine.submit(work(opened, 4, PLAIN))
        fails += [True, True, True]  # the batch, its first half, and the first sample alone
        first, second = engine.collect(), engine.collect()
        assert first.status.tolist() == [Status.NOT_DECODABLE, 0, 0, 0]
        assert first.reason == {0: "Assert on something failed: no reason"}
        (expected,) = images(make(), work(opened, 0, PLAIN))
        assert not first.images[0].any()
        assert np.array_equal(first.images[1:], expected[1:])
        assert not second.status.any()

    def test_one_that_fails_without_a_culprit_is_an_error_of_the_engine(
        self, opened: Dataset, make: Callable[..., DaliEngine], fails: list[bool]
    ) -> None:
        engine = make()
        engine.submit(work(opened, 0, PLAIN))
        engine.submit(work(opened, 4, FLIPPED))
        fails += [True, False, False, True]  # the batch, neither of its halves, and the batch again
        with pytest.raises(EngineError, match="DALI failed: Assert on something"):
            engine.collect()
        assert not engine.collect().status.any(), "the batch behind it is not lost"

    def test_batches_that_cannot_start_again_fail_when_they_are_collected(
        self,
        opened: Dataset,
        make: Callable[..., DaliEngine],
        fails: list[bool],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        engine = make(depth=3)
        for first in (0, 4, 8):
            engine.submit(work(opened, first, PLAIN))

        def refuse(_: Any, __: Any) -> None:
            raise MemoryError("no memory is left")

        start = BuiltPipeline.start
        monkeypatch.setattr(BuiltPipeline, "start", refuse)
        fails.append(True)
        for _ in range(3):
            with pytest.raises(EngineError, match="DALI failed: no memory is left"):
                engine.collect()
        monkeypatch.setattr(BuiltPipeline, "start", start)
        assert images(engine, work(opened, 0, PLAIN))[0].any(), "the engine goes on"


@pytest.mark.parametrize("region", [True, False])
def test_damaged_jpegs_are_found_and_their_neighbours_are_whole(
    pack_images: Callable[..., Path],
    photographs: list[Path],
    region: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With what DALI itself says about JPEGs that the native decoder would take."""
    monkeypatch.setattr(DamageScan, "reject_damaged", lambda *_: None)
    payloads = [file.read_bytes() for file in photographs[:8]]
    opened = [open_dataset(pack_images(damaged(payloads, at))) for at in ((), (3, 6))]
    found = []
    for dataset in opened:
        options = {"batch_size": 8, "dali": DaliOptions(region_decode=region)}
        engine = DaliEngine(settings_of(dataset, ImageFormat("uint8", "NHWC"), **options))
        engine.submit(work(dataset, 0, PLAIN, 8))
        found.append(engine.collect())
        engine.close()
    whole, broken = found
    assert np.flatnonzero(broken.status).tolist() == [3, 6]
    assert broken.reason[6].startswith("Failed to decode sample")
    kept = [0, 1, 2, 4, 5, 7]
    assert np.array_equal(broken.images[kept], whole.images[kept])


def damaged(payloads: list[bytes], at: tuple[int, ...]) -> list[bytes]:
    """The photographs, those ``at`` these positions with a Huffman table that no decoder takes."""
    broken = list(payloads)
    for i in at:
        counts = payloads[i].find(b"\xff\xc4") + 5  # behind the marker, the length and the table's number
        broken[i] = payloads[i][:counts] + b"\xff" * 16 + payloads[i][counts + 16 :]
    return broken


def test_a_batch_that_could_not_start_is_not_in_flight(
    opened: Dataset, make: Callable[..., DaliEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make()

    def refuse(_: Any, __: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(BuiltPipeline, "start", refuse)
    with pytest.raises(ZeroDivisionError):
        engine.submit(work(opened, 0, PLAIN))
    monkeypatch.undo()
    expected = images(make(), work(opened, 4, PLAIN))
    assert np.array_equal(images(engine, work(opened, 4, PLAIN)), expected)


def test_inputs_of_a_batch_that_could_not_start_are_not_those_of_the_next(
    squares: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DALI would take payloads that were handed over alone for those of the next batch."""
    opened = open_dataset(squares)
    engine = DaliEngine(settings_of(opened, ImageFormat("uint8", "NHWC"), batch_size=4, max_pixels=10**6))
    inputs = DaliBatch.inputs

    def fails(batch: DaliBatch) -> Any:
        raise MemoryError

    try:
        works = [work(opened, first, PLAIN) for first in (0, 4, 8)]
        expected = images(engine, works[2])
        monkeypatch.setattr(DaliBatch, "inputs", fails)
        with pytest.raises(MemoryError):
            engine.submit(works[1])
        monkeypatch.setattr(DaliBatch, "inputs", inputs)
        assert np.array_equal(images(engine, works[2]), expected)
    finally:
        engine.close()


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


@pytest.mark.parametrize(
    ("bad", "say", "most_runs"),
    [
        ({5}, NAMED.format, 3),  # the sample that the message names is tried alone, and no other
        ({0, 100, 255}, NAMED.format, 7),  # every message names one of several
        ({5, 200}, lambda _: UNNAMED, 2 + 2 * 2 * 8),  # they are found by halves
        ({5}, lambda _: NAMED.format(7), 2 * 8 + 4),  # a good sample that is named is not rejected
    ],
    ids=["named", "several named", "unnamed", "another named"],
)
def test_the_samples_to_blame_are_rejected_and_no_others(
    bad: set[int], say: Callable[[int], str], most_runs: int
) -> None:
    batch, runs = batch_of(256), Runs(bad, say)
    with pytest.raises(RuntimeError) as failed:
        runs(batch)
    assert recover(batch, failed.value, runs, "cuda:0") == "images"
    assert np.flatnonzero(batch.payloads.status() == Status.NOT_DECODABLE).tolist() == sorted(bad)
    assert len(batch.payloads.bad) == len(bad)
    assert len(runs.sizes) <= most_runs


def test_a_failure_that_does_not_come_back_costs_nothing() -> None:
    assert recover(batch_of(4), RuntimeError(UNNAMED), Runs(set()), "cuda:0") == "images"


@pytest.mark.parametrize("fault", [FAULT, "CUDA driver API error CUDA_ERROR_LAUNCH_FAILED (719)"])
def test_a_fault_of_cuda_is_not_tried_again(fault: str) -> None:
    runs = Runs({0}, lambda _: fault)
    with pytest.raises(EngineError, match="CUDA failed on cuda:0 and can no longer be used in this process"):
        recover(batch_of(4), RuntimeError(fault), runs, "cuda:0")
    assert runs.sizes == []
    runs = Runs({2}, lambda _: fault)  # it comes while the samples are tried
    with pytest.raises(EngineError, match="Start the process again"):
        recover(batch_of(4), RuntimeError(NAMED.format(2)), runs, "cuda:0")


MISSING_MEMORY = [
    MemoryError("std::bad_alloc"),
    RuntimeError("CUDA allocation failed"),
    RuntimeError("CUDA runtime API error cudaErrorMemoryAllocation (2):\nout of memory"),
    RuntimeError("Error in MIXED operator\nFailed to decode sample #0 :\nnvImageCodec failure: '#5'"),
]


@pytest.mark.parametrize("error", MISSING_MEMORY)
@pytest.mark.parametrize("message", [None, UNNAMED, NAMED.format(3)])
def test_missing_memory_ends_the_search_and_rejects_no_sample(error: Any, message: str | None) -> None:
    """Memory is missing at once, or while the samples of another message are tried."""
    batch, sizes = batch_of(256), []

    def run(batch: DaliBatch) -> str:
        sizes.append(len(batch.payloads))
        raise type(error)(*error.args)  # the one of the table would keep the batch by its traceback

    first = error if message is None else RuntimeError(message)
    with pytest.raises(EngineError, match="cuda:0 has too little memory for DALI"):
        recover(batch, first, run, "cuda:0")
    assert len(sizes) == (message is not None)
    assert not batch.payloads.bad


def test_an_error_of_the_engine_is_handed_on_as_it_is() -> None:
    def run(batch: DaliBatch) -> str:
        raise EngineError("the pipeline cannot be built") from MemoryError()

    with pytest.raises(EngineError, match=r"^the pipeline cannot be built$") as failed:
        recover(batch_of(4), RuntimeError(UNNAMED), run, "cuda:0")
    assert isinstance(failed.value.__cause__, MemoryError)


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
