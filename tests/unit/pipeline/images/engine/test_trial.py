"""The measurement of an engine: the batches that count, and its end."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import pytest

from stoker import ImageLoader
from stoker.augment import Resize
from stoker.pipeline.execution.batch import FinishedBatch
from stoker.pipeline.images.engine.trial import images_per_second


class Epochs:
    """Producers whose batches take a quarter of a second each, by a clock that only they move."""

    def __init__(self, *batches: int) -> None:
        self.batches, self.time, self.count = batches, 0.0, 0
        self.most_in_flight = 0

    def __call__(self, number: int) -> Any:
        assert number == self.count
        self.count += 1
        return Producer(self)

    def clock(self) -> float:
        return self.time


class Producer:
    max_in_flight = 3

    def __init__(self, epochs: Epochs) -> None:
        self._epochs, self._left = epochs, deque(epochs.batches)
        self._in_flight: deque[int] = deque()

    def start(self) -> bool:
        if not self._left:
            return False
        self._in_flight.append(self._left.popleft())
        self._epochs.most_in_flight = max(self._epochs.most_in_flight, len(self._in_flight))
        return True

    def finish(self) -> FinishedBatch:
        self._epochs.time += 0.25
        return FinishedBatch(None, self._in_flight.popleft())


def test_the_first_batch_warms_up_and_epochs_follow_each_other() -> None:
    epochs = Epochs(1000, 8, 8)
    # Timed: 8, 8, then 1000 and 8 of the second epoch, in a second.
    assert images_per_second(epochs, 1.0, epochs.clock) == 1024
    assert (epochs.count, epochs.most_in_flight) == (2, 3)


def test_a_dataset_of_one_batch_is_measured_over_epochs() -> None:
    epochs = Epochs(10)
    assert images_per_second(epochs, 1.0, epochs.clock) == 40
    assert epochs.count == 5


def test_a_rank_without_images_has_no_rate() -> None:
    epochs = Epochs()
    assert images_per_second(epochs, 1.0, epochs.clock) == 0


@pytest.mark.parametrize("columns", [("image", "label"), ("image", "row")])
def test_engines_are_measured_as_a_loader_runs_them(
    thumbnails: Path, engine: str, columns: tuple[str, ...]
) -> None:
    with ImageLoader(thumbnails, batch_size=8, transforms=[Resize((8, 8))], columns=columns) as loader:
        # A loader measures engines only on a machine with a GPU.
        assert loader._producers._setup._rate(engine, "cpu", 0.0) > 0
