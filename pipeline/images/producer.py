"""The producer of batches of images, which the prefetcher runs.

It draws the parameters of a batch, submits them to the engine, starts the annotations, and later collects
both. :mod:`.completion` makes a batch of the results.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import zip_longest

import numpy as np

from stoker.augment.params import ImageParams
from stoker.formats.dataset.index import Samples
from stoker.types import Size

from ..adapters import Adapter
from ..caching.prefetcher import CachedEpoch, CachePrefetcher
from ..engines.base import Engine, Result, Work
from ..execution.batch import FinishedBatch
from ..execution.stats import StatsTotals
from ..order.schedule import Schedule
from .annotations import AnnotationProcessor, BatchAnnotations
from .arrays import ArrayReader
from .columns import TO_SOURCE, Contents, ImageColumn
from .completion import BatchCompletion, CollectedBatch
from .config import ImageLoaderConfig
from .objects import deciding_objects
from .planned_batches import (
    DrawnBatch,
    ParameterDraws,
    PlannedBatch,
    batch_reads,
    block_reads,
    planned_batches,
)


class ImageBatchProducer:
    """The :class:`~stoker.pipeline.execution.prefetch.BatchProducer` of one epoch's batches of images."""

    def __init__(
        self,
        config: ImageLoaderConfig,
        schedule: Schedule,
        epoch: int,
        *,
        engine: Engine,
        annotations: Sequence[AnnotationProcessor | None],
        arrays: ArrayReader | None,
        adapter: Adapter,
        totals: StatsTotals,
        read_ahead: int,
        cache_prefetcher: CachePrefetcher | None = None,
    ) -> None:
        self.max_in_flight = engine.max_in_flight
        self._config = config
        self._draws = ParameterDraws(config, config.draw_epoch(epoch))
        self._engine = engine
        self._annotations = annotations
        self._arrays = arrays
        samples = schedule.n / schedule.world_size
        self._completion = BatchCompletion(config, adapter, totals, self._draws.epoch, samples)
        self._totals = totals
        # What a cache fetches is in the page cache already.
        blocks = block_reads(config, schedule, epoch) if read_ahead and not cache_prefetcher else iter(())
        planned = planned_batches(config, schedule, epoch)
        batches = self._draws.drawn(planned, schedule)
        self._batches = _read_ahead(batches, blocks, read_ahead, engine)
        self._cached_epoch: CachedEpoch | None = None
        # The prefetcher walks through a separate plan, far ahead of the engine.
        self._reads = partial(batch_reads, config, schedule, epoch)
        self._cache_prefetcher = cache_prefetcher
        self._leads_back = [f"{column.prefix}{TO_SOURCE}" in config.columns for column in config.images]
        self._in_flight: deque[tuple[PlannedBatch, Callable[[], Contents]]] = deque()

    def start(self) -> bool:
        """Decide the next batch and submit it."""
        stages = self._totals.worker
        with stages.stage("planning"):
            following = next(self._batches, None)
            if following is None:
                return False
            if self._cache_prefetcher:
                self._cached_epoch, self._cache_prefetcher = self._cache_prefetcher.begin(self._reads), None
            if self._cached_epoch:
                with stages.stage("fetching"):
                    self._cached_epoch.wait()
            self._in_flight.append((following[0], self._submit(*following)))
        return True

    def _submit(self, planned: PlannedBatch, drawn: Sequence[ImageParams]) -> Callable[[], Contents]:
        """Draw the missing parameters of a batch, and start it; return a function that waits for the rest."""
        decided, annotated = [], []
        arrays = self._arrays.start(planned.positions) if self._arrays else None
        columns = zip(self._config.images, self._annotations, strict=True)
        for (column, processor), known in zip_longest(columns, drawn):
            params, wait = self._decide(planned, column, processor, known)
            decided.append(params)
            annotated.append(wait)
        origins = self._config.dataset.origins(planned.positions) if any(self._leads_back) else None
        to_source = [
            None if origins is None or not leads_back else column.to_source(params, origins)
            for column, params, leads_back in zip(self._config.images, decided, self._leads_back, strict=True)
        ]
        # Last, because an error after it would leave a batch in the engine.
        if len(planned):
            self._engine.submit(Work(planned.samples, decided[0], tuple(decided[1:])))
        n, sizes = len(planned), [params.image_size for params in decided]
        return lambda: Contents.of(n, [wait() for wait in annotated], to_source, sizes, arrays and arrays())

    def _decide(
        self,
        planned: PlannedBatch,
        column: ImageColumn,
        processor: AnnotationProcessor | None,
        params: ImageParams | None,
    ) -> tuple[ImageParams, Callable[[], BatchAnnotations]]:
        """Draw the parameters of a column of images if they are None, and start its annotations."""
        if not processor:
            return params or self._draws.draw(planned, column), BatchAnnotations
        shown = column.samples_of_images(len(planned.sources))
        positions = planned.sources[shown]
        annotations = processor.read(positions)
        objects = None
        if annotations and column.annotations.needs_boxes:
            objects = deciding_objects(annotations)
        samples = planned.samples.take(shown)
        params = params or self._draws.draw(planned, column, objects)
        params = processor.pasted(positions, samples, params, annotations)
        return params, processor.start(positions, samples, params, annotations)

    def finish(self) -> FinishedBatch:
        """Wait for the oldest batch, and complete it."""
        return self.complete(self.collect())

    def collect(self) -> CollectedBatch:
        """Wait for the oldest batch that was started; :meth:`complete` makes a batch of what is returned."""
        planned, wait_for_contents = self._in_flight.popleft()
        with self._totals.worker.stage("executing"):
            result = self._engine.collect() if len(planned) else self._empty_result(planned.size)
            contents = wait_for_contents()
        if self._cached_epoch:
            self._cached_epoch.release()
        return CollectedBatch(planned, result, contents)

    def complete(self, collected: CollectedBatch) -> FinishedBatch:
        """Return the batch of what this producer, or one of the same epoch elsewhere, has collected."""
        return self._completion.complete(collected)

    def _empty_result(self, size: Size | None) -> Result:
        """The images of a last batch for which this rank has no samples left."""
        image_format = self._config.image_format
        images, *others = (
            np.empty(image_format.shape(0, column.at(size).size), image_format.numpy_dtype)
            for column in self._config.images
        )
        return Result(images, np.empty(0, np.uint8), others=tuple(others))


def _read_ahead(
    batches: Iterator[DrawnBatch],
    blocks: Iterator[Samples | None],
    distance: int,
    engine: Engine,
) -> Iterator[DrawnBatch]:
    """Yield the same batches; before each, request the bytes of up to ``distance`` batches after it.

    The distance grows by two with each batch, so that the first batch comes soon. A method would keep the
    producer alive until the garbage collector runs.
    """
    waiting: deque[DrawnBatch] = deque()
    reach = 0
    for planned, drawn in batches:
        if distance and len(planned):
            _ask_for(engine, next(blocks, None))
            _ask_for(engine, planned.samples, drawn)
        waiting.append((planned, drawn))
        if len(waiting) > reach:
            reach = min(distance, reach + 2)
            yield waiting.popleft()
    yield from waiting


def _ask_for(engine: Engine, samples: Samples | None, drawn: Sequence[ImageParams] = ()) -> None:
    # The engine reports a payload outside of its file when it reads the payload.
    with contextlib.suppress(ValueError):
        if samples:
            engine.read_ahead(samples, drawn)
