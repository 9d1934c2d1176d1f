"""The commands ``stoker append``, ``merge`` and ``remove``, which make other versions of datasets."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any

import typer

from stoker.formats.conversion.options import ConvertArguments
from stoker.formats.dataset.versions import ChangeSummary
from stoker.formats.options import gather_options
from stoker.formats.sources.options import SourceOptions
from stoker.formats.text.options import TextArguments

from .console import count, out, print_skipped, progress
from .options import Columns, parse_columns, takes_options

_OF_BOTH = {"classes", "strict", "num_threads", "allow_loss"}
_OF_TEXT = ("label", "columns", "parallel")
_OPTIONS = {*_OF_BOTH, *_OF_TEXT, *(item.name for item in fields(SourceOptions))}
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
      stoker append shards/text more.jsonl --label topic
      stoker append shards/coco new.json --images new
    """
    from stoker.formats.changes.append import append as run

    if columns := parse_columns(column):
        options["fields"] = {part: name for name, part in columns.items()}
    given = {name: options.pop(name) for name in ("allow_loss", *_OF_TEXT) if name in options}
    with progress("converting", "samples", resumes=True) as show:
        summary = run(
            dataset,
            sources[0] if len(sources) == 1 else sources,
            progress=show,
            **given,
            **gather_options(ConvertArguments, options),
        )
    _print_change(summary)


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

    _print_change(run(datasets, into, copy=copy))


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
    from stoker.formats.changes.remove import remove as run

    _print_change(run(dataset, keys=keys, where=where))


def _print_change(summary: ChangeSummary) -> None:
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
