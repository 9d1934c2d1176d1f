"""The command ``stoker replay``, which shows any batch of a training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..preview.replay import Replayed
from ..preview.replay import replay as run
from .console import count, human_bytes, out, plain, print_json, table
from .options import JsonOutput


def replay(
    state: Annotated[
        Path, typer.Option(help="JSON of loader.describe(), or of a state, which needs --loader.")
    ],
    step: Annotated[
        int | None,
        typer.Option(min=0, help="Step of the training, from 0; with --epoch, step of that epoch."),
    ] = None,
    epoch: Annotated[int | None, typer.Option(min=0, help="Epoch of --step, from 0.")] = None,
    after: Annotated[
        int | None,
        typer.Option(min=0, help="Batches between the state and the one to show, in place of --step."),
    ] = None,
    rank: Annotated[int, typer.Option(min=0, help="Rank that received the batch.")] = 0,
    ranks: Annotated[
        int | None, typer.Option(min=1, help="Number of ranks; by default that of the description.")
    ] = None,
    loader: Annotated[
        str | None,
        typer.Option(help="JSON of loader.describe(), or train.py:function, which returns the loader."),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option("--out", help="Page to write: a .png or a .html page; for text, a .html page."),
    ] = None,
    cell: Annotated[int, typer.Option(min=48, max=2000, help="Longer side of an image, in pixels.")] = 240,
    as_json: JsonOutput = False,
) -> None:
    """Show the samples of any batch of a training, such as the batch of a loss spike.

    The command makes the batch again, on any machine that has the dataset, for any rank of the training. It
    prints the keys of the samples and the random parameters of each. The page shows the pixels as the model
    received them. A .html page has all parameters, and --json prints them.

    Steps count as if the number of ranks and the batch size had never changed. After such changes, use
    --after, which is always exact.

    Examples:
      stoker replay --state state.json --step 1234 --rank 3 --out spike.html
      stoker replay --state state.json --epoch 2 --step 17
      stoker replay --state state.json --after 0 --loader train.py:make_loader
    """
    shown = run(
        state, step, epoch=epoch, after=after, rank=rank, ranks=ranks, loader=loader, out=target, side=cell
    )
    if as_json:
        print_json(shown.to_json())
        return
    _print(shown)
    if target is not None:
        out.print(f"{target}: {human_bytes(target.stat().st_size)}")


def _print(shown: Replayed) -> None:
    out.print(
        f"epoch {shown.epoch}, rank {shown.rank} of {shown.world_size}: {count(len(shown.samples), 'sample')}"
    )
    rows = table("key", "row", "drawn")
    rows.columns[2].justify = "left"
    for sample in shown.samples:
        drawn = "; ".join(sample.fields.values() if hasattr(sample, "fields") else sample.words)
        rows.add_row(plain(sample.key), str(sample.row), plain(drawn))
    out.print(rows)
