"""The command ``stoker stage``."""

from __future__ import annotations

from typing import Annotated

import typer

from .console import human_bytes, out, progress

__all__ = ["register", "stage"]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("stage")(stage)


def stage(
    source: Annotated[str, typer.Argument(help="URL of a dataset, or its folder on a network file system.")],
    target: Annotated[str, typer.Argument(help="Folder to write, on a local disk.")],
    limit: Annotated[
        str | None, typer.Option(help="Refuse a dataset with more bytes than this, such as 200GB.")
    ] = None,
    connections: Annotated[int, typer.Option(min=1, help="Requests at the same time.")] = 16,
) -> None:
    """Bring a dataset to a local disk and check every byte of it.

    Run again after it was stopped, the command goes on with what is missing.

    stoker stage s3://bucket/shards/train /scratch/train --limit 200GB
    """
    from stoker.formats.caching.stage import stage as run

    with progress("staging", "bytes", resumes=True) as show:
        summary = run(source, target, limit=limit, connections=connections, progress=show)
    if summary.repeated:
        out.print(f"fetched again because of a wrong digest: {summary.repeated}", style="yellow")
    came = f"{human_bytes(summary.fetched)} of {human_bytes(summary.bytes)} fetched"
    out.print(f"{came}, {summary.seconds:.1f} s, {human_bytes(summary.bytes_per_second)}/s")
    out.print(str(summary.path), style="bold")
