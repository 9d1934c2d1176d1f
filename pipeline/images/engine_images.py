"""A loader of images with the engine that makes them.

:class:`stoker.ImageLoader` derives from it, and adds the arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.errors import ConfigError

from ..engines.base import ImageFormat
from ..engines.native import PIXELS_DTYPE
from ..execution.batch import ColumnSpec
from ..execution.stats import Counters
from ..order.exclusions import Exclusions, original, with_replacements
from ..order.orders import Order
from ..order.sample_source import SampleSource
from ..order.schedule import Schedule
from .checkpoints import CheckpointedImages
from .config import ImageLoaderConfig
from .engine_setup import ProducerFactory
from .producer import ImageBatchProducer

if TYPE_CHECKING:
    from ..cluster.dispatcher import Allocate

_TOGETHER, _MOST_TOGETHER = 48 << 20, 8  # most bytes of images, and most batches, in a request to a worker


class EngineImages(CheckpointedImages):
    """A loader whose batches come from an engine; a subclass sets the config and the producers."""

    _config: ImageLoaderConfig
    _producers: ProducerFactory

    def __repr__(self) -> str:
        plan = self._config.size_plan
        return (
            f"<ImageLoader of {self._config.dataset!r}: {len(self)} batches of {plan}, "
            f"engine {self._producers.engine.name} on {self._producers.engine.device}, "
            f"rank {self._ranks.rank} of {self._ranks.world_size}>"
        )

    @property
    def dataset(self) -> SampleSource:
        """The dataset or mixture whose samples are drawn."""
        return self._config.dataset

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of a batch, in their order."""
        return self._config.columns

    @property
    def engine(self) -> str:
        """Name of the engine that runs: "native", "dali" or "reference"."""
        return self._producers.engine.name

    @property
    def device(self) -> str:
        """Device on which the engine makes images, "cpu" or "cuda:N"."""
        return self._producers.engine.device

    def element_spec(self) -> tuple[ColumnSpec, ...]:
        """Dtype and shape of each column of a batch, without the batch axis.

        Your functions at the end of the transforms may change the shape and dtype of images. They are called
        once, with a batch of zeros, to find out.
        """
        return tuple(self._producers.spec(name) for name in self._config.columns)

    @property
    def _drawn_order(self) -> Order:
        return self._config.order

    def _options_elsewhere(self) -> dict[str, Any]:
        if self.engine == "dali":
            raise ConfigError(
                "workers make batches with the engine 'native', which differs from 'dali' by rounding",
                hint="Give engine='native', with device='cuda' for batches on the GPU.",
            )
        return {"engine": self.engine}

    @property
    def _finishes_images(self) -> bool:
        """Whether the images are made from uint8 pixels, which have fewer bytes than the images."""
        form, needs = self._config.image_format, self._config.needs
        is_larger = form.color == "rgb" and form.dtype != "uint8"
        return is_larger and self.engine == "native" and needs.isdisjoint({"composition", "mean_image"})

    @property
    def _allocate(self) -> Allocate | None:
        return self._producers.allocate

    def _together(self, schedule: Schedule, *, unfinished: bool) -> Callable[[int], int]:
        config = self._config
        if config.size_plan.padding:  # images may be large
            return lambda _: 1
        form = ImageFormat(PIXELS_DTYPE) if unfinished else config.image_format
        images = sum((one.views or 1) * math.prod(form.shape(1, one.plan.size)) for one in config.images)
        size = images * schedule.batch_size * np.dtype(form.numpy_dtype).itemsize
        count = max(1, min(_TOGETHER // size, _MOST_TOGETHER))
        return lambda _: count

    def _leave_unfinished(self) -> None:
        self._producers = self._producers.begun_anew(unfinished=True)

    def _use_ledger(self, ledger: Exclusions) -> None:
        config = self._config
        order = original(config.order)
        if ledger:
            order = with_replacements(order, ledger, config.seed, self._fitting)
        self._ledger, self._config = ledger, replace(config, order=order)
        self._producers.change(self._config)

    def _make_producer(self, schedule: Schedule, epoch: int) -> ImageBatchProducer:
        return self._producers.make(schedule, epoch)

    def _batches_to_json(self) -> dict[str, Any]:
        return {
            "global_batch": self._global_batch,
            "last_batch": self._last_batch,
            "on_error": self._config.bad_samples.on_error,
            **self._producers.reading_to_json(),
        }

    @contextmanager
    def _make_single_producer(self, schedule: Schedule, epoch: int) -> Iterator[ImageBatchProducer]:
        producers = self._producers.alone()
        try:
            yield producers.make(schedule, epoch)
        finally:
            producers.close()

    def _counters(self) -> Counters:
        return self._producers.counters()

    def _release(self) -> None:
        self._producers.close()
