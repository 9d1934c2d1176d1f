"""Settings of engines over the data files of a dataset."""

from __future__ import annotations

from typing import Any

from stoker.formats.dataset.dataset import Dataset
from stoker.pipeline.engines.base import EngineSettings, ImageFormat


def settings_of(dataset: Dataset, image_format: ImageFormat | None = None, **options: Any) -> EngineSettings:
    """Settings for images of a form, by default float32 NCHW, and of at most a hundred million pixels."""
    form, options = image_format or ImageFormat(), {"max_pixels": 10**8, **options}
    return EngineSettings(dataset.data_files, dataset.data_sizes, form, **options)
