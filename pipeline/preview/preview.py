"""Previews of datasets of images: samples as they are, and as a loader delivers them.

A loader makes every image on the page, so a preview shows exactly what a training receives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stoker.augment import Normalize
from stoker.augment.recipe import load_recipe, load_views, recipe_json
from stoker.errors import ConfigError
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.open import open as open_dataset
from stoker.types import Color

from ..images.annotations import task_columns
from ..images.batch_transforms import Transforms
from ..images.captions import Tokens
from ..images.columns import ImageColumn
from ..images.loader import ImageLoader
from ..images.planners import Patches
from ..images.sizes import RandomSizes, Sizes
from ..options import Objects
from .images import patch_cells, sample_cells
from .page import Cell, Page, checked_target, in_grid, page_of, spread_positions, write_page
from .resize_modes import resize_page

Rows = list[tuple[Cell, ...]]

_OF_PATCHES = ("patches", "segment_ids", "patch_positions", "row")
_OF_CAPTIONS = ("caption", "caption_segment_ids")
_MARKS = ("boxes", "box_labels", "crowd", "keypoints", "masks", "segmentation")


@dataclass(frozen=True)
class LoaderOptions:
    """The arguments of a loader that a preview shows; see :class:`stoker.ImageLoader`."""

    sizes: Sizes | None = None
    color: Color = "rgb"
    caption: Tokens | None = None
    objects: Objects | None = None

    def __post_init__(self) -> None:
        if self.caption is not None and not isinstance(self.sizes, Patches):
            raise ConfigError("caption shows packed captions", hint="Give sizes=Patches(16), too.")

    def loader(self, dataset: Dataset, transforms: Transforms, **options: Any) -> ImageLoader:
        """A loader of the dataset with the columns that a page marks."""
        columns = _columns(dataset, transforms)
        if isinstance(self.sizes, Patches):
            columns = (*_OF_PATCHES, *(_OF_CAPTIONS if self.caption else ()))
        if self.color != "rgb" and not isinstance(transforms, Mapping):
            # The page shows levels, and the numbers of channels may differ.
            transforms = [one for one in transforms if not isinstance(one, Normalize)]
        # Views may end in different dtypes, and a loader has one.
        dtype = "float32" if isinstance(transforms, Mapping) else None
        given = {**vars(self), "dtype": dtype, **options}
        return ImageLoader(dataset, transforms=transforms, columns=columns, prefetch=1, **given)


def preview(
    dataset: str | Path,
    out: str | Path,
    recipe: str | Path | None = None,
    *,
    views: str | Path | None = None,
    resize: Sequence[str] = (),
    shown: LoaderOptions | None = None,
    samples: int = 6,
    draws: int = 4,
    seed: int = 0,
    positions: Sequence[int] | None = None,
    side: int = 240,
) -> Page:
    """Write a page of samples: as they are and after transforms, in views, resize modes or batches."""
    target = checked_target(out)
    if not target.parent.is_dir():
        raise ConfigError("the folder does not exist", path=target.parent, hint="Make the folder first.")
    if sum((recipe is not None, views is not None, bool(resize))) > 1:
        raise ConfigError("a page shows transforms, views or resize modes", hint="Leave the others out.")
    if resize:
        page = resize_page(dataset, resize, samples=samples, positions=positions, side=side)
        return write_page(page, target, ())
    shown = shown or LoaderOptions()
    if views is not None and shown.sizes is not None:
        raise ConfigError("a page shows views, or sizes", hint="Leave one of them out.")
    opened = open_dataset(dataset)
    chosen = _positions(opened, samples, positions)
    transforms, described = _load(recipe, views)
    if shown.sizes is not None:
        rows = batch_rows(opened, transforms or (), shown, samples=len(chosen), draws=draws, seed=seed)
        headings: tuple[str, ...] = ()
    else:
        headings, rows = sample_rows(opened, transforms, chosen, shown, draws=draws, seed=seed)
    lines = [_contents(opened)]
    if transforms:
        lines.append(_words(transforms, Path(str(recipe if views is None else views)).stem, rows[0], seed))
    if shown.sizes is not None:
        of_patches = isinstance(shown.sizes, Patches)
        lines.append(f"sizes={shown.sizes!r}, a row is a {'packed row' if of_patches else 'batch'}")
    if shown.color != "rgb":
        lines.append(f"color={shown.color!r}")
    return write_page(page_of(opened, lines, headings, rows, side), target, described)


def samples_page(dataset: Dataset, positions: Sequence[int], side: int) -> Page:
    """Return a page of samples as they are."""
    _, rows = sample_rows(dataset, None, positions, LoaderOptions(), draws=1, seed=0)
    return page_of(dataset, [_contents(dataset)], (), rows, side)


def sample_rows(
    dataset: Dataset,
    transforms: Transforms | None,
    positions: Sequence[int],
    shown: LoaderOptions,
    *,
    draws: int,
    seed: int,
) -> tuple[tuple[str, ...], Rows]:
    """Return headings, and a row for each sample: as it is, and in some epochs, or in the views of one."""
    chosen, options = dataset.select(positions), {"batch_size": len(positions), "seed": seed}
    keys = chosen.keys(range(len(chosen)))
    with LoaderOptions("ragged", color=shown.color).loader(chosen, (), **options) as loader:
        originals = _batch_cells(loader, 0, keys)
    if transforms is None:
        return (), in_grid([_with_size(one) for (one,) in originals])
    # Only transforms of images have the attribute; those of batches always draw.
    views = isinstance(transforms, Mapping)
    is_random = views or any(getattr(one, "draws", 1) for one in transforms)
    epochs = range(draws if is_random and not views else 1)
    with shown.loader(chosen, transforms, **options) as loader:
        config = loader.pipeline.config
        drawn = [_batch_cells(loader, epoch, keys) for epoch in epochs]
        mixed = bool(config.batch_transform_plan.transforms) or bool(config.images[0].plan.combining)
        names = tuple(f"epoch {epoch}" if is_random else "every epoch" for epoch in epochs)
        if views:
            names = tuple(name for column in config.images for name in _view_names(column))
    rows = []
    for i, (original,) in enumerate(originals):
        cells = [one for of_epoch in drawn for one in of_epoch[i]]
        rows.append((_with_size(original), *(_with_objects(one, original, mixed=mixed) for one in cells)))
    return ("original", *names), rows


def batch_rows(
    dataset: Dataset, transforms: Transforms, shown: LoaderOptions, *, samples: int, draws: int, seed: int
) -> Rows:
    """Return a row for each of some shuffled batches: their images, padding included."""
    count = 1 if isinstance(shown.sizes, Patches) else min(samples, len(dataset))
    rows: Rows = []
    with shown.loader(dataset, transforms, batch_size=count, shuffle=True, seed=seed) as loader:
        for epoch, step in _steps(loader, shown.sizes, draws):
            batch, config = loader.batch(epoch, step), loader.pipeline.config
            keys = config.dataset.keys(batch.row[batch.row >= 0])
            if isinstance(shown.sizes, Patches):
                cells = patch_cells(config, batch, shown.sizes, keys)
            else:
                cells = [sample_cells(config, batch, i, key, whole=True)[0] for i, key in enumerate(keys)]
            first = replace(cells[0], caption=(*cells[0].caption, f"epoch {epoch}, step {step}"))
            rows.append((first, *cells[1:]))
    return rows


def _load(recipe: str | Path | None, views: str | Path | None) -> tuple[Transforms | None, list[object]]:
    """Return the transforms of a recipe, and the lines of JSON that describe each of them."""
    if views is not None:
        loaded = load_views(views)
        return loaded, [{name: one} for name, one in recipe_json(loaded)["views"].items()]
    if recipe is None:
        return None, []
    transforms = load_recipe(recipe)
    return transforms, recipe_json(transforms)["transforms"]


def _batch_cells(loader: ImageLoader, epoch: int, keys: Sequence[str]) -> list[tuple[Cell, ...]]:
    batch = loader.batch(epoch, 0)
    return [sample_cells(loader.pipeline.config, batch, i, key) for i, key in enumerate(keys)]


def _view_names(column: ImageColumn) -> list[str]:
    return [column.name] if column.views is None else [f"{column.name} {k}" for k in range(column.views)]


def _with_size(cell: Cell) -> Cell:
    height, width = cell.pixels.shape[:2]
    return replace(cell, caption=(*cell.caption, f"{width} x {height}"))


def _with_objects(cell: Cell, original: Cell, *, mixed: bool) -> Cell:
    """The cell with its number of objects; of a mixed image with its classes, too."""
    before, left = len(original.marks.labels), len(cell.marks.labels)
    words = [f"{left} objects" if mixed else f"{left} of {before} objects"] if before or left else []
    return replace(cell, caption=(*(cell.caption[:-1] if mixed else ()), *words))


def _columns(dataset: Dataset, transforms: Transforms) -> tuple[str, ...]:
    """The columns of images, labels and the annotations that follow the images."""
    known = set(task_columns(dataset))
    if "segmentation" not in dataset.tasks:
        known.discard("segmentation")  # it is drawn from instance masks, and would hide them
    marks = [name for name in _MARKS if name in known]
    shared = ("row", *(["label"] if {"label", "labels"} & dataset.tasks else []))
    if not isinstance(transforms, Mapping):
        return ("image", *shared, *marks)
    hidden = [f"{name}_mask" for name, one in transforms.items() if getattr(one, "mask", None)]
    return (*transforms, *shared, *hidden, *(f"{name}_{mark}" for name in transforms for mark in marks))


def _steps(loader: ImageLoader, sizes: Sizes | None, draws: int) -> list[tuple[int, int]]:
    """Epochs and steps of the batches that show how sizes differ."""
    if isinstance(sizes, Mapping):
        return [(epoch, 0) for epoch in sorted(sizes)[:draws]]
    if isinstance(sizes, RandomSizes):
        return [(epoch, 0) for epoch in range(draws)]  # each epoch begins with a new size
    return [(0, step) for step in range(min(draws, len(loader)))]


def _positions(dataset: Dataset, samples: int, positions: Sequence[int] | None) -> list[int]:
    if dataset.manifest.sample_type != "image":
        raise ConfigError(
            f"preview shows images, and this dataset holds {dataset.manifest.sample_type}",
            path=dataset.path,
            hint="stoker preview on the command line shows text; leave out transforms, views and resize.",
        )
    return spread_positions(len(dataset), samples, positions, path=dataset.path)


def _contents(dataset: Dataset) -> str:
    parts = [f"{len(dataset):,} samples"]
    if dataset.num_classes:
        parts.append(f"{dataset.num_classes:,} classes")
    return ", ".join([*parts, *sorted(dataset.tasks - {"label", "labels"})])


def _words(transforms: Transforms, name: str, row: tuple[Cell, ...], seed: int) -> str:
    """The line that names a recipe, its transforms and the size of its images."""
    if isinstance(transforms, Mapping):
        return f"{name}: {', '.join(transforms)}; seed {seed}, epoch 0"
    height, width = row[-1].pixels.shape[:2]
    names = ", ".join(type(one).__name__ for one in transforms)
    return f"{name}: {names}; {width} x {height} pixels, seed {seed}"
