"""The command ``stoker buckets``, which compares ways to batch text by length, and images by shape."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np
import numpy.typing as npt
import typer
from rich.table import Table

from stoker.bucketing import (
    FixedBucketSampler,
    PlanReport,
    SortedBucketSampler,
    bucket_boundaries,
    plot_report,
    report_plan,
)
from stoker.bucketing import pack as pack_rows
from stoker.bucketing.aspect_shapes import (
    AspectSampler,
    best_shapes,
    candidate_shapes,
    nearest_shapes,
    ratio_groups,
)
from stoker.bucketing.boundaries import Method
from stoker.bucketing.plots import plot_shapes
from stoker.bucketing.reports import (
    ImageReport,
    RowReport,
    report_images,
    report_rows,
)
from stoker.errors import ConfigError
from stoker.formats.dataset.dataset import Dataset as ImageDataset
from stoker.formats.open import open as open_dataset

from ..images.captions import Tokens, find_captions
from ..images.patches import Patches
from ..images.planners import AspectBuckets, image_sizes
from ..images.sizes import make_size_plan, with_captions, with_planner
from ..text.token_reader import text_lengths
from .console import out, table, write_json
from .loader_arguments import parse_caption, parse_sizes
from .options import Dataset, JsonFile, split_names

Int64 = npt.NDArray[np.int64]

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
        bool, typer.Option(help="Compare groups of aspect ratios for padded image batches.")
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
    opened = open_dataset(dataset)
    if sizes is not None or caption is not None:
        fill_packed(opened, sizes, caption, seed, json_out=json_out, png=png)
        return
    if padded and opened.manifest.sample_type != "image":
        raise ConfigError("--padded compares image batches, and this dataset is of text")
    if padded:
        compare_padded(opened, batch_size, ranks, seed, json_out=json_out, png=png)
        return
    if opened.manifest.sample_type == "image":
        shapes = AspectBuckets(area, pad_to_multiple_of or 64, max_ratio, number)
        chosen = method or "optimal"
        compare_images(opened, shapes, batch_size, ranks, seed, method=chosen, json_out=json_out, png=png)
        return
    lengths = text_lengths(opened, split_names(fields))
    reports = compare_lengths(
        lengths,
        batch_size,
        number,
        pad_to_multiple_of=pad_to_multiple_of or 1,
        pack_to=pack,
        seed=seed,
        world_size=ranks,
    )
    method = method or ("optimal" if "optimal" in reports else "tokens")
    if method not in reports:
        raise ConfigError(f"method must be one of {', '.join(reports)}, found {method!r}")
    out.print(_comparison(reports))
    out.print(f"{_LEGEND}\n", style="dim")
    out.print(_by_bucket(reports[method], method))
    write_json({name: report.as_dict() for name, report in reports.items()}, json_out)
    if png is not None:
        plot_report(reports[method], lengths, png, title=f"{Path(dataset).name}: {method}")


def compare_lengths(
    lengths: Int64,
    batch_size: int,
    buckets: int,
    *,
    pad_to_multiple_of: int = 1,
    pack_to: int | None = None,
    seed: int = 0,
    world_size: int = 1,
) -> dict[str, PlanReport]:
    """Return a report of the first epoch of random batches, sorted windows, buckets and packing, by name."""
    shared: dict[str, Any] = {"seed": seed, "world_size": world_size}
    reports = {}
    for name, window in (("random", 1), ("sorted", 100)):
        options = {"window": window, "pad_to_multiple_of": pad_to_multiple_of, **shared}
        sampler = SortedBucketSampler(lengths, batch_size, **options)
        reports[name] = report_plan(sampler.plan(0), lengths, sampler.plan(1))
    for method in get_args(Method):
        if method == "optimal" and lengths.ndim > 1 and lengths.shape[1] > 2:
            continue
        edges = bucket_boundaries(lengths, buckets, method, pad_to_multiple_of=pad_to_multiple_of)
        fixed = FixedBucketSampler(lengths, edges, batch_size, **shared)
        reports[method] = report_plan(fixed.plan(0), lengths, fixed.plan(1))
    if pack_to is not None:
        plans = [pack_rows(lengths, pack_to, seed=seed, epoch=epoch) for epoch in (0, 1)]
        reports[f"packed {pack_to}"] = report_plan(plans[0], lengths, plans[1])
    return reports


def _comparison(reports: dict[str, PlanReport]) -> Table:
    """Return a table with a row for each method."""
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


def compare_shapes(
    sizes: Int64, buckets: AspectBuckets, *, batch_size: int, world_size: int, seed: int
) -> dict[str, ImageReport]:
    """A report of the first epoch of each way, by name.

    "one" has the best single shape, so its batches are random. "even" has ``buckets.buckets`` shapes at even
    distances, and "optimal" the same number of best shapes. "all" has every shape.
    """
    # sizes (N, 2)
    candidates = candidate_shapes(buckets.area, buckets.multiple, buckets.max_ratio)
    count = buckets.buckets or 8
    even = np.unique(np.rint(np.linspace(0, len(candidates) - 1, count)).astype(np.int64))
    chosen = {
        "one": best_shapes(sizes, candidates, 1),
        "even": candidates[even],
        "optimal": best_shapes(sizes, candidates, count),
        "all": candidates,
    }
    reports = {}
    for name, shapes in chosen.items():
        nearest, batch_sizes = nearest_shapes(sizes, shapes), np.full(len(shapes), batch_size)
        sampler = AspectSampler(sizes, nearest, batch_sizes, shapes, seed=seed, world_size=world_size)
        reports[name] = report_images(sampler)
    return reports


def fill_of_rows(dataset: ImageDataset, patches: Patches, caption: Tokens | None, seed: int) -> RowReport:
    """The report of the first epoch of a shuffled loader: of patches, and of the tokens of captions."""
    plan = make_size_plan(patches, 1, seed)
    plan = with_planner(plan, dataset, shuffle=True, sampler=None, last_batch="partial", on_error="raise")
    captions = None if caption is None else find_captions(dataset, caption, mixes=False)
    planner = with_captions(plan, captions, seed).patch_planner
    assert planner is not None, "patches have a planner"
    return report_rows(planner.packing(0), planner.packing(1))


_FACTORS = {"None": None, "0": 0, "1": 1, "3": 3, "6": 6}
_PADDED_LEGEND = """\
padding %: share of the pixels of a batch that is padding, if all images first get the same shorter side.
groups: number of groups of aspect ratios that have images.
similar: correlation of aspect ratios within a batch. next: that of the mean ratios of successive batches.
partners: effective number of samples that may share a batch with a sample."""
_IMAGE_LEGEND = """\
cropped %: share of an image that its crop leaves out. shapes: number of distinct shapes.
similar: correlation of aspect ratios within a batch. next: that of the mean ratios of successive batches.
partners: effective number of samples that may share a batch with a sample."""


def compare_images(
    dataset: ImageDataset,
    buckets: AspectBuckets,
    batch_size: int,
    ranks: int,
    seed: int,
    *,
    method: str,
    json_out: Path | None,
    png: Path | None,
) -> None:
    """Print the tables of a dataset of images, and write the files; the arguments are the command's."""
    sizes = _image_sizes(dataset)
    reports = compare_shapes(sizes, buckets, batch_size=batch_size, world_size=ranks, seed=seed)
    if method not in reports:
        raise ConfigError(f"method must be one of {', '.join(reports)}, found {method!r}")
    out.print(_image_comparison(reports))
    out.print(f"{_IMAGE_LEGEND}\n", style="dim")
    out.print(_by_shape(reports[method], method))
    write_json({name: asdict(report) for name, report in reports.items()}, json_out)
    if png is not None:
        plot_shapes(reports[method], sizes, png, title=f"{dataset.path.name}: {method}")


