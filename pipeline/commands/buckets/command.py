"""The command ``stoker buckets``, which compares ways to batch text by length, and images by shape."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from stoker.errors import ConfigError

from ..shared.console import out, table, write_json
from ..shared.options import Dataset, JsonFile, split_names

if TYPE_CHECKING:
    from stoker.bucketing import PlanReport

_BUCKETS_SHOWN = 32
_LEGEND = """\
sorted: windows of 100 batches, sorted by length. Samples of several fields are ordered by a k-d split,
  which is the default of TextLoader for them; its default for one field is "optimal" with eight buckets.
padding %: share of the padded tokens that is padding. pad/sample: tokens of padding for each sample.
shapes: number of distinct shapes of a batch. bound %: least padding with as many padded lengths.
ranks: share of useful work, 1 if no rank waits for another.
similar: correlation of lengths within a batch. next: correlation of the mean lengths of successive batches.
partners: effective number of samples that may share a batch with a sample."""


def buckets(
    dataset: Dataset,
    batch_size: Annotated[int, typer.Option(min=1, help="Samples in a batch of one rank.")] = 32,
    number: Annotated[
        int, typer.Option("--buckets", min=1, max=1000, help="Number of padded lengths, or of shapes.")
    ] = 8,
    pad_to_multiple_of: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Every padded length, or every side of an image, is a multiple of this; by default 1 for "
            "lengths and 64 for sides.",
        ),
    ] = None,
    pack: Annotated[
        int | None, typer.Option(min=1, help="Compare packed rows of this many tokens, too.")
    ] = None,
    ranks: Annotated[int, typer.Option(min=1, help="Number of ranks.")] = 1,
    fields: Annotated[
        str | None, typer.Option(help="Fields of the samples, with commas between; by default all.")
    ] = None,
    area: Annotated[int, typer.Option(min=1, help="Approximate pixels of an image shape.")] = 512 * 512,
    max_ratio: Annotated[
        float, typer.Option(min=1, help="Largest ratio of the sides of an image shape.")
    ] = 2.0,
    padded: Annotated[
        bool, typer.Option(help="Compare groups of aspect ratios for padded batches of images.")
    ] = False,
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Show how full packed rows of patches are. Written as in a program: 'Patches(16, most=256, "
            "row=1024)'."
        ),
    ] = None,
    caption: Annotated[
        str | None,
        typer.Option(
            help="Captions in these rows. Written as in a program: 'Tokens(77, form=\"packed\", row=256)'."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the batches.")] = 0,
    method: Annotated[
        str | None,
        typer.Option(
            help="Method of the second table and of the picture, as the first table names it; by default "
            '"optimal", and "tokens" for three fields and more.'
        ),
    ] = None,
    json_out: JsonFile = None,
    png: Annotated[
        Path | None, typer.Option(help="Draw the lengths or ratios, and the buckets of --method, as a PNG.")
    ] = None,
) -> None:
    """Compare ways to batch a dataset of text by length, or of images by aspect ratio.

    The first table has a row for each method: padding or cropping, number of shapes, waiting of ranks, and
    loss of randomness. The second table shows the buckets of one method. The command reads only the index.

    Examples:
      stoker buckets shards/gsm8k
      stoker buckets shards/photos --area 1048576 --buckets 12 --png shapes.png
      stoker buckets shards/coco --padded --batch-size 8
      stoker buckets shards/pairs --sizes 'Patches(16)' --caption 'Tokens(77, form="packed", row=128)'
      stoker buckets shards/gsm8k --fields answer --pack 256 --ranks 8 --png answer.png
    """
    from stoker.formats.open import open as open_dataset

    from ...images.planners import AspectBuckets
    from ...text.bucket_comparison import Settings, compare_methods, text_lengths
    from .image_buckets import compare_images, compare_padded, fill_packed

    opened = open_dataset(dataset)
    if sizes is not None or caption is not None:
        fill_packed(opened, sizes, caption, seed, json_out=json_out, png=png)
        return
    if padded and opened.manifest.sample_type != "image":
        raise ConfigError("--padded compares batches of images, and this dataset is of text")
    if padded:
        compare_padded(opened, batch_size, ranks, seed, json_out=json_out, png=png)
        return
    if opened.manifest.sample_type == "image":
        shapes = AspectBuckets(area, pad_to_multiple_of or 64, max_ratio, number)
        chosen = method or "optimal"
        compare_images(opened, shapes, batch_size, ranks, seed, method=chosen, json_out=json_out, png=png)
        return
    lengths = text_lengths(opened, split_names(fields))
    settings = Settings(batch_size, number, pad_to_multiple_of or 1, pack, ranks, seed)
    reports = compare_methods(lengths, settings)
    method = method or ("optimal" if "optimal" in reports else "tokens")
    if method not in reports:
        raise ConfigError(f"method must be one of {', '.join(reports)}, found {method!r}")
    out.print(_comparison(reports))
    out.print(f"{_LEGEND}\n", style="dim")
    out.print(_by_bucket(reports[method], method))
    write_json({name: report.as_dict() for name, report in reports.items()}, json_out)
    if png is not None:
        from stoker.bucketing.plots import plot_report

        plot_report(reports[method], lengths, png, title=f"{Path(dataset).name}: {method}")


def _comparison(reports: dict[str, PlanReport]) -> Table:
    """Return a table with a row for each method."""
    from .image_buckets import cost_cells

    rows = table(
        "method", "padding %", "pad/sample", "shapes", "bound %", "ranks", "similar", "next", "partners"
    )
    for name, report in reports.items():
        rows.add_row(
            name,
            f"{report.padding:.2f}",
            f"{report.padding_per_sample:.3f}",
            f"{report.shapes:,}",
            f"{report.lower_bound:.2f}",
            f"{report.efficiency_linear:.4f}",
            *cost_cells(report),
        )
    return rows


def _by_bucket(report: PlanReport, method: str) -> Table:
    """Return a table with a row for each bucket of one method."""
    rows = table("padded to", "samples", "tokens", "padding %")
    rows.title = method
    for bucket in report.buckets[:_BUCKETS_SHOWN]:
        length = " x ".join(map(str, bucket.length))
        rows.add_row(length, f"{bucket.samples:,}", f"{bucket.tokens:,}", f"{bucket.padding:.2f}")
    if len(report.buckets) > _BUCKETS_SHOWN:
        rows.add_row(f"and {len(report.buckets) - _BUCKETS_SHOWN:,} more", "", "", "")
    return rows
