"""The samples of a preview, decoded, with their annotations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError, DecodeError
from stoker.formats.codecs.codec import MAX_PIXELS
from stoker.formats.dataset.annotations import Annotations
from stoker.formats.dataset.columns import expand_ranges
from stoker.formats.dataset.dataset import Dataset

from ..engines.decoding import PayloadError, decode
from ..images.annotations import decode_mask

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Scene:
    """N samples of a dataset, decoded, with their annotations."""

    dataset: Dataset  # Dataset of the samples
    positions: npt.NDArray[np.int64]  # (N,) int64, positions of the samples in the dataset
    pixels: list[npt.NDArray[np.uint8]]  # N images, (H, W, 3) uint8
    annotations: Annotations  # Objects of the samples
    # (N, C) float32, share of each class; None if samples have no labels
    labels: npt.NDArray[np.float32] | None
    segmentation: list[Array] | None  # N masks, (H, W) integers; None if there are none

    @property
    def sizes(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Heights and widths, (N,) each."""
        heights, widths = ([image.shape[axis] for image in self.pixels] for axis in (0, 1))
        return np.array(heights, np.int64), np.array(widths, np.int64)

    def of_parts(self, sources: npt.NDArray[np.int64]) -> Scene:
        """The samples at ``sources``, (P,) indices of these samples, as a scene without labels."""
        ends = np.searchsorted(self.annotations.owner, np.arange(len(self.pixels) + 1))
        start, stop = ends[sources], ends[sources + 1]
        objects = self.annotations.take(expand_ranges(start, stop))
        masks = self.segmentation
        return Scene(
            self.dataset,
            self.positions[sources],
            [self.pixels[source] for source in sources],
            replace(objects, owner=np.repeat(np.arange(len(sources)), stop - start)),
            None,
            None if masks is None else [masks[source] for source in sources],
        )


def class_name(classes: Sequence[str], label: int) -> str:
    """Name of a class, or "class" and its number."""
    return classes[label] if 0 <= label < len(classes) else f"class {label}"


def shown_positions(
    n: int, samples: int, positions: Sequence[int] | None, *, path: Path | None = None, what: str = "sample"
) -> list[int]:
    """Positions of the samples to show: ``positions``, or ``samples`` spread evenly over ``n``."""
    if positions is None:
        # In the middle of equal parts: the first sample of a class is often an unusual one.
        count = min(samples, n)
        return [int((i + 0.5) * n / count) for i in range(count)]
    if outside := [position for position in positions if not 0 <= position < n]:
        raise ConfigError(f"there is no {what} {outside[0]}: positions go from 0 to {n - 1}", path=path)
    return list(positions)


def read_scene(dataset: Dataset, positions: npt.NDArray[np.int64]) -> Scene:
    """Read and decode samples with all their annotations."""
    annotations = dataset.annotations(positions)
    pixels = [_decode(dataset, position) for position in positions.tolist()]
    masks = None
    if "segmentation" in dataset.tasks:
        sizes = [image.shape[:2] for image in pixels]
        masks = [_decode_mask(dataset, *one) for one in zip(positions.tolist(), sizes, strict=True)]
    return Scene(dataset, positions, pixels, annotations, _labels(dataset, positions), masks)


def _decode(dataset: Dataset, position: int) -> npt.NDArray[np.uint8]:
    samples = dataset.samples([position])
    data = dataset.read(position)
    try:
        return decode(data, samples, 0, max_pixels=MAX_PIXELS, reference=True)
    except PayloadError as error:
        raise dataset.error(position, f"the image cannot be decoded: {error}", DecodeError) from error


def _decode_mask(dataset: Dataset, position: int, size: tuple[int, int]) -> Array:
    data = dataset.mask(position)
    try:
        return decode_mask(data, size, "int64")
    except Exception as error:  # Pillow's parsers raise almost anything on damaged data
        raise dataset.error(position, f"the mask cannot be decoded: {error}", DecodeError) from error


def _labels(dataset: Dataset, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.float32] | None:
    if "labels" in dataset.tasks:
        lists = dataset.lists("label", positions)
        rows, labels = np.repeat(np.arange(len(positions)), lists.counts), lists.values
    elif "label" in dataset.tasks:
        rows, labels = np.arange(len(positions)), dataset.labels[positions]
    else:
        return None
    shares = np.zeros((len(positions), max(dataset.num_classes, labels.max(initial=-1) + 1)), np.float32)
    known = labels >= 0  # a negative label means that there is none
    shares[rows[known], labels[known]] = 1
    return shares
