"""How a batch of images comes to be: every stage in order, and the pipeline that runs them.

:func:`started_batches` starts each batch: draws, sizes, parameters, reading ahead, annotations, engine.
:class:`~.batch_assembler.BatchAssembler` makes the columns of what came out, in the framework's arrays.
"""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from stoker.augment.params import ImageParams
from stoker.errors import ConfigError
from stoker.formats.dataset.index import Samples
from stoker.processes import cached_property
from stoker.types import Size

from .. import adapters
from ..adapters import Adapter, Framework
from ..engines.base import Engine, EngineSettings, ImageFormat, Result, Work, list_files
from ..engines.registry import (
    ExecutionPlan,
    device_name,
    make_engine,
    plan_execution,
    slow_needs,
    this_machine,
)
from ..execution.pipeline import ColumnSpec, Pipeline, Producer, Started
from ..execution.ranks import Process
from ..execution.state import EpochParts
from ..execution.stats import Counters, StageTimes, StatsTotals
from ..options import DaliOptions, Ranks, Reading
from ..order.orders import Order
from ..order.sampling import SampleSource, is_remote
from ..order.schedule import LastBatch, Schedule
from .annotations import AnnotationProcessor, ImageContents
from .arrays import ArrayReader
from .batch_assembler import (
    BatchAssembler,
    CollectedBatch,
    Contents,
    PatchAssembler,
    function_output_spec,
)
from .columns import TO_SOURCE, ImageColumn
from .config import ImageLoaderConfig
from .objects import deciding_objects
from .planned_batches import DrawnBatch, PlannedBatch, batch_of, block_reads, drawn_batches, planned_batches

_MOST_RANKS_THAT_KEEP = 2  # more ranks show each sample of a mosaic once or twice each


if TYPE_CHECKING:
    from ..caching.read_ahead import CachedEpoch
    from ..order.exclusions import Exclusions, Fitting, Point

_TOGETHER, _MOST_TOGETHER = 48 << 20, 8  # most bytes of images, and most batches, in a request to a worker


@dataclass(frozen=True)
class EngineSetup:
    """What the pipeline of an image loader runs on."""

    process: Process
    framework: Framework  # Framework of the arrays
    plan: ExecutionPlan
    dali: DaliOptions | None
    reading: Reading
    unfinished: bool = False  # Whether another process finishes the images

    def make_engine(self, config: ImageLoaderConfig, adapter: Adapter) -> Engine:
        """Make the engine; the caller closes it."""
        typical, largest = None, None
        if self.plan.engine == "dali" and len(config.dataset):  # it prepares itself before the first batch
            typical, largest = typical_work(config), largest_size(config.dataset)
        settings = EngineSettings(
            config.dataset.data_files,
            config.dataset.data_sizes,
            config.image_format,
            device=self.plan.engine_device,
            num_threads=self.plan.num_threads,
            depth=self.plan.depth,
            batch_size=config.size_plan.batch_size,
            max_pixels=self.reading.max_pixels,
            verify=self.reading.verify,
            mapped=self.reading.mapped,
            listing=list_files(config.dataset.datasets),
            exact=self.reading.exact,
            cached_samples=self._cached_samples(config),
            allocate=adapter.allocate,
            dali=self.dali,
            largest=largest,
            typical=typical,
            unfinished=self.unfinished,
        )
        return make_engine(self.plan.engine, settings)

    def _cached_samples(self, config: ImageLoaderConfig) -> int:
        """Number of samples to keep decoded, because a sample is in four mosaics on average."""
        # A quarter more than the buffer is kept: mosaics of the first draws also show samples drawn later.
        buffer = config.images[0].plan.buffer
        shared = buffer and self.process.world_size <= _MOST_RANKS_THAT_KEEP and config.shuffled
        return buffer + buffer // 4 if shared else 0


_TYPICAL = 512
_MEASURED = 1 << 16
_SHARE = 99.9  # per cent of the images that are at most as high, or as wide, as the largest size says


def typical_work(config: ImageLoaderConfig) -> Work | None:
    """Samples from all over the dataset, with parameters of epoch 0; None if a transform refuses one."""
    batch = batch_of(config, _spread(len(config.dataset), _TYPICAL))
    try:
        params, *others = (batch.draw(config, column, epoch=0) for column in config.images)
    except ConfigError:  # of an image that may never be drawn
        return None
    return Work(batch.samples, params, tuple(others))


def largest_size(dataset: SampleSource) -> Size:
    """Height and width, pixels, that 99.9% of the images do not exceed."""
    samples = dataset.samples(_spread(len(dataset), _MEASURED))
    height, width = (
        int(np.percentile(side, _SHARE, method="inverted_cdf")) for side in (samples.height, samples.width)
    )
    return height, width


