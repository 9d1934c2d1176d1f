"""The producer of batches of images, which the prefetcher runs.

It draws the parameters of a batch, submits them to the engine, starts its annotations, and later assembles
the batch of what both have made.
"""

from __future__ import annotations

import contextlib
from collections import deque
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from stoker.errors import ConfigError, SampleError

from ..engines.base import Result, Status, Work
from ..execution.batch import FinishedBatch
from .annotations.annotation_processor import BatchAnnotations
from .annotations.object_geometry import deciding_objects
from .bad_samples import ERRORS
from .batch_assembler import BatchAssembler
from .batch_transforms import function_name
from .columns.contents import Contents
from .columns.source_columns import MATRIX
from .columns.source_matrices import source_matrices
from .planned_batches import batch_reads, planned_batches
from .sizes.patches.patch_assembler import PatchAssembler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from stoker.augment.geometry.boxes import Objects
    from stoker.augment.params.image_params import ImageParams
    from stoker.types import Size

    from ..adapters import Adapter
    from ..caching.cache_prefetcher import CachedEpoch, CachePrefetcher
    from ..engines.base import Engine
    from ..execution.observation.stats import StatsTotals
    from ..order.rank_draws import Schedule
    from .annotations.annotation_processor import AnnotationProcessor
    from .columns.array_reader import ArrayReader
    from .columns.image_column import ImageColumn
    from .config import ImageLoaderConfig
    from .planned_batches import PlannedBatch

    _Drawn = tuple[PlannedBatch, list[ImageParams]]
    """A batch, and the parameters of its columns of images as far as they are drawn."""

__all__ = ["ImageBatchProducer"]


