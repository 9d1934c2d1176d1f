"""The command ``stoker remove``, which leaves samples out of a dataset."""

from __future__ import annotations

from typing import Annotated

import typer

from stoker.formats.changes.remove import remove as run

from .append import print_change


def remove(
    dataset: Annotated[str, typer.Argument(help="Folder of the dataset.")],
    keys: Annotated[
        str | None,
        typer.Option(help="File with a key on each line."),
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="Condition on the columns of the index, such as 'width < 64'.")
    ] = None,
) -> None:
    """Leave samples out of a dataset: its next version.

    Shards and earlier versions stay as they are, so version 1 still has all samples.

    Examples:
      stoker remove shards/train --where "width < 64 or height < 64"
      stoker remove shards/val --keys keys.txt
    """
    print_change(run(dataset, keys=keys, where=where))