def _spread(n: int, count: int) -> npt.NDArray[np.int64]:
    """At most ``count`` positions of ``n``, at equal distances."""
    return np.unique(np.linspace(0, n - 1, min(n, count)).astype(np.int64))


class ImagePipeline(Pipeline):
    """The stages of the batches of one image loader, and what they share: engine, readers, adapter."""

    loader = "ImageLoader"
    point_numbers = 1

    def __init__(
        self, config: ImageLoaderConfig, setup: EngineSetup, last_batch: LastBatch, totals: StatsTotals
    ) -> None:
        self.config = config
        self.source = config.dataset
        self.identity = config.identity
        self.columns = config.columns
        self.largest_position = config.order.n
        self.counts_steps = config.size_plan.planner is not None
        self.described = f"loader with {config.size_plan.planned_in}"
        self.setup = setup
        self._last_batch: LastBatch = last_batch
        self._totals = totals
        totals.engine = setup.plan.engine
        totals.slow_steps = slow_needs(config.needs, config.last_custom_steps)
        if setup.plan.engine != "reference":
            totals.custom_steps = tuple(sorted(config.last_custom_steps))
        self._open()

    def _open(self) -> None:
        """Make what the batches of all epochs share."""
        config, setup, dataset = self.config, self.setup, self.source
        threads, reading = setup.plan.num_threads, setup.reading
        self.cached = None
        if is_remote(dataset):
            from .cached_images import CachedImages

            self.cached = CachedImages(config, setup.process)
        self.adapter = adapters.load(setup.framework, setup.plan.placement)
        self.engine = setup.make_engine(config, self.adapter)
        self.annotations = [
            None if one.annotations.is_empty else AnnotationProcessor(dataset, one.annotations, threads)
            for one in config.images
        ]
        self.arrays = None
        if config.arrays.columns:
            self.arrays = ArrayReader(
                dataset, config.arrays, num_threads=threads, mapped=reading.mapped, verify=reading.verify
            )

    @property
    def order(self) -> Order:
        return self.config.order

    @property
    def has_equal_epochs(self) -> bool:
        """Batches of a number of pixels may vary it."""
        return self.config.size_plan.equal_epochs

    def steps(self, epoch: int, position: int, parts: EpochParts) -> Schedule:
        return self.config.size_plan.steps(
            self.order.n,
            self.setup.process,
            self._last_batch,
            epoch=epoch,
            start=position,
            history=parts.history,
        )

    def producer(self, steps: Any, epoch: int) -> Producer:
        config = self.config
        assembler = PatchAssembler if config.size_plan.patch_planner else BatchAssembler
        draw_epoch, samples = config.draw_epoch(epoch), steps.n / steps.world_size
        complete = assembler(config, self.adapter, self._totals, draw_epoch, samples).complete
        starts = started_batches(self, config, steps, epoch, self._totals.worker)
        return Producer(starts, complete, self._totals, self.engine.max_in_flight)

    @contextmanager
    def single_producer(self, steps: Any, epoch: int) -> Iterator[Producer]:
        """It has an engine of its own, and its batch does not count."""
        setup = replace(self.setup, reading=replace(self.setup.reading, read_ahead=0))
        alone = ImagePipeline(self.config, setup, self._last_batch, StatsTotals())
        try:
            yield alone.producer(steps, epoch)
        finally:
            alone.close()

    def spec(self, name: str) -> ColumnSpec:
        """It may call the user's functions with zeros."""
        if name == "image" and self.config.batch_transform_plan.functions:
            return self._function_output_spec
        return self.config.spec(name)

    @cached_property
    def _function_output_spec(self) -> ColumnSpec:
        return function_output_spec(self.config, self.adapter, self.config.size_plan.batch_size)

    @property
    def fitting(self) -> Fitting:
        planner = self.config.size_plan.planner
        return planner.fitting if planner else super().fitting

    def check_exclusion(self) -> None:
        planner = self.config.size_plan.patch_planner
        if planner and planner.captions:
            raise ConfigError(
                "exclude has no replacements for images whose captions are packed beside their patches",
                hint="Leave the samples out of the next training: dataset.select(...), or stoker.remove.",
            )

    def point(self, epoch: int, position: int, parts: EpochParts) -> Point:
        """It counts draws, or steps of a plan; an epoch has at most as many steps as draws."""
        return (epoch * self.order.n + sum(done for _, done in parts.history) + position,)

    def first_draw(self, state: Mapping[str, Any]) -> int:
        try:
            return int(state["epoch"] * state.get("samples_per_epoch", self.order.n) + state["position"])
        except (KeyError, TypeError):  # not a state, which is refused later
            return 0

    def exclude(self, exclusions: Exclusions | None) -> None:
        from ..order.exclusions import Replacements

        replacements = Replacements(exclusions, self.config.seed, self.fitting) if exclusions else None
        self.config = replace(self.config, replacements=replacements)

    def batches_to_json(self) -> dict[str, Any]:
        plan, reading = self.config.size_plan, self.setup.reading
        arguments = {
            "global_batch": (plan.pixels or plan.batch_size) * self.setup.process.world_size,
            "last_batch": self._last_batch,
            "on_error": self.config.bad_samples.on_error,
            **{name: getattr(reading, name) for name in ("exact", "max_pixels", "verify")},
        }
        dali = asdict(self.setup.dali or DaliOptions())
        return arguments | ({"dali": dali} if self.engine.name == "dali" else {})

    def options_elsewhere(self) -> dict[str, Any]:
        if self.engine.name == "dali":
            raise ConfigError(
                "workers make batches with the engine 'native', which differs from 'dali' by rounding",
                hint="Give engine='native', with device='cuda' for batches on the GPU.",
            )
        process = self.setup.process
        return {"engine": self.engine.name, "ranks": Ranks(process.rank, process.world_size)}

    def together(self, steps: Any, *, unfinished: bool) -> Callable[[int], int]:
        config = self.config
        if config.size_plan.padding:  # images may be large
            return lambda _: 1
        form = ImageFormat("uint8") if unfinished else config.image_format
        images = sum((one.views or 1) * math.prod(form.shape(1, one.plan.size)) for one in config.images)
        size = images * steps.batch_size * np.dtype(form.numpy_dtype).itemsize
        count = max(1, min(_TOGETHER // size, _MOST_TOGETHER))
        return lambda _: count

    @property
    def allocate(self) -> Callable[[tuple[int, ...], str], npt.NDArray[Any]] | None:
        return self.adapter.allocate

    @property
    def can_be_finished(self) -> bool:
        form, needs = self.config.image_format, self.config.needs
        is_larger = form.color == "rgb" and form.dtype != "uint8"
        return is_larger and self.engine.name == "native" and needs.isdisjoint({"composition", "mean_image"})

    def leave_unfinished(self) -> None:
        """Leave all images for another process to finish, as the copy of a loader on a worker does."""
        self.close()
        self.setup = replace(self.setup, unfinished=True)
        self._open()

    def counters(self) -> Counters:
        return self.cached.counters() if self.cached else Counters()

    def close(self) -> None:
        if self.cached:
            self.cached.close()
        self.engine.close()
        for reader in (*self.annotations, self.arrays):
            if reader:
                reader.close()


def started_batches(
    pipeline: ImagePipeline, config: ImageLoaderConfig, steps: Schedule, epoch: int, stages: StageTimes
) -> Iterator[Started]:
    """Start the batches of these steps, one after the other; ``BatchAssembler`` completes them."""
    engine, remote, distance = pipeline.engine, pipeline.cached, pipeline.setup.reading.read_ahead
    draw_epoch, cached = config.draw_epoch(epoch), None
    # The samples of each batch: the draws of this rank's steps, in the size that each step has.
    planned = planned_batches(config, steps, epoch)
    # The random parameters of their images.
    drawn = drawn_batches(config, planned, steps, draw_epoch)
    # Their bytes, which the operating system reads ahead, or which come from a storage.
    blocks = block_reads(config, steps, epoch) if distance and not remote else iter(())
    for batch, params in _read_ahead(drawn, blocks, distance, engine):
        if remote:
            cached = cached or remote.begin_epoch(config, steps, epoch)
            with stages.stage("fetching"):
                cached.wait()
        # Annotations are read here, arrays on other threads, which also transform masks.
        wait_for_contents, decided = start_contents(pipeline, config, draw_epoch, batch, params)
        # The engine decodes and transforms. Last, because an error after it would leave a batch in it.
        if len(batch):
            engine.submit(Work(batch.samples, decided[0], tuple(decided[1:])))
        yield Started(1, _collected(config, engine, cached, batch, wait_for_contents))


def _collected(
    config: ImageLoaderConfig,
    engine: Engine,
    cached: CachedEpoch | None,
    batch: PlannedBatch,
    wait_for_contents: Callable[[], Contents],
) -> Iterator[CollectedBatch]:
    """Wait for the engine and the readers of one batch, once it is asked for."""
    result = engine.collect() if len(batch) else _empty_result(config, batch.size)
    contents = wait_for_contents()
    if cached:
        cached.release()
    yield CollectedBatch(batch, result, *contents)


def start_contents(
    pipeline: ImagePipeline,
    config: ImageLoaderConfig,
    draw_epoch: int,
    batch: PlannedBatch,
    known: Sequence[ImageParams],
) -> tuple[Callable[[], Contents], list[ImageParams]]:
    """Start what goes beside the images; return a function that waits for it, and all parameters."""
    # Parameters that depend on objects are not ``known`` before the objects have been read.
    n = len(batch)
    decided, annotated, to_sources = [], [], []
    arrays = pipeline.arrays.start(batch.positions) if pipeline.arrays else None
    columns = zip(config.images, pipeline.annotations, strict=True)
    for (column, processor), of_column in zip_longest(columns, known):
        draw = partial(batch.draw, config, column, draw_epoch)
        params, wait = _decide(draw, batch, column, processor, of_column)
        to_source = None
        if f"{column.prefix}{TO_SOURCE}" in config.columns:
            to_source = column.to_source(params, config.dataset.origins(batch.positions))
        decided.append(params)
        annotated.append(wait)
        to_sources.append(to_source)

    def wait_for_contents() -> Contents:
        contents = [
            replace(wait(), to_source=to_source, image_size=params.image_size)
            for wait, to_source, params in zip(annotated, to_sources, decided, strict=True)
        ]
        errors = {image % n: error for one in contents for image, error in one.errors.items()}
        read, array_errors = arrays() if arrays else (None, {})
        return contents, read, array_errors | errors

    return wait_for_contents, decided


def _decide(
    draw: Callable[..., ImageParams],
    batch: PlannedBatch,
    column: ImageColumn,
    processor: AnnotationProcessor | None,
    params: ImageParams | None,
) -> tuple[ImageParams, Callable[[], ImageContents]]:
    """Draw the parameters of an image column if they are None, and start its annotations."""
    if not processor:
        return params or draw(), ImageContents
    shown = column.samples_of_images(len(batch.sources))
    positions = batch.sources[shown]
    annotations = processor.read(positions)
    objects = None
    if annotations and column.annotations.needs_boxes:
        objects = deciding_objects(annotations)
    samples = batch.samples.take(shown)
    params = params or draw(objects)
    params = processor.pasted(positions, samples, params, annotations)
    return params, processor.start(positions, samples, params, annotations)


def _empty_result(config: ImageLoaderConfig, size: Size | None) -> Result:
    """The images of a last batch for which this rank has no samples left."""
    images, *others = (
        np.empty(config.image_format.shape(0, column.at(size).size), config.image_format.numpy_dtype)
        for column in config.images
    )
    return Result(images, np.empty(0, np.uint8), others=tuple(others))


def _read_ahead(
    batches: Iterator[DrawnBatch], blocks: Iterator[Samples | None], distance: int, engine: Engine
) -> Iterator[DrawnBatch]:
    """Yield the same batches; before each, request the bytes of up to ``distance`` batches after it."""
    # The distance grows by two with each batch, so that the first batch comes soon.
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


def choose_engine(
    config: ImageLoaderConfig,
    process: Process,
    output: str,
    *,
    engine: str | DaliOptions,
    device: Any,
    num_threads: int | None,
    prefetch: int,
    reading: Reading,
) -> EngineSetup:
    """Decide what the pipeline runs on; the last arguments are those of :class:`stoker.ImageLoader`."""
    framework = adapters.framework_of(output)
    name = "dali" if isinstance(engine, DaliOptions) else engine
    if name == "dali" and config.image_format.is_deep:
        raise ConfigError(
            f"engine='dali' makes images of color='rgb' or 'gray', and not of {config.image_format.color!r}",
            hint="Use engine='native'.",
        )
    pin_memory = isinstance(device, str) and device == "pinned"
    wanted = "cpu" if pin_memory else device_name(device)
    plan = plan_execution(
        name,
        wanted,
        needs=config.needs,
        last_custom=config.last_custom_steps,
        machine=this_machine(wanted),
        ranks=process,
        framework_sees_gpu=lambda: adapters.sees_gpu(framework),
        copies_from_pinned=framework.pins_memory,
        pin_memory=pin_memory,
        num_threads=num_threads,
        batch_size=config.size_plan.batch_size,
        prefetch=prefetch,
    )
    dali = engine if isinstance(engine, DaliOptions) else None
    return EngineSetup(process, framework, plan, dali, reading)