def compare_padded(
    dataset: ImageDataset,
    batch_size: int,
    ranks: int,
    seed: int,
    *,
    json_out: Path | None,
    png: Path | None,
) -> None:
    """Print the table of padded batches by groups of aspect ratios; the arguments are the command's."""
    sizes = _image_sizes(dataset)
    if png is not None:
        raise ConfigError("--png draws shapes of buckets", hint="Leave --png or --padded out.")
    reports = {}
    for name, factor in _FACTORS.items():
        groups = ratio_groups(sizes, factor)
        batch_sizes = np.full(groups.max() + 1, batch_size)
        sampler = AspectSampler(sizes, groups, batch_sizes, seed=seed, world_size=ranks)
        reports[name] = report_images(sampler)
    rows = table("aspect_ratio_group_factor", "padding %", "groups", "steps", "similar", "next", "partners")
    for name, report in reports.items():
        rows.add_row(
            name, f"{report.padding:.2f}", f"{report.groups:,}", f"{report.steps:,}", *cost_cells(report)
        )
    out.print(rows)
    out.print(_PADDED_LEGEND, style="dim")
    write_json({name: asdict(report) for name, report in reports.items()}, json_out)


def fill_packed(
    dataset: ImageDataset,
    sizes: str | None,
    caption: str | None,
    seed: int,
    *,
    json_out: Path | None,
    png: Path | None,
) -> None:
    """Print the fill of packed rows of patches, and of captions beside them."""
    patches = None if sizes is None else parse_sizes(sizes)
    if not isinstance(patches, Patches):
        raise ConfigError(
            f"--sizes and --caption show packed rows of patches, found sizes {sizes}",
            hint="Give --sizes 'Patches(16, most=256, row=1024)'.",
        )
    if png is not None:
        raise ConfigError("--png draws lengths and shapes, which packed rows of patches do not have")
    if dataset.manifest.sample_type != "image":
        raise ConfigError("--sizes packs patches of images, and this dataset is of text", hint="Give --pack.")
    report = fill_of_rows(dataset, patches, None if caption is None else parse_caption(caption), seed)
    rows = table("of a row", "capacity", "a sample", "filled %", "at most %")
    for name, fill in zip(("patches", "caption"), report.fields, strict=False):
        rows.add_row(
            name, f"{fill.capacity:,}", f"{fill.mean:.1f}", f"{fill.filled:.2f}", f"{fill.bound:.2f}"
        )
    out.print(rows)
    more = 100 * report.rows / report.least - 100
    out.print(
        f"{report.samples:,} samples are in {report.rows:,} rows, {more:.2f} % more than the bound of "
        f"{report.least:,} rows.\nA row has at most {report.most} samples. "
        f"A sample shares rows with effectively {report.effective_partners:,.0f} others.",
        style="dim",
    )
    write_json(asdict(report), json_out)


