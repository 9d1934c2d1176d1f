"""The command ``stoker append``, which adds samples to a dataset."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any

import typer

from stoker.formats.changes.append import append as run
from stoker.formats.conversion.options import ConvertArguments
from stoker.formats.dataset.versions import ChangeSummary
from stoker.formats.options import gather_options
from stoker.formats.sources.options import SourceOptions
from stoker.formats.text.options import TextArguments

from .console import count, out, print_skipped, progress
from .options import Columns, parse_columns, takes_options

_OPTIONS = {"classes", "strict", "num_threads", "parallel", *(item.name for item in fields(SourceOptions))}
_AS_THE_DATASET = {"mask_map", "ignore_index"}


@takes_options(TextArguments, ConvertArguments, only=_OPTIONS - _AS_THE_DATASET)
def append(
    dataset: Annotated[str, typer.Argument(help="Folder of the dataset.")],
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="Source that stoker convert takes, or text files that stoker convert-text takes.",
        ),
    ],
    column: Columns = None,
    *,
    options: dict[str, Any],
) -> None:
    """Add samples to a dataset: its next version.

    The command converts new samples as the dataset's samples were converted. Shards and earlier versions stay
    as they are. If the command is stopped, the last version stays valid, and the same command continues. A
    class that the dataset lacks is an error, unless --classes names it after the dataset's classes.

    Examples:
      stoker append shards/train photos/new
      stoker append shards/text more.jsonl
      stoker append shards/coco new.json --images new
    """
    if columns := parse_columns(column):
        options["fields"] = {part: name for name, part in columns.items()}
    parallel = options.pop("parallel", False)
    with progress("converting", "samples", resumes=True) as show:
        summary = run(
            dataset,
            sources[0] if len(sources) == 1 else sources,
            parallel=parallel,
            progress=lambda done, total, _bytes, _stage: show(done, total),
            **gather_options(ConvertArguments, options),
        )
    print_change(summary)


def print_change(summary: ChangeSummary) -> None:
    """Print what a change of a dataset did."""
    print_skipped(summary.skipped)
    samples = count(summary.samples, "sample")
    if summary.already:
        out.print(f"nothing to do: version {summary.version} has all of these samples already")
        return
    changed = [f"{summary.added:,} added"] if summary.added else []
    changed += [f"{summary.removed:,} left out"] if summary.removed else []
    out.print(f"version {summary.version}: {samples}, {', '.join(changed)}")
    out.print(str(summary.path), style="bold")
