"""Pictures of a loader's batches, for ``stoker preview`` with sizes or colours of images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from stoker.augment import Normalize
from stoker.errors import ConfigError
from stoker.formats.dataset.dataset import Dataset
from stoker.types import Color

from ..images.annotations import task_columns
from ..images.captions import Tokens
from ..images.loader import ImageLoader
from ..images.patches import Patches
from ..images.sizes import RandomSizes, Sizes
from .batch_pictures import images_of_patches, picture_of, texts_of_captions
from .pictures import Picture

if TYPE_CHECKING:
    from ..images.batch_transforms import Transforms

Rows = list[tuple[Picture, ...]]

_OF_PATCHES = ("patches", "segment_ids", "patch_positions", "row")
_OF_CAPTIONS = ("caption", "caption_segment_ids")
_MARKS = ("boxes", "box_labels", "crowd", "keypoints", "masks", "segmentation")


@dataclass(frozen=True)
class LoaderOptions:
    """The arguments of a loader that a preview of batches shows; see :class:`stoker.ImageLoader`."""

    sizes: Sizes | None = None
    pad_to_multiple_of: int | None = None
    aspect_ratio_group_factor: int | None = None
    color: Color = "rgb"
    caption: Tokens | None = None

    def __post_init__(self) -> None:
        if self.caption is not None and not isinstance(self.sizes, Patches):
            raise ConfigError(
                "--caption shows the captions of packed patches", hint="Give --sizes 'Patches(16)' as well."
            )

    def loader(self, dataset: Dataset, transforms: Transforms, **options: Any) -> ImageLoader:
        """A loader of the dataset with the columns that a sheet marks."""
        columns = _columns(dataset, transforms)
        if isinstance(self.sizes, Patches):
            columns = (*_OF_PATCHES, *(_OF_CAPTIONS if self.caption else ()))
        if self.color != "rgb" and not isinstance(transforms, Mapping):
            # Pictures show levels, and the numbers of channels may differ.
            transforms = [one for one in transforms if not isinstance(one, Normalize)]
        given = {**vars(self), **options}
        return ImageLoader(dataset, transforms=transforms, columns=columns, prefetch=1, **given)


def _columns(dataset: Dataset, transforms: Transforms) -> tuple[str, ...]:
    """The columns of images, of labels and of the annotations that follow the images."""
    known = set(task_columns(dataset))
    if "segmentation" not in dataset.tasks:
        known.discard("segmentation")  # it is drawn from the masks of objects, and would hide them
    marks = [name for name in _MARKS if name in known]
    shared = ("row", *(["label"] if {"label", "labels"} & dataset.tasks else []))
    if not isinstance(transforms, Mapping):
        return ("image", *shared, *marks)
    return (*transforms, *shared, *(f"{name}_{mark}" for name in transforms for mark in marks))


def batch_rows(
    dataset: Dataset, transforms: Transforms, shown: LoaderOptions, *, samples: int, draws: int, seed: int
) -> Rows:
    """Return a row for each of some shuffled batches: their images, padding included."""
    count = 1 if isinstance(shown.sizes, Patches) else min(samples, len(dataset))
    rows: Rows = []
    with shown.loader(dataset, transforms, batch_size=count, shuffle=True, seed=seed) as loader:
        for epoch, step in _steps(loader, shown.sizes, draws):
            batch = loader.batch(epoch, step)
            rows.append(tuple(_pictures(loader, batch, f"epoch {epoch}, step {step}")))
    return rows


def _steps(loader: ImageLoader, sizes: Sizes | None, draws: int) -> list[tuple[int, int]]:
    """Epochs and steps of the batches that show how sizes differ."""
    if isinstance(sizes, Mapping):
        return [(epoch, 0) for epoch in sorted(sizes)[:draws]]
    if isinstance(sizes, RandomSizes):
        return [(epoch, 0) for epoch in range(draws)]  # each epoch begins with a new size
    return [(0, step) for step in range(min(draws, len(loader)))]


def epoch_rows(
    dataset: Dataset,
    transforms: Transforms | None,
    positions: npt.NDArray[Any],
    color: Color,
    *,
    draws: int,
    seed: int,
) -> Rows:
    """Return a row for each sample in the colours of a loader: as it is, and in ``draws`` epochs.

    ``transforms`` and ``color`` are the loader's arguments; None shows the samples only as they are.
    """
    chosen = dataset.select(positions)
    columns = []
    with LoaderOptions("ragged", color=color).loader(chosen, (), batch_size=len(positions)) as loader:
        columns.append([*_pictures(loader, loader.batch(0, 0))])
    if transforms is not None:
        options = {"batch_size": len(positions), "seed": seed}
        with LoaderOptions(color=color).loader(chosen, transforms, **options) as loader:
            columns += [[*_pictures(loader, loader.batch(epoch, 0))] for epoch in range(draws)]
    return list(zip(*columns, strict=True))


def _pictures(loader: ImageLoader, batch: Any, note: str = "") -> Iterator[Picture]:
    """Yield the pictures of a batch; the caption of the first one ends with ``note``."""
    config = loader._config
    if isinstance(patches := config.size_plan.planner_options, Patches):
        keys, texts = config.dataset.keys(batch.row[batch.row >= 0]), texts_of_captions(config, batch)
        for i, image in enumerate(images_of_patches(batch, patches.size)):
            grid = f"{image.shape[1] // patches.size} x {image.shape[0] // patches.size} patches"
            picture = _with_note(picture_of(config, batch, i, image, key=keys[i], note=grid), texts[i])
            yield _with_note(picture, note if not i else "")
        return
    column, keys = config.images[0], config.dataset.keys(batch.row)
    for i, image in enumerate(getattr(batch, column.name)):
        height, width = image.shape[1:] if config.image_format.layout == "NCHW" else image.shape[:2]
        size = f"{width} x {height}"
        if hasattr(batch, "image_size"):
            unpadded = batch.image_size[i].tolist()
            size = f"{unpadded[1]} x {unpadded[0]} in {size}"
        picture = picture_of(config, batch, i, image, column=column, key=keys[i], note=size, padding=True)
        yield _with_note(picture, note if not i else "")


def _with_note(picture: Picture, note: str) -> Picture:
    """The picture with ``note`` as the last line of its caption."""
    return replace(picture, caption=(*picture.caption, note)) if note else picture
