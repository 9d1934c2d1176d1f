"""The command ``stoker preview``."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads it at run time
from typing import Annotated

import typer

from stoker.errors import ConfigError

from .console import count, human_bytes, out

__all__ = ["preview", "register"]


# Typer reads these annotations at run time.
Dataset = Annotated[str, typer.Argument(help="A dataset of images: the folder that convert or index made.")]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("preview")(preview)


def preview(  # noqa: PLR0917 - Typer makes an option of each argument
    dataset: Dataset,
    target: Annotated[
        Path, typer.Option("--out", help="File to write: .png, or .html, one page with all inlined.")
    ],
    transforms: Annotated[
        str | None, typer.Option(help="A recipe: its name, or its file. Without one, the samples alone.")
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="Samples, spread evenly over the dataset.")] = 6,
    draws: Annotated[int, typer.Option(min=1, help="Epochs, from 0, in which each sample is shown.")] = 4,
    seed: Annotated[int, typer.Option(help="Seed of the transforms, as the loader's.")] = 0,
    rows: Annotated[
        str | None, typer.Option(help="Which samples instead: their positions by comma, such as 0,7,42.")
    ] = None,
    cell: Annotated[int, typer.Option(min=48, max=2000, help="Longer side of a picture, pixels.")] = 240,
) -> None:
    """Draw samples and what transforms make of them.

    With classes, boxes, masks and keypoints. Each row is a sample: as it is, then as it leaves a loader with
    this seed in epoch 0, 1, 2 ... MixUp, CutMix and Mosaic mix the samples on the sheet. A filled keypoint is
    visible, a hollow one hidden. Names in other letters than English ones want a page, .html.

    stoker preview shards/train --transforms imagenet-train --out sheet.png

    stoker preview shards/coco --transforms recipe.json --rows 3,14,15 --draws 6 --out sheet.html

    Among the recipes that come with Stoker are imagenet-train and coco-ssd; a name that is none lists all.
    """
    from ..preview.make import preview as run

    sheet = run(
        dataset,
        target,
        transforms,
        samples=samples,
        draws=draws,
        seed=seed,
        positions=None if rows is None else _positions(rows),
        cell=cell,
    )
    shown = sum(len(row) for row in sheet.rows)
    out.print(f"{target}: {count(shown, 'picture')}, {human_bytes(target.stat().st_size)}")


def _positions(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"rows must be positions by comma, such as 0,7,42; found {text!r}") from None
