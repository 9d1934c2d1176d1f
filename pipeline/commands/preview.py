"""The command ``stoker preview``, which draws samples and what transforms make of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.text import Text

from stoker.errors import ConfigError
from stoker.formats.open import open as open_dataset
from stoker.types import Color

from ..options import Objects
from ..preview.preview import LoaderOptions
from ..preview.preview import preview as run
from ..preview.text import ShownDocument, preview_text
from .console import count, human_bytes, out, plain
from .loader_arguments import parse_caption, parse_sizes, with_padding
from .options import Dataset, MinSize, MinVisible


def preview(
    dataset: Dataset,
    target: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="File to write: a .png, or a .html page that needs no other file. Without it, text is "
            "printed.",
        ),
    ] = None,
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
            help="Resize mode of a conversion, such as crop=224x224. Repeatable. 224x224 shows squash, crop "
            "and fill."
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Sizes of a loader's batches, written as in a program: padded, ragged, '{0: 160, 10: 192}', "
            "'RandomSizes(320, 608)', 'AspectBuckets(262144)', 'Patches(size=16, most=256, row=1024)'. A row "
            "of the page is a batch of --samples images, and --draws is the number of batches."
        ),
    ] = None,
    caption: Annotated[
        str | None,
        typer.Option(help="Captions in packed rows of patches: 'Tokens(77, form=\"packed\", row=256)'."),
    ] = None,
    pad_to_multiple_of: Annotated[
        int | None, typer.Option(min=1, help="Height and width of padded batches are multiples of this.")
    ] = None,
    aspect_ratio_group_factor: Annotated[
        int | None, typer.Option(min=0, help="Groups of aspect ratios for padded and ragged batches.")
    ] = None,
    color: Annotated[
        str, typer.Option(help="Channels that a loader returns: rgb, gray, rgba or as_stored.")
    ] = "rgb",
    samples: Annotated[int, typer.Option(min=1, help="Number of samples, spread over the dataset.")] = 6,
    draws: Annotated[int, typer.Option(min=1, help="Number of epochs to draw for each sample.")] = 4,
    seed: Annotated[int, typer.Option(help="Seed of the transforms, as a loader's seed or draw_seed.")] = 0,
    rows: Annotated[
        str | None,
        typer.Option(help="Positions of the samples, instead of --samples, with commas between: 0,7,42."),
    ] = None,
    min_visible: MinVisible = 0.0,
    min_size: MinSize = 0.0,
    pack: Annotated[
        int | None, typer.Option(min=1, help="For text, also show a packed row of this many tokens.")
    ] = None,
    cell: Annotated[int, typer.Option(min=48, max=2000, help="Longer side of an image, in pixels.")] = 240,
) -> None:
    """Draw samples of images and what transforms make of them, or show samples of text.

    Each row shows a sample: first as it is, then as a loader with this seed delivers it in epochs 0, 1, 2 and
    so on, with classes, boxes, masks and keypoints. A filled keypoint is visible, a hollow one is hidden.
    MixUp, CutMix and mosaics mix the samples of the page. A .png can show only ASCII letters; for names with
    other letters, write a .html.

    With --resize the command shows the images as a conversion would store them, the modes side by side. It
    takes any source of stoker convert in place of a dataset.

    Samples of text are decoded, and the tokens that a model is trained on are marked: they are green on a
    terminal, and between ⟦ and ⟧ in a file. --pack shows a packed row with its segments.

    Stoker comes with recipes such as imagenet-train and coco-ssd, and recipes of views such as dino-v1. The
    error for an unknown name lists them all.

    Examples:
      stoker preview shards/train --transforms imagenet-train --out preview.png
      stoker preview shards/coco --transforms recipe.json --rows 3,14,15 --out preview.html
      stoker preview shards/coco --transforms yolo-train --min-visible 0.1 --min-size 2 --out preview.png
      stoker preview shards/train --views dino-v1 --out preview.png
      stoker preview shards/coco --sizes padded --pad-to-multiple-of 32 --out preview.png
      stoker preview shards/train --sizes 'AspectBuckets(area=262144)' --color gray --out preview.png
      stoker preview shards/chats --pack 2048 --out preview.html
      stoker preview photos/train --resize 256x256 --resize shorter=256 --out preview.html
    """
    positions = None if rows is None else _positions(rows)
    # With resize modes the dataset may be any source of images.
    if not resize and open_dataset(dataset).manifest.sample_type == "text":
        _preview_text(dataset, target, samples, positions, pack, seed)
        return
    if target is None:
        raise ConfigError("a preview of images is a file", hint="name it: --out preview.png or preview.html")
    if pack is not None:
        raise ConfigError("--pack shows a packed row of text, and the dataset holds images")
    parsed = with_padding(
        None if sizes is None else parse_sizes(sizes), pad_to_multiple_of, aspect_ratio_group_factor
    )
    tokens = None if caption is None else parse_caption(caption)
    channels = cast(Color, color)  # the loader checks it
    objects = Objects(min_visible=min_visible, min_size=min_size)
    shown = LoaderOptions(parsed, channels, tokens, objects)
    page = run(
        dataset,
        target,
        transforms,
        views=views,
        resize=resize or (),
        shown=shown,
        samples=samples,
        draws=draws,
        seed=seed,
        positions=positions,
        side=cell,
    )
    images = sum(len(row) for row in page.rows)
    out.print(f"{target}: {count(images, 'image')}, {human_bytes(target.stat().st_size)}")


def _preview_text(
    dataset: str,
    target: Path | None,
    samples: int,
    positions: Sequence[int] | None,
    pack: int | None,
    seed: int,
) -> None:
    shown = preview_text(dataset, target, samples=samples, positions=positions, pack_length=pack, seed=seed)
    if target is not None:
        out.print(f"{target}: {count(len(shown.samples), 'document')}, {human_bytes(target.stat().st_size)}")
        return
    for line in shown.lines:
        out.print(line)
    for text in shown.samples:
        _print_text(text, marks=shown.marks_trained)
    if shown.row is not None:
        out.print(f"\n{shown.row.description}", style="bold")
        for text in shown.row.segments:
            _print_text(text, marks=shown.marks_trained)


def _print_text(text: ShownDocument, *, marks: bool) -> None:
    label = f", {text.label}" if text.label else ""
    out.print(f"\n{plain(text.key)}, {text.field}{plain(label)}, {text.tokens:,} tokens", style="bold")
    line = Text()
    for part in text.passages:
        marked = marks and part.trained
        begin, end = ("⟦", "⟧") if marked and not out.is_terminal else ("", "")
        line.append(f"{begin}{plain(part.text)}{end}", style="green" if marked else None)
    out.print(line)


def _positions(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"rows must be positions with commas between, such as 0,7,42; found {text!r}"
        ) from None