def _image_sizes(dataset: ImageDataset) -> npt.NDArray[np.int64]:
    """Heights and widths of all images, (N, 2)."""
    if not len(dataset):
        raise ConfigError("the dataset has no images", path=dataset.path)
    return image_sizes(dataset)


def cost_cells(report: PlanReport | ImageReport) -> tuple[str, ...]:
    """The cells of what a plan costs in randomness."""
    pair = (report.intraclass_correlation, report.lag1_autocorrelation)
    return *("-" if value is None else f"{value:.3f}" for value in pair), f"{report.effective_partners:,.0f}"


def _image_comparison(reports: dict[str, ImageReport]) -> Table:
    """Return a table with a row for each method."""
    rows = table("method", "cropped %", "shapes", "steps", "similar", "next", "partners")
    for name, report in reports.items():
        rows.add_row(
            name, f"{report.cropped:.2f}", f"{report.groups:,}", f"{report.steps:,}", *cost_cells(report)
        )
    return rows


def _by_shape(report: ImageReport, method: str) -> Table:
    """Return a table with a row for each shape of one method."""
    rows = table("height x width", "images", "cropped %")
    rows.title = method
    for figure in report.shapes:
        rows.add_row(f"{figure.shape[0]} x {figure.shape[1]}", f"{figure.samples:,}", f"{figure.cropped:.2f}")
    return rows
