"""The command ``stoker preview``, which draws samples and what transforms make of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stoker.errors import ConfigError

from .shared.console import count, human_bytes, out
from .shared.options import Dataset

__all__ = ["preview"]


def preview(
    dataset: Dataset,
    target: Annotated[
        Path, typer.Option("--out", help="File to write: a .png, or a .html page that needs no other file.")
    ],
    transforms: Annotated[
        str | None,
        typer.Option(help="Name or file of a recipe. Without it, the samples are drawn as they are."),
    ] = None,
    views: Annotated[
        str | None,
        typer.Option(help="Name or file of a recipe of views, in place of --transforms; shows epoch 0."),
    ] = None,
    resize: Annotated[
        list[str] | None,
        typer.Option(
            help="Resize mode of a conversion, such as crop=224x224; again for more modes. 224x224 shows "
            "squash, crop and fill."
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Sizes of a loader's batches, written as in a program: padded, ragged, '{0: 160, 10: 192}', "
            "'RandomSizes(320, 608)', 'AspectBuckets(262144)', 'Patches(size=16, most=256, row=1024)'. A row "
            "of the sheet is a batch of --samples images, and --draws is the number of batches."
        ),
    ] = None,
    multiple: Annotated[
        int | None, typer.Option(min=1, help="Height and width of padded batches are multiples of this.")
    ] = None,
    aspect_ratio_group_factor: Annotated[
        int | None, typer.Option(min=0, help="Groups of aspect ratios for padded and ragged batches.")
    ] = None,
    color: Annotated[
        str, typer.Option(help="Channels that a loader hands out: rgb, gray, rgba or as_stored.")
    ] = "rgb",
    samples: Annotated[int, typer.Option(min=1, help="Number of samples, spread over the dataset.")] = 6,
    draws: Annotated[int, typer.Option(min=1, help="Number of epochs to draw for each sample.")] = 4,
    seed: Annotated[int, typer.Option(help="Seed of the transforms, as a loader's seed or draw_seed.")] = 0,
    rows: Annotated[
        str | None,
        typer.Option(help="Positions of the samples, instead of --samples, with commas between: 0,7,42."),
    ] = None,
    min_visible: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Share of an object's box, 0 to 1, that must be visible, as a loader's min_visible.",
        ),
    ] = 0.0,
    min_size: Annotated[
        float,
        typer.Option(min=0, help="Least width and height of an object's box, in pixels after transforms."),
    ] = 0.0,
    cell: Annotated[int, typer.Option(min=48, max=2000, help="Longer side of a picture, in pixels.")] = 240,
) -> None:
    """Draw samples of images and what transforms make of them.

    Each row shows a sample: first as it is, then as a loader with this seed delivers it in epochs 0, 1, 2 and
    so on, with classes, boxes, masks and keypoints. A filled keypoint is visible, a hollow one is hidden.
    MixUp, CutMix and mosaics mix the samples of the sheet. A .png can show ASCII letters only; for names with
    other letters, write a .html.

    With --resize the images are shown as a conversion would store them, each mode beside the others. Name any
    source of stoker convert in place of a dataset.

    Stoker comes with recipes such as imagenet-train and coco-ssd, and recipes of views such as dino-v1. The
    error for an unknown name lists them all.

    Examples:
      stoker preview shards/train --transforms imagenet-train --out sheet.png
      stoker preview shards/coco --transforms recipe.json --rows 3,14,15 --out sheet.html
      stoker preview shards/coco --transforms yolo-train --min-visible 0.1 --min-size 2 --out sheet.png
      stoker preview shards/train --views dino-v1 --out sheet.png
      stoker preview shards/coco --sizes padded --multiple 32 --out sheet.png
      stoker preview shards/train --sizes 'AspectBuckets(area=262144)' --color gray --out sheet.png
      stoker preview photos/train --resize 256x256 --resize shorter=256 --out sheet.html
    """
    from ..preview.batches import LoaderOptions, parse_sizes
    from ..preview.make import preview as run

    parsed = None if sizes is None else parse_sizes(sizes)
    shown = LoaderOptions(parsed, multiple, aspect_ratio_group_factor, color)  # type: ignore[arg-type]  # it is checked
    sheet = run(
        dataset,
        target,
        transforms,
        views=views,
        resize=resize or (),
        shown=None if shown == LoaderOptions() else shown,
        samples=samples,
        draws=draws,
        seed=seed,
        positions=None if rows is None else _positions(rows),
        cell=cell,
        min_visible=min_visible,
        min_size=min_size,
    )
    pictures = sum(len(row) for row in sheet.rows)
    out.print(f"{target}: {count(pictures, 'picture')}, {human_bytes(target.stat().st_size)}")


def _positions(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"rows must be positions with commas between, such as 0,7,42; found {text!r}"
        ) from None
