"""The draw of image parameters for a batch, with the sample's name in the error of a transform."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stoker.errors import ConfigError

if TYPE_CHECKING:
    import numpy.typing as npt

    from stoker.augment.geometry.boxes import Objects
    from stoker.augment.params.composition import Parts
    from stoker.augment.params.image_params import ImageParams
    from stoker.formats.dataset.reading.samples import Samples
    from stoker.types import Size

    from ...order.sample_source import SampleSource
    from .image_column import ImageColumn

    Int64 = npt.NDArray[np.int64]

__all__ = ["draw_params"]


def draw_params(
    column: ImageColumn,
    dataset: SampleSource,
    positions: Int64,
    samples: Samples,
    keys: Int64,
    *,
    seed: int,
    epoch: int,
    objects: Objects | None,
    size: Size | None,
    parts: Parts | None,
) -> ImageParams:
    """Draw the parameters of the images of N samples; see :meth:`ImageLoaderConfig.draw`."""
    shown = column.samples_of_images(len(positions))
    height, width = samples.height[shown], samples.width[shown]
    keys, plan = parts.image_keys if parts else column.keys(keys), column.at(size)
    try:
        return plan.draw(height, width, keys, seed, epoch, objects=objects, parts=parts)
    except ConfigError:
        for i in range(len(keys)):  # finds the image that is refused, which is refused alone, too
            own, at = objects and objects.take(np.array([i])), slice(i, i + 1)
            part = parts and parts.take(np.array([i]))
            try:
                plan.draw(height[at], width[at], keys[at], seed, epoch, objects=own, parts=part)
            except ConfigError as error:
                raise _named(error, dataset, int(positions[shown[i]])) from None
        raise


def _named(error: ConfigError, dataset: SampleSource, position: int) -> ConfigError:
    """The error with the name of the sample at ``position``."""
    place = dataset.error(position, error.message)
    return ConfigError(
        error.message,
        path=place.path,
        shard=place.shard,
        record=place.record,
        key=place.key,
        hint=error.hint,
    )
