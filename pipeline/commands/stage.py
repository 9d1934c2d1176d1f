"""The command ``stoker stage``, which copies a dataset to a local disk."""

from __future__ import annotations

from typing import Annotated

import typer

from stoker.formats.remote.stage import stage as run

from .console import human_bytes, out, progress


def stage(
    source: Annotated[str, typer.Argument(help="URL of a dataset, or its folder on a network file system.")],
    target: Annotated[str, typer.Argument(help="Folder to write, on a local disk.")],
    limit: Annotated[
        str | None, typer.Option(help="Refuse a dataset that is larger than this, such as 200GB.")
    ] = None,
    connections: Annotated[int, typer.Option(min=1, help="Number of requests in flight.")] = 16,
) -> None:
    """Copy a dataset to a local disk and check every byte of it.

    If the command is stopped, the same command continues with what is missing.

    Examples:
      stoker stage s3://bucket/shards/train /scratch/train --limit 200GB
      stoker stage s3://bucket/shards/train@3 /scratch/train
    """
    with progress("staging", "bytes", resumes=True) as show:
        summary = run(source, target, limit=limit, connections=connections, progress=show)
    if summary.repeated:
        out.print(f"fetched again because of a wrong digest: {summary.repeated}", style="yellow")
    fetched = f"{human_bytes(summary.fetched)} of {human_bytes(summary.bytes)} fetched"
    out.print(f"{fetched}, {summary.seconds:.1f} s, {human_bytes(summary.bytes_per_second)}/s")
    out.print(str(summary.path), style="bold")
