"""One sample of a dataset with its image decoded, which ``dataset[i]`` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import DatasetError, DecodeError, SampleError

from ...codecs.decode import decode_rgb
from ..columns.annotation_columns import is_object_column
from ..columns.array_columns import range_columns, shape_column
from ..index import KNOWN_COLUMNS
from .stored_samples import StoredSamples


@dataclass(frozen=True, eq=False)
class Sample:
    """One sample."""

    image: npt.NDArray[np.uint8]  # (H, W, 3) uint8 RGB, with the EXIF orientation applied
    # The class; a list of several classes; a float if labels are numbers; None without labels
    label: int | float | list[int] | None
    key: str  # The sample's name in its source
    # The other columns of numbers, texts and arrays, by name
    columns: Mapping[str, Any] = field(default_factory=dict)


def read_sample(dataset: StoredSamples, position: int) -> Sample:
    """Return a sample of a dataset of images; the checksum of its image is verified."""
    if dataset.manifest.sample_type != "image":
        raise DatasetError(
            "a sample of text has no image", path=dataset.path, hint="dataset.read(position) has the tokens"
        )
    at = dataset.samples([position])
    data = dataset.read(position)
    try:
        image = decode_rgb(data, int(at.codec[0]), int(at.height[0]), int(at.width[0]))
    except SampleError:
        raise
    # Pillow's decoders raise almost anything on a damaged image.
    except Exception as error:
        raise dataset.error(position, f"the image cannot be decoded: {error}", DecodeError) from error
    return Sample(image, _label(dataset, position), dataset.keys([position])[0], _columns(dataset, position))


def _label(dataset: StoredSamples, position: int) -> int | float | list[int] | None:
    if "labels" in dataset.tasks:
        labels: list[int] = dataset.lists("label", [position]).values.tolist()
        return labels
    if "label" not in dataset.types:
        return None
    label: int | float = dataset.values("label", [position])[0].item()
    return label


def _columns(dataset: StoredSamples, position: int) -> dict[str, Any]:
    """Return the columns that Stoker does not know."""
    columns: dict[str, Any] = {name: dataset.array(name, position) for name in dataset.arrays}
    array_columns = {part for name in dataset.arrays for part in (*range_columns(name), shape_column(name))}
    for name, arrow_type in dataset.types.items():
        known = name in KNOWN_COLUMNS or name == "label" or name in array_columns
        if known or is_object_column(name, arrow_type):
            continue
        if arrow_type == "large_string":
            columns[name] = dataset.strings(name, [position])[0]
        elif arrow_type.startswith("large_list"):
            columns[name] = dataset.lists(name, [position]).values
        else:
            columns[name] = dataset.values(name, [position])[0].item()
    return columns
