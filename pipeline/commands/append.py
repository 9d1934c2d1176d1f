"""The command ``stoker append``, which adds samples to a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .console import count, out, print_skipped, progress
from .options import (
    Classes,
    Columns,
    Images,
    Instances,
    Masks,
    Parallel,
    Strict,
    Suffix,
    Threads,
    Unlabelled,
    parse_columns,
)

if TYPE_CHECKING:
    from stoker.formats.dataset.versions import ChangeSummary


def append(
    dataset: Annotated[str, typer.Argument(help="Folder of the dataset.")],
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="Source that stoker convert takes, or text files that stoker convert-text takes.",
        ),
    ],
    classes: Classes = None,
    source_format: Annotated[
        str | None,
        typer.Option(help="Format of the source, as for stoker convert; by default it is detected."),
    ] = None,
    images: Images = None,
    masks: Masks = None,
    instances: Instances = None,
    class_depth: Annotated[
        int | None, typer.Option(help="Number of directory levels that name a class.")
    ] = None,
    unlabelled: Unlabelled = False,
    path_column: Annotated[str | None, typer.Option(help="Column of a list with the paths.")] = None,
    label_column: Annotated[str | None, typer.Option(help="Column of a list with the labels.")] = None,
    suffix: Suffix = None,
    image: Annotated[
        str | None,
        typer.Option(help="Suffixes of the images in a tar, or the column of the images in Parquet."),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="Member of a tar with the class, or the column of the labels in Parquet."),
    ] = None,
    column: Columns = None,
    parallel: Parallel = False,
    strict: Strict = False,
    threads: Threads = None,
) -> None:
    """Add samples to a dataset: its next version.

    The command converts new samples like those of the dataset. Shards and earlier versions stay as they are.
    If the command is stopped, the last version stays valid, and the same command continues. A class that the
    dataset lacks is an error, unless --classes names it after those of the dataset.

    Examples:
      stoker append shards/train photos/new
      stoker append shards/text more.jsonl
      stoker append shards/coco new.json --images new
    """
    from stoker.formats.changes.append import append as run
    from stoker.formats.sources.classes import parse_class_names

    fields = {"image": image, "label": label, **(parse_columns(column) or {})}
    options: dict[str, Any] = {
        "source_format": source_format,
        "images": images,
        "masks": masks,
        "instances": instances,
        "class_depth": class_depth,
        "unlabelled": unlabelled or None,
        "path_column": path_column,
        "label_column": label_column,
        "suffix": suffix,
        "parallel": parallel or None,
        "strict": strict or None,
        "fields": {part: name for part, name in fields.items() if name is not None} or None,
    }
    with progress("converting", "samples", resumes=True) as show:
        summary = run(
            dataset,
            sources[0] if len(sources) == 1 else sources,
            classes=None if classes is None else parse_class_names(classes),
            num_threads=threads,
            progress=lambda done, total, _bytes, _stage: show(done, total),
            **{name: value for name, value in options.items() if value is not None},
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
