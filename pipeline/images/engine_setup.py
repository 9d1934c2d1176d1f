"""Typical samples of a dataset, from which an engine can prepare itself before the first batch."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.types import Size

from .. import adapters
from ..adapters import Adapter, Framework
from ..caching.prefetcher import make_cache_prefetcher
from ..engines.base import Engine, EngineSettings, Work
from ..engines.dali import DaliOptions
from ..engines.devices import device_name, this_machine
from ..engines.registry import ExecutionPlan, make_engine, plan_execution, slow_needs
from ..execution.batch import ColumnSpec
from ..execution.ranks import Process
from ..execution.stats import Counters, StatsTotals, explain_slow_engine
from ..order.sample_source import SampleSource
from ..order.schedule import Schedule
from .annotations import AnnotationProcessor
from .arrays import ArrayReader
from .batch_assembler import function_output_spec
from .config import ImageLoaderConfig
from .planned_batches import planned_draws
from .producer import ImageBatchProducer

_TYPICAL = 512
_MEASURED = 1 << 16
_SHARE = 99.9
"""Per cent of the images that are at most as high, or as wide, as :func:`largest_size` says."""


def typical_work(config: ImageLoaderConfig) -> Work | None:
    """Samples from all over the dataset, with parameters of epoch 0; None if a transform refuses one."""
    positions = _spread(len(config.dataset), _TYPICAL)
    samples = config.dataset.samples(positions)
    try:
        drawn = (config.draw(one, positions, samples, positions, epoch=0) for one in config.images)
        params, *others = drawn
    except ConfigError:  # of an image that may never be drawn
        return None
    return Work(samples, params, tuple(others))


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


_MOST_RANKS_THAT_KEEP = 2
"""With more, a rank shows a sample of a mosaic too seldom to decode all of it."""


@dataclass(frozen=True)
class ReadOptions:
    """How payloads are read and decoded; the attributes are arguments of :class:`stoker.ImageLoader`."""

    max_pixels: int
    exact: bool
    verify: bool
    mapped: bool


@dataclass(frozen=True)
class EngineSetup:
    """What the engine of an image loader depends on."""

    config: ImageLoaderConfig  # What the loader does with samples
    framework: Framework  # Framework of the arrays
    ranks: Process  # This process among those that train together
    engine: str
    device: Any
    dali: DaliOptions | None
    num_threads: int | None
    prefetch: int
    pin_memory: bool
    reading: ReadOptions  # How payloads are read and decoded
    unfinished: bool = False  # Whether another process finishes the images

    def start(self, totals: StatsTotals, read_ahead: int) -> ProducerFactory:
        """Make the engine and all that its producers share; warn if "auto" has only the slow engine."""
        plan, work = self.plan(), self.config
        totals.engine = plan.engine
        totals.slow_steps = slow_needs(work.needs, work.last_custom_steps)
        if plan.engine != "reference":
            totals.custom_steps = tuple(sorted(work.last_custom_steps))
        if self.engine == "auto" and plan.engine == "reference":
            explanation = explain_slow_engine(totals.slow_steps)
            warnings.warn(f"{explanation}; engine='reference' says that you accept this", stacklevel=3)
        return ProducerFactory(self, plan, totals, read_ahead)

    def plan(self) -> ExecutionPlan:
        """Decide what the loader runs on."""
        device = device_name(self.device)
        color = self.config.image_format.color
        if self.engine == "dali" and self.config.image_format.is_deep:
            raise ConfigError(
                f"engine='dali' makes images of color='rgb' or 'gray', and not of {color!r}",
                hint="Use engine='native'.",
            )
        return plan_execution(
            self.engine,
            device,
            needs=self.config.needs,
            last_custom=self.config.last_custom_steps,
            machine=this_machine(device),
            ranks=self.ranks,
            framework_sees_gpu=lambda: adapters.sees_gpu(self.framework),
            copies_from_pinned=self.framework.pins_memory,
            pin_memory=self.pin_memory,
            num_threads=self.num_threads,
            batch_size=self.config.size_plan.batch_size,
            prefetch=self.prefetch,
        )

    def make_engine(self, plan: ExecutionPlan, adapter: Adapter) -> Engine:
        """Make the engine of a plan; the caller closes it."""
        prepares = plan.engine == "dali" and len(self.config.dataset) > 0
        settings = EngineSettings(
            self.config.dataset.data_files,
            self.config.dataset.data_sizes,
            self.config.image_format,
            device=plan.engine_device,
            num_threads=plan.num_threads,
            depth=plan.depth,
            batch_size=self.config.size_plan.batch_size,
            max_pixels=self.reading.max_pixels,
            verify=self.reading.verify,
            mapped=self.reading.mapped,
            exact=self.reading.exact,
            cached_samples=self._cached_samples(),
            allocate=adapter.allocate,
            dali=self.dali,
            largest=largest_size(self.config.dataset) if prepares else None,
            typical=typical_work(self.config) if prepares else None,
            unfinished=self.unfinished,
        )
        return make_engine(plan.engine, settings)

    def _cached_samples(self) -> int:
        """Number of samples to keep decoded, because a sample is in four mosaics on average.

        A quarter more than the buffer is kept, because the first draws of an epoch have another order.
        """
        buffer = self.config.images[0].plan.buffer
        shared = self.ranks.world_size <= _MOST_RANKS_THAT_KEEP and self.config.shuffled
        return buffer + buffer // 4 if shared else 0


class ProducerFactory:
    """Makes the producers of all epochs, which share the engine, the adapter and the readers."""

    def __init__(self, setup: EngineSetup, plan: ExecutionPlan, totals: StatsTotals, read_ahead: int) -> None:
        self._setup = setup
        self._plan = plan
        self._totals = totals
        self._read_ahead = read_ahead
        config, reading = setup.config, setup.reading
        self._cache_prefetcher = make_cache_prefetcher(config.dataset, planned_draws(config, setup.ranks))
        self._adapter = adapters.load(setup.framework, plan.placement)
        self.engine = setup.make_engine(plan, self._adapter)
        self.allocate = self._adapter.allocate
        dataset, threads = config.dataset, plan.num_threads
        self._annotations = [
            None if one.annotations.is_empty else AnnotationProcessor(dataset, one.annotations, threads)
            for one in config.images
        ]
        self._arrays = None
        if config.arrays.columns:
            self._arrays = ArrayReader(
                dataset, config.arrays, num_threads=threads, mapped=reading.mapped, verify=reading.verify
            )

    def make(self, schedule: Schedule, epoch: int) -> ImageBatchProducer:
        """Make the producer of the batches of these steps."""
        return ImageBatchProducer(
            self._setup.config,
            schedule,
            epoch,
            engine=self.engine,
            annotations=self._annotations,
            arrays=self._arrays,
            adapter=self._adapter,
            totals=self._totals,
            read_ahead=self._read_ahead,
            cache_prefetcher=self._cache_prefetcher,
        )

    @property
    def num_threads(self) -> int:
        """Threads of the engine."""
        return self._plan.num_threads

    def counters(self) -> Counters:
        """Return what the cache of a remote dataset has done."""
        return self._cache_prefetcher.counters() if self._cache_prefetcher else Counters()

    def reading_to_json(self) -> dict[str, Any]:
        """Arguments that decide what is read of a payload, as JSON data; also DALI's options if it runs."""
        reading = self._setup.reading
        dali = {"dali": asdict(self._setup.dali or DaliOptions())} if self._plan.engine == "dali" else {}
        arguments = {"exact": reading.exact, "max_pixels": reading.max_pixels, "verify": reading.verify}
        return arguments | dali

    def change(self, config: ImageLoaderConfig) -> None:
        """Make producers with another config, which differs in the order of the draws alone."""
        self._setup = replace(self._setup, config=config)

    def alone(self) -> ProducerFactory:
        """Return a factory with a separate engine, whose batches do not count. The caller closes it."""
        return ProducerFactory(self._setup, self._plan, StatsTotals(), read_ahead=0)

    def begun_anew(self, **changes: Any) -> ProducerFactory:
        """Close this factory, and return one whose setup has other attributes, such as ``unfinished``."""
        self.close()
        return ProducerFactory(replace(self._setup, **changes), self._plan, self._totals, self._read_ahead)

    def spec(self, name: str) -> ColumnSpec:
        """Dtype and shape of a column, without the batch axis; may call the user's functions with zeros."""
        config = self._setup.config
        if name == "image" and config.batch_transform_plan.functions:
            return self._function_output_spec
        return config.spec(name)

    def close(self) -> None:
        """Free threads and memory; a second call completes an interrupted one."""
        if self._cache_prefetcher:
            self._cache_prefetcher.close()
        self.engine.close()
        for processor in (*self._annotations, self._arrays):
            if processor:
                processor.close()

    @cached_property
    def _function_output_spec(self) -> ColumnSpec:
        config = self._setup.config
        return function_output_spec(config, self._adapter, config.size_plan.batch_size)
