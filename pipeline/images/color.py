"""The channels and bits of a loader's images, by its argument ``color``."""

from __future__ import annotations

from functools import partial
from typing import get_args

import numpy as np

from stoker.augment.plan import compile_image
from stoker.errors import ConfigError
from stoker.formats.codecs.channels import StoredForm, stored_form
from stoker.types import Color, DType

from ..engines.base import ImageFormat
from ..engines.shard_files import open_shards
from ..order.sample_source import SampleSource
from .columns.image_column import Compiled

__all__ = ["compiler", "form_of"]


def compiler(dtype: DType | None, color: Color, form: StoredForm) -> Compiled:
    """Return :func:`compile_image` for images of this dtype and form."""
    deep = ImageFormat(color=color, channels=form.channels).is_deep
    return partial(compile_image, dtype=dtype, channels=form.channels, deep=deep, bits=form.bits)


def form_of(source: SampleSource, color: Color) -> StoredForm:
    """Return the form of a loader's images; of "as_stored", that of the first sample.

    Raises:
        ConfigError: There is no such colour.
        SampleError: The first sample cannot be read.
    """
    if color not in get_args(Color):
        known = "', '".join(get_args(Color))
        raise ConfigError(f"color must be one of '{known}', found {color!r}")
    if color != "as_stored":
        return StoredForm({"rgb": 3, "gray": 1, "rgba": 4}[color])
    if not len(source):
        return StoredForm(3)
    samples = source.samples(np.zeros(1, np.int64))
    shards = open_shards([str(path) for path in source.data_files], source.data_sizes, mapped=False)
    try:
        data = shards.view(int(samples.shard[0]), int(samples.offset[0]), int(samples.length[0]))
        return stored_form(data, int(samples.codec[0]), int(samples.height[0]), int(samples.width[0]))
    except Exception as error:  # Pillow's parsers raise almost anything on damaged headers
        raise source.error(0, f"its header cannot be read: {error}") from error
    finally:
        shards.close()
