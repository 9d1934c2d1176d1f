"""What an image loader runs on: the choice of its engine and device, and the engine's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.types import Size

from .. import adapters
from ..adapters import Adapter, Framework
from ..engines.base import Engine, EngineSettings, Work
from ..engines.dali import DaliOptions
from ..engines.devices import device_name, this_machine
from ..engines.registry import ExecutionPlan, make_engine, plan_execution
from ..execution.ranks import Process
from ..options import Reading
from ..order.sample_source import SampleSource
from .config import ImageLoaderConfig

_TYPICAL = 512
_MEASURED = 1 << 16
_SHARE = 99.9  # per cent of the images that are at most as high, or as wide, as the largest size says
_MOST_RANKS_THAT_KEEP = 2  # with more, a rank shows a sample of a mosaic too seldom to decode all of it


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
        prepares = self.plan.engine == "dali" and len(config.dataset) > 0
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
            exact=self.reading.exact,
            cached_samples=self._cached_samples(config),
            allocate=adapter.allocate,
            dali=self.dali,
            largest=largest_size(config.dataset) if prepares else None,
            typical=typical_work(config) if prepares else None,
            unfinished=self.unfinished,
        )
        return make_engine(self.plan.engine, settings)

    def _cached_samples(self, config: ImageLoaderConfig) -> int:
        """Number of samples to keep decoded, because a sample is in four mosaics on average.

        A quarter more than the buffer is kept, because the first draws of an epoch have another order.
        """
        buffer = config.images[0].plan.buffer
        shared = self.process.world_size <= _MOST_RANKS_THAT_KEEP and config.shuffled
        return buffer + buffer // 4 if shared else 0


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
