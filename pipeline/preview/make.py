"""The preview of a dataset: a contact sheet of samples before and after transforms."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stoker.augment.plan import compile_image
from stoker.augment.recipe import AnyTransform, load_recipe, load_views
from stoker.errors import ConfigError
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.open import open as open_dataset

from ..images.columns import ImageColumn, plan_columns
from ..images.objects import ObjectConfig
from ..images.patches import Patches
from .batches import LoaderOptions, batch_rows, epoch_rows
from .page import Sheet, checked_target, in_grid, sheet_of, write_sheet
from .pictures import Picture, draw_pictures, draw_views, original_pictures
from .resize_modes import resize_sheet
from .scene import read_scene, shown_positions


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
    cell: int = 240,
    min_visible: float = 0.0,
    min_size: float = 0.0,
) -> Sheet:
    """Write a contact sheet."""
    target = checked_target(out)
    if not target.parent.is_dir():
        raise ConfigError(
            "the folder of out does not exist", path=target.parent, hint="Make the folder first."
        )
    if recipe is not None and views is not None:
        raise ConfigError("a sheet shows transforms or views", hint="Leave one of the recipes out.")
    if resize:
        if recipe is not None or views is not None:
            raise ConfigError("a sheet shows transforms or resize modes", hint="Leave one of them out.")
        sheet = resize_sheet(dataset, resize, samples=samples, positions=positions, cell=cell)
        return write_sheet(sheet, target, ())
    transforms = None if recipe is None else load_recipe(recipe)
    opened = open_dataset(dataset)
    if shown is not None and views is not None:
        raise ConfigError(
            "a sheet shows views, or sizes and colours", hint="Leave --views or the others out."
        )
    chosen = _positions(opened, samples, positions)
    if views is not None:
        columns, _ = plan_columns(load_views(views), partial(compile_image, dtype="float32"))
        sheet = _views_sheet(opened, columns, chosen, seed=seed, cell=cell, recipe=str(views))
        return write_sheet(sheet, target, [{column.name: column.to_json()} for column in columns])
    options = {"draws": draws, "seed": seed, "cell": cell}
    if shown is not None:
        sheet = _loader_sheet(opened, transforms, chosen, shown, **options, recipe=str(recipe))
    else:
        rules = ObjectConfig(min_visible=min_visible, min_size=min_size)
        sheet = make_sheet(opened, transforms, chosen, **options, recipe=str(recipe), rules=rules)
    return write_sheet(sheet, target, [transform.to_dict() for transform in transforms or ()])


def make_sheet(
    dataset: Dataset,
    transforms: Sequence[AnyTransform] | None,
    positions: npt.NDArray[np.int64],
    *,
    draws: int,
    seed: int,
    cell: int,
    recipe: str,
    rules: ObjectConfig | None = None,
) -> Sheet:
    """Compose a contact sheet; see :func:`preview`. ``rules`` say which objects the transforms drop."""
    scene = read_scene(dataset, positions)
    originals = original_pictures(scene)
    facts = [_contents(dataset)]
    headings: tuple[str, ...] = ()
    rows: list[tuple[Picture, ...]]
    if transforms is None:
        rows = in_grid(originals)
    else:
        # Only transforms of images have the attribute; those of batches always draw.
        random = any(getattr(transform, "draws", 1) for transform in transforms)
        epochs = range(draws if random else 1)
        drawn = [draw_pictures(scene, transforms, seed, epoch, rules) for epoch in epochs]
        headings = ("original", *(f"epoch {epoch}" if random else "every epoch" for epoch in epochs))
        rows = list(zip(originals, *drawn, strict=True))
        facts.append(_steps(transforms, recipe, seed, drawn[0][0]))
    return sheet_of(dataset, facts, headings, rows, cell)


def _views_sheet(
    dataset: Dataset,
    columns: Sequence[ImageColumn],
    positions: npt.NDArray[np.int64],
    *,
    seed: int,
    cell: int,
    recipe: str,
) -> Sheet:
    """Compose a contact sheet of all views of samples in epoch 0."""
    scene = read_scene(dataset, positions)
    drawn = draw_views(scene, columns, seed, 0)
    sizes = ", ".join(f"{one.name} {one.plan.size[1]} x {one.plan.size[0]} pixels" for one in columns)
    facts = [_contents(dataset), f"{Path(recipe).stem}: {sizes}, seed {seed}, epoch 0"]
    rows = list(zip(original_pictures(scene), *drawn.values(), strict=True))
    return sheet_of(dataset, facts, ("original", *drawn), rows, cell)


def _loader_sheet(
    dataset: Dataset,
    transforms: Sequence[AnyTransform] | None,
    positions: npt.NDArray[np.int64],
    shown: LoaderOptions,
    *,
    draws: int,
    seed: int,
    cell: int,
    recipe: str,
) -> Sheet:
    """Compose a sheet of the batches of a loader with sizes or colours; see :func:`preview`."""
    facts = [_contents(dataset)]
    headings: tuple[str, ...] = ()
    if shown.sizes is not None:
        count = len(positions)
        rows = batch_rows(dataset, transforms or (), shown, samples=count, draws=draws, seed=seed)
        facts.append(f"sizes={shown.sizes!r}")
        facts.append(f"a row is a {'packed row' if isinstance(shown.sizes, Patches) else 'batch'}")
    else:
        rows = epoch_rows(dataset, transforms, positions, shown.color, draws=draws, seed=seed)
        headings = ("original", *(f"epoch {epoch}" for epoch in range(len(rows[0]) - 1)))
    if transforms:
        facts.append(_steps(transforms, recipe, seed, rows[0][-1]))
    if shown.color != "rgb":
        facts.append(f"color={shown.color!r}")
    return sheet_of(dataset, facts, headings, rows, cell)


def _positions(dataset: Dataset, samples: int, positions: Sequence[int] | None) -> npt.NDArray[np.int64]:
    """Positions in the dataset of the samples to show, (N,) int64."""
    if dataset.manifest.sample_type != "image":
        raise ConfigError(
            f"preview shows images, and this dataset holds {dataset.manifest.sample_type}",
            path=dataset.path,
            hint="stoker preview on the command line shows text; leave out transforms, views and resize.",
        )
    return np.array(shown_positions(len(dataset), samples, positions, path=dataset.path), np.int64)


def _contents(dataset: Dataset) -> str:
    parts = [f"{len(dataset):,} samples"]
    if dataset.num_classes:
        parts.append(f"{dataset.num_classes:,} classes")
    return ", ".join([*parts, *sorted(dataset.tasks - {"label", "labels"})])


def _steps(transforms: Sequence[AnyTransform], recipe: str, seed: int, picture: Picture) -> str:
    height, width = picture.pixels.shape[:2]
    names = ", ".join(type(transform).__name__ for transform in transforms)
    return f"{Path(recipe).stem}: {names}; {width} x {height} pixels, seed {seed}"