class ImageBatchProducer:
    """The :class:`~stoker.pipeline.execution.prefetch.BatchProducer` of one epoch's batches of images.

    Args:
        config: Config of the loader.
        schedule: This rank's draws at each step.
        epoch: Number of the epoch.
        engine: Makes images; all epochs of the loader share it, and the loader closes it.
        annotations: Makes the columns of annotations for each column of images; shared and closed in the same
            way. None if there are none.
        arrays: Reads columns of arrays; shared and closed in the same way. None if there are none.
        adapter: Makes arrays of the framework.
        totals: Adds up where the time goes.
        read_ahead: Batches whose bytes are asked for before they are submitted; 0 for none.
        cache_prefetcher: Fetches remote bytes ahead; None if all are on this machine.
    """

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
        self._epoch = config.draw_epoch(epoch)
        self._engine = engine
        self._annotations = annotations
        self._arrays = arrays
        self._assembler = (
            PatchAssembler(config, adapter, self._epoch)
            if config.size_plan.patch_planner
            else BatchAssembler(config, adapter, totals, self._epoch)
        )
        self._copy_stream = adapter.copy_stream
        self._totals = totals
        self._batches = self._read_ahead(planned_batches(config, schedule, epoch), read_ahead)
        self._cached_epoch: CachedEpoch | None = None
        if cache_prefetcher:  # walks through a plan of its own, far ahead of the engine
            self._cached_epoch = cache_prefetcher.begin(lambda: batch_reads(config, schedule, epoch))
        names = {f"{column.prefix}{MATRIX}" for column in config.images}
        self._leads_back = not names.isdisjoint(config.columns)
        self._samples = schedule.n / schedule.world_size
        self._bad = 0
        self._last_bad: SampleError | None = None
        self._in_flight: deque[tuple[PlannedBatch, Callable[[], Contents]]] = deque()

    def start(self) -> bool:
        """Decide the next batch and submit it."""
        stages = self._totals.worker
        with stages.stage("planning"):
            following = next(self._batches, None)
            if following is None:
                return False
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
        origins = self._config.dataset.origins(planned.positions) if self._leads_back else None
        to_source = source_matrices(self._config.columns, self._config.images, decided, origins)
        # Last, as an error before would leave a batch in the engine that is never collected.
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
            return params or self._draw(planned, column), BatchAnnotations
        shown = column.samples_of_images(len(planned.sources))
        positions = planned.sources[shown]
        annotations = processor.read(positions)
        objects = None
        if annotations and column.annotations.needs_boxes:
            objects = deciding_objects(annotations)
        samples = planned.samples.take(shown)
        params = params or self._draw(planned, column, objects)
        params = processor.pasted(positions, samples, params, annotations)
        return params, processor.start(positions, samples, params, annotations)

    def _draw(
        self, planned: PlannedBatch, column: ImageColumn, objects: Objects | None = None
    ) -> ImageParams:
        return self._config.draw(
            column,
            planned.sources,
            planned.samples,
            planned.draw_keys,
            epoch=self._epoch,
            objects=objects,
            size=planned.size,
            parts=planned.parts,
        )

    def _drawn_ahead(self, planned: PlannedBatch) -> list[ImageParams]:
        """The parameters of a batch if they tell which parts of its payloads are needed; else none."""
        columns = self._config.images
        if planned.samples.bands is None or any(column.annotations.needs_boxes for column in columns):
            return []
        try:
            return [self._draw(planned, column) for column in columns]
        except ConfigError:  # it is raised when the batch has its turn
            return []

    def _read_ahead(self, batches: Iterator[PlannedBatch], distance: int) -> Iterator[_Drawn]:
        """Yield the same batches, after asking for the bytes of up to ``distance`` batches behind each.

        The distance grows by two with each batch, so that the first one comes soon.
        """
        waiting: deque[_Drawn] = deque()
        reach = 0
        for planned in batches:
            drawn: list[ImageParams] = []
            if distance and len(planned):
                drawn = self._drawn_ahead(planned)
                # A payload outside of its file is reported when it is read.
                with contextlib.suppress(ValueError):
                    self._engine.read_ahead(planned.samples, drawn)
            waiting.append((planned, drawn))
            if len(waiting) > reach:
                reach = min(distance, reach + 2)
                yield waiting.popleft()
        yield from waiting

    def finish(self) -> FinishedBatch:
        """Wait for the oldest batch, and assemble it."""
        planned, wait_for_contents = self._in_flight.popleft()
        with self._totals.worker.stage("executing"):
            result = self._engine.collect() if len(planned) else self._empty_result(planned.size)
            contents = wait_for_contents()
        if self._cached_epoch:
            self._cached_epoch.release()
        self._raise_step_error(planned, result)
        is_bad = planned.of_images(result.status != Status.OK)
        is_bad[list(contents.errors)] = True
        self._totals.seen += len(planned)
        kept = self._choose_samples(planned, result, contents, is_bad) if is_bad.any() else None
        self._check_budget()
        stream = self._copy_stream
        with self._totals.worker.stage("handing over"), stream or contextlib.nullcontext():
            batch = self._assembler.make(planned, result.columns, contents, kept)
            for whole in self._config.batch_transform_plan.whole:
                with self._totals.worker.stage(function_name(whole.function)):
                    batch = whole(batch)
        ready = stream.ready(batch) if stream else None
        if kept is None:
            return FinishedBatch(batch, len(planned), ready=ready)
        counted = "skipped" if self._config.bad_samples.on_error == "skip" else "replaced"
        keys = tuple(self._config.dataset.keys(planned.blamed(result.status != Status.OK)[is_bad]))
        return FinishedBatch(batch, len(kept), bad_keys=keys, ready=ready, **{counted: len(keys)})

    def _empty_result(self, size: Size | None) -> Result:
        """The images of a last batch for which this rank has no samples left."""
        image_format = self._config.image_format
        images, *others = (
            np.empty(image_format.shape(0, column.at(size).size), image_format.numpy_dtype)
            for column in self._config.images
        )
        return Result(images, np.empty(0, np.uint8), others=tuple(others))

    def _choose_samples(
        self,
        planned: PlannedBatch,
        result: Result,
        contents: Contents,
        is_bad: npt.NDArray[np.bool_],
    ) -> npt.NDArray[np.int64]:
        """Positions in the batch of the samples to hand out, (K,) int64, as ``on_error`` says.

        Raises:
            SampleError: A sample is bad, (N,), and errors are raised, or no sample is left to replace it.
        """
        good, bad = np.flatnonzero(~is_bad), np.flatnonzero(is_bad)
        on_error = self._config.bad_samples.on_error
        if on_error == "raise" or (on_error == "replace" and not good.size):
            raise self._sample_error(planned, result, contents, int(bad[0]))
        self._bad += len(bad)
        self._last_bad = self._sample_error(planned, result, contents, int(bad[-1]))
        if on_error == "skip":
            return good
        chosen = np.arange(len(planned))
        # The next good sample of the batch, and the first one after the last, so that nothing more is drawn.
        chosen[bad] = good[np.searchsorted(good, bad) % good.size]
        return chosen

    def _raise_step_error(self, planned: PlannedBatch, result: Result) -> None:
        """Raise the error of the first sample on which a step failed, with the sample's key."""
        if result.step_errors:
            i = min(result.step_errors)
            error = result.step_errors.pop(i)  # popped, or the error would hold itself by its traceback
            error.key = self._config.dataset.keys(planned.positions[[i]])[0]
            raise error

    def _check_budget(self) -> None:
        """Raise the error of the last bad sample if the epoch has too many."""
        policy, error = self._config.bad_samples, self._last_bad
        if error and policy.is_exceeded(self._bad, samples=self._samples, seen=self._totals.seen):
            self._last_bad = None  # the error's traceback refers to this producer
            error.message = f"{self._bad} samples of this epoch are bad, the last one: {error.message}"
            error.hint = f"max_bad={policy.max_bad} allows fewer; stoker verify --decode lists them all."
            raise error

    def _sample_error(self, planned: PlannedBatch, result: Result, contents: Contents, i: int) -> SampleError:
        """The error of the bad sample ``i`` of a batch."""
        sources = planned.sources_of(i)
        bad = sources[result.status[sources] != Status.OK]
        if not bad.size:
            return contents.errors.pop(i)  # popped, or the error would hold itself by its traceback
        error_class, message, hint = ERRORS[Status(int(result.status[bad[0]]))]
        reason = result.reason.get(int(bad[0]), "")
        return self._config.dataset.error(
            int(planned.sources[bad[0]]),
            f"{message}: {reason}" if reason else message,
            error_class,
            hint,
        )
