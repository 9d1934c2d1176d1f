"""The measurement of an engine with the batches that a loader would make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from time import perf_counter

from ...execution.batch import FinishedBatch
from ..producer import ImageBatchProducer


def images_per_second(
    epoch: Callable[[int], ImageBatchProducer], seconds: float, clock: Callable[[], float] = perf_counter
) -> float:
    """Images per second of an engine over at least ``seconds``, after one batch that is not timed."""
    images, began, elapsed = 0, None, 0.0
    for number in count():
        seen = 0
        for batch in _batches(epoch(number)):
            seen += batch.samples
            if began is None:
                began = clock()
                continue
            images += batch.samples
            elapsed = clock() - began
            if elapsed >= seconds:
                return images / elapsed
        if not seen:
            return 0.0
    raise AssertionError  # the loop ends by a return


def _batches(producer: ImageBatchProducer) -> Iterator[FinishedBatch]:
    """The batches of an epoch, as many in flight as the engine takes."""
    in_flight = 0
    while True:
        while in_flight < producer.max_in_flight and producer.start():
            in_flight += 1
        if not in_flight:
            return
        yield producer.finish()
        in_flight -= 1
