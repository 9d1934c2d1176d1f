"""The command ``stoker merge``, which makes a dataset of several."""

from __future__ import annotations

from typing import Annotated

import typer

from .append import print_change


def merge(
    datasets: Annotated[
        list[str], typer.Argument(help="Folders of two or more datasets; FOLDER@3 is version 3 of one.")
    ],
    into: Annotated[str, typer.Option(help="Folder of the new dataset.")],
    copy: Annotated[
        bool,
        typer.Option(
            "--copy", help="Copy shards that cannot be linked, instead of referring to their paths."
        ),
    ] = False,
) -> None:
    """Make one dataset of the samples of several datasets, without copying their shards.

    Classes are joined by their names. The new dataset has hard links to the shards, so it stays complete when
    the other datasets are changed or removed. On another file system it refers to the shards by their paths.

    Examples:
      stoker merge shards/2025 shards/2026 --into shards/all
    """
    from stoker.formats.changes.merge import merge as run

    print_change(run(datasets, into, copy=copy))
