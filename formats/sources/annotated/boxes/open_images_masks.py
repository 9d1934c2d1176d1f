"""Masks of the objects of Open Images: one file for each object, of any size, white where the object is.

:mod:`.open_images` calls it for a CSV of segmentations. A mask is stretched to the size of its image, each
pixel taking the nearest value, and becomes run lengths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ....codecs.codec import MAX_PIXELS
from ....dataset.annotations import runs_of_mask
from ....threads import available_cores, thread_map
from ...folders.source_folder import SourceFolder
from ...lists.file_list import find_files
from ...source_reader import SkippedError, check_image, read_source_file
from ..masks.mask_pixels import read_mask
from .box_images import BoxImages

Runs = npt.NDArray[np.uint32]

_AHEAD = 8  # images in memory beyond those that are read


@dataclass(frozen=True)
class NamedObject:
    """An object of a CSV of Open Images."""

    path: str  # Path of its image
    box: tuple[float, float, float, float]  # Left, top, right, bottom, as shares of the image
    label: str  # Name of its class
    line: int  # Its line in the CSV
    crowd: bool = False  # Whether it stands for a group
    extra: Mapping[str, int] = field(default_factory=dict)  # Further numbers, by name
    mask: str = ""  # Name of the file of its mask; empty in a CSV of boxes

    def add_to(self, images: BoxImages, runs: Runs | None = None) -> None:
        """Add the object, with the run lengths of its mask."""
        area = None if runs is None else float(runs[1::2].sum() / runs.sum())
        images.add(
            self.path, self.box, self.label, self.line,
            crowd=self.crowd, extra=self.extra, runs=runs, area=area,
        )  # fmt: skip


class _Read(NamedTuple):
    """The size of an image, and for each of its objects run lengths or the reason for none."""

    size: tuple[int, int]
    outcomes: list[Runs | tuple[str, str]]


def add_with_masks(
    images: BoxImages, objects: Iterable[NamedObject], root: str, masks: SourceFolder, *, follow_links: bool
) -> None:
    """Add objects with their masks; an object without one is a skip. Reads all masks."""
    by_image: dict[str, list[NamedObject]] = {}
    for object_ in objects:
        by_image.setdefault(object_.path, []).append(object_)
        images.image(object_.path)
    paths = list(by_image)
    reader = _Reader(root, masks, by_image, follow_links=follow_links)
    existing = find_files(root, paths, follow_links=follow_links)[0]  # the conversion names missing images
    sizes = zip((paths[entry] for entry in existing.entries), existing.files.sizes.tolist(), strict=True)
    cores = available_cores()
    for (path, _), image in thread_map(reader.read, sizes, "masks", cores, cores + _AHEAD):
        if image is None:
            continue
        images.sizes[images.image(path)] = image.size
        for object_, outcome in zip(by_image[path], image.outcomes, strict=True):
            if isinstance(outcome, tuple):
                reason, detail = outcome
                images.skip(path, reason, f"{images.of(object_.line)}: {detail}")
            else:
                object_.add_to(images, outcome)


class _Reader:
    """Reads the masks of the objects of each image."""

    def __init__(
        self, root: str, masks: SourceFolder, by_image: Mapping[str, list[NamedObject]], *, follow_links: bool
    ) -> None:
        self._root, self._by_image, self._follow_links = root, by_image, follow_links
        self._files = masks.images()[0]
        self._row_of = {name.rpartition("/")[2]: row for row, name in enumerate(self._files.names())}

    def read(self, image: tuple[str, int]) -> _Read | None:
        """Read an image by its path and bytes, and its masks; None if the image is broken."""
        path, size = image
        try:
            data = read_source_file(self._root, path, size, follow_links=self._follow_links)
            header = check_image(data, MAX_PIXELS)
        except SkippedError:  # the conversion reports it
            return None
        shape = (header.height, header.width)
        return _Read(shape, [self._runs(one.mask, shape) for one in self._by_image[path]])

    def _runs(self, name: str, shape: tuple[int, int]) -> Runs | tuple[str, str]:
        row = self._row_of.get(name.rpartition("/")[2], -1)
        if row < 0:
            return "object whose mask is missing", name
        try:
            values = read_mask(self._files, row)
        except SkippedError as error:
            return "object whose mask is left out", ": ".join(filter(None, error.args))
        rows, columns = (_nearest(to, of) for to, of in zip(shape, values.shape, strict=True))
        mask = values[np.ix_(rows, columns)] > 0
        return runs_of_mask(mask) if mask.any() else ("object whose mask is empty", name)


def _nearest(pixels: int, of: int) -> npt.NDArray[np.int64]:
    """The nearest of ``of`` pixels for each of ``pixels`` that cover the same length."""
    return ((2 * np.arange(pixels) + 1) * of) // (2 * pixels)
