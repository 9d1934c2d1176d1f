"""A loader of images with the engine that makes them.

:class:`stoker.ImageLoader` derives from it, and adds the arguments.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stoker.errors import ConfigError

from ...order.changes.substitutes import original, substituted
from ..checkpoints import CheckpointedImages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...execution.batch import ColumnSpec
    from ...execution.observation.counters import Counters
    from ...order.changes.ledger import Ledger
    from ...order.epoch_order import Order
    from ...order.rank_draws import Schedule
    from ...order.sample_source import SampleSource
    from ..config import ImageLoaderConfig
    from ..producer import ImageBatchProducer
    from .setup import ProducerFactory

__all__ = ["EngineImages"]


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

        Functions of your own at the end of the transforms may change the shape and dtype of images. They are
        called once, with a batch of zeros, to find out.
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

    def _leave_unfinished(self) -> None:
        self._producers = self._producers.unfinished()

    def _use_ledger(self, ledger: Ledger) -> None:
        config = self._config
        order = substituted(original(config.order), ledger, config.seed)
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
