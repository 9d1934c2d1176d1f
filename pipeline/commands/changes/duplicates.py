"""The command ``stoker duplicates``, which finds images that are equal or nearly equal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..shared.console import count, out, plain, print_json, table
from ..shared.options import JsonOutput, Threads
from ..shared.progress import progress

if TYPE_CHECKING:
    from ...duplicates.find import Duplicates

_SHOWN = 20  # groups


def duplicates(
    datasets: Annotated[
        list[str], typer.Argument(help="Folders of one or several datasets, such as train and val.")
    ],
    distance: Annotated[
        int,
        typer.Option(
            min=0, max=16, help="Largest number of the 64 bits in which the hashes of near images differ."
        ),
    ] = 4,
    keep: Annotated[
        str | None,
        typer.Option(
            help="Dataset that keeps its images if a group spans datasets; by default the first one."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="File to write with the keys of all images but the first of each group, for exclude --keys."
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Page to write with the images of the first 200 groups.")
    ] = None,
    as_json: JsonOutput = False,
    threads: Threads = None,
) -> None:
    """Find images that are equal or nearly equal, within datasets and across them.

    Near images are the same photograph at another size or quality; the command compares perceptual hashes. It
    does not find crops, rotations and mirrored images. It changes nothing.

    Examples:
      stoker duplicates shards/train
      stoker duplicates shards/train shards/val --keep shards/train --output keys.txt --html sheet.html
    """
    from ...duplicates.find import duplicates as run
    from ...duplicates.sheet import render_sheet

    with progress("hashing", "images") as show:
        result = run(datasets, distance=distance, keep=keep, num_threads=threads, progress=show)
    if output is not None:
        result.write(output)
    if html is not None:
        html.write_text(render_sheet(result), encoding="utf-8")
    if as_json:
        print_json(_as_json(result))
        return
    _print(result)
    for file in (output, html):
        if file is not None:
            out.print(str(file), style="bold")


def _print(result: Duplicates) -> None:
    if result.groups:
        rows = table("image", "dataset", "distance")
        for group in result.groups[:_SHOWN]:
            for image in group:
                first = image is group[0]
                near = "stays" if first else "exact" if image.exact else str(image.distance)
                key = plain(image.key if first else f"  {image.key}")
                rows.add_row(key, plain(result.paths[image.dataset].name), near)
        out.print(rows)
        if len(result.groups) > _SHOWN:
            out.print(f"and {len(result.groups) - _SHOWN:,} groups more; --output and --json have all")
    surplus = result.surplus
    exact = sum(image.exact for image in surplus)
    across = f", {result.across:,} across datasets" if len(result.paths) > 1 else ""
    out.print(
        f"{count(result.images, 'image')}: {count(len(result.groups), 'group')}{across}; "
        f"{len(surplus):,} surplus, {exact:,} of them exact"
    )
    if result.skipped:
        out.print(f"skipped {result.skipped:,}: cannot be decoded", style="yellow")


def _as_json(result: Duplicates) -> dict[str, Any]:
    paths = [str(path) for path in result.paths]
    groups = [
        [
            {
                "dataset": paths[image.dataset],
                "key": image.key,
                "distance": image.distance,
                "exact": image.exact,
            }
            for image in group
        ]
        for group in result.groups
    ]
    return {"images": result.images, "skipped": result.skipped, "datasets": paths, "groups": groups}
