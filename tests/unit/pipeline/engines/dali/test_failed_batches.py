"""Batches on which DALI fails: as a whole, by damaged images, or at their start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data.dali_batches import FLIPPED, PLAIN, images, work

pytest.importorskip("nvidia.dali")


from helpers.loaders.engine_settings import settings_of

from stoker.errors import EngineError
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.open import open as open_dataset
from stoker.pipeline.engines.base import ImageFormat, Status
from stoker.pipeline.engines.dali.built_pipeline import BuiltPipeline
from stoker.pipeline.engines.dali.engine import DaliEngine
from stoker.pipeline.engines.dali.inputs import DaliBatch
from stoker.pipeline.engines.dali.options import DaliOptions


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
        with pytest.raises(EngineError, match="no batch is in flight"):
            engine.collect()
        monkeypatch.setattr(BuiltPipeline, "start", start)
        assert images(engine, work(opened, 0, PLAIN))[0].any(), "the engine goes on"


@pytest.mark.parametrize("region", [True, False])
def test_damaged_jpegs_are_found_and_their_neighbours_are_whole(
    pack_images: Callable[..., Path], photographs: list[Path], region: bool
) -> None:
    """With what DALI itself says about them."""
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
