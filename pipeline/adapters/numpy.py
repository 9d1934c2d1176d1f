"""NumPy: batches as the native engine makes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from stoker.augment.batch import MixParams
from stoker.errors import ConfigError
from stoker.types import Layout

from .. import adapters
from .mixing import mix_in_place, split


class Adapter(adapters.Adapter):
    """Makes NumPy arrays; bfloat16 has the dtype of ``ml_dtypes`` if it is installed, else uint16 bits."""

    def __init__(self, device: str | None) -> None:
        if device not in (None, "cpu"):
            raise ConfigError(
                f"NumPy's arrays lie on the CPU, found device {device!r}", hint="Use output='torch' or 'jax'."
            )

    def images(self, array: Any, dtype: str) -> Any:
        if dtype != "bfloat16":
            return array
        try:
            from ml_dtypes import bfloat16
        except ImportError:
            return array
        return array.view(bfloat16)

    def column(self, values: Any) -> Any:
        return values if isinstance(values, list) else np.asarray(values)

    def ragged(self, values: Any, counts: Any) -> Any:
        return split(values, counts)

    def mix(self, params: MixParams, images: Any, layout: Layout) -> Any:
        return mix_in_place(params, images, layout)

    def take(self, images: Any, index: Any) -> Any:
        return images[index]


def sees_gpu() -> bool:
    return False
