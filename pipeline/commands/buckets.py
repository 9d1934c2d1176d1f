"""The command ``stoker buckets``, which compares ways to batch text by length, and images by shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import numpy as np
import numpy.typing as npt
import typer

from stoker.arguments import one_of
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
from stoker.bucketing.reports import ImageReport, report_images, report_rows
from stoker.errors import ConfigError
from stoker.formats.dataset.dataset import Dataset as OpenedDataset
from stoker.formats.open import open as open_dataset

from ..images.captions import find_captions
from ..images.planners import AspectBuckets, Patches, image_sizes
from ..images.sizes import make_size_plan, with_captions, with_planner
from ..text.token_reader import text_lengths
from .console import out, table, write_json
from .loader_arguments import parse_caption, parse_sizes
from .options import Dataset, JsonFile

Int64 = npt.NDArray[np.int64]

Report = TypeVar("Report", PlanReport, ImageReport)

_BUCKETS_SHOWN = 32
# Titles of columns, and the forms of their numbers in a report.
_LENGTHS = {
    "padding %": "{.padding:.2f}",
    "pad/sample": "{.padding_per_sample:.3f}",
    "shapes": "{.shapes:,}",
    "bound %": "{.lower_bound:.2f}",
    "ranks": "{.efficiency_linear:.4f}",
}
_PADDED = {"padding %": "{.padding:.2f}", "groups": "{.groups:,}", "steps": "{.steps:,}"}
_CROPPED = {"cropped %": "{.cropped:.2f}", "shapes": "{.groups:,}", "steps": "{.steps:,}"}
_LENGTHS_LEGEND = """\
sorted: windows of 100 batches, sorted by length. Samples of several fields are ordered by a k-d split,
  which is the default of TextLoader for them; its default for one field is "optimal" with eight buckets.
padding %: share of the padded tokens that is padding. pad/sample: tokens of padding for each sample.
shapes: number of distinct shapes of a batch. bound %: least padding with as many padded lengths.
ranks: share of useful work, 1 if no rank waits for another.
similar: correlation of lengths within a batch. next: correlation of the mean lengths of successive batches.
partners: effective number of samples that may share a batch with a sample."""
_RANDOMNESS_LEGEND = """
similar: correlation of aspect ratios within a batch. next: that of the mean ratios of successive batches.
partners: effective number of samples that may share a batch with a sample."""
_PADDED_LEGEND = f"""\
padding %: share of the pixels of a batch that is padding, if all images first get the same shorter side.
groups: number of groups of aspect ratios that have images.{_RANDOMNESS_LEGEND}"""
_CROPPED_LEGEND = (
    "cropped %: share of an image that its crop leaves out. shapes: number of distinct shapes."
    f"{_RANDOMNESS_LEGEND}"
)


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
    is_image = opened.manifest.sample_type == "image"
    if sizes is not None or caption is not None:
        _show_packed_rows(opened, sizes, caption, seed, json_out=json_out, png=png)
    elif padded and not is_image:
        raise ConfigError("--padded compares image batches, and this dataset is of text")
    elif padded:
        if png is not None:
            raise ConfigError("--png draws shapes of buckets", hint="Leave --png or --padded out.")
        reports = _by_groups(_image_sizes(opened), batch_size, ranks, seed)
        _print_reports("aspect_ratio_group_factor", _PADDED, reports, _PADDED_LEGEND, json_out)
    elif is_image:
        shapes = AspectBuckets(area, pad_to_multiple_of or 64, max_ratio, number)
        by_shapes = _by_shapes(_image_sizes(opened), shapes, batch_size, ranks, seed)
        _show_shapes(opened, by_shapes, method or "optimal", json_out, png)
    else:
        names = None if fields is None else [name.strip() for name in fields.split(",")]
        lengths = text_lengths(opened, names)
        by_lengths = _by_lengths(lengths, batch_size, number, pad_to_multiple_of or 1, pack, ranks, seed)
        method = method or ("optimal" if "optimal" in by_lengths else "tokens")
        _show_lengths(opened, lengths, by_lengths, method, json_out, png)


def _show_shapes(
    dataset: OpenedDataset,
    reports: Mapping[str, ImageReport],
    method: str,
    json_out: Path | None,
    png: Path | None,
) -> None:
    chosen = _chosen(reports, method)
    _print_reports("method", _CROPPED, reports, _CROPPED_LEGEND, json_out)
    rows = table("height x width", "images", "cropped %", title=method)
    for shape in chosen.shapes:
        rows.add_row(_sides(shape.shape), f"{shape.samples:,}", f"{shape.cropped:.2f}")
    out.print(rows)
    if png is not None:
        plot_shapes(chosen, image_sizes(dataset), png, title=f"{dataset.path.name}: {method}")


def _show_lengths(
    dataset: OpenedDataset,
    lengths: Int64,
    reports: Mapping[str, PlanReport],
    method: str,
    json_out: Path | None,
    png: Path | None,
) -> None:
    chosen = _chosen(reports, method)
    _print_reports("method", _LENGTHS, reports, _LENGTHS_LEGEND, json_out)
    rows = table("padded to", "samples", "tokens", "padding %", title=method)
    for bucket in chosen.buckets[:_BUCKETS_SHOWN]:
        numbers = f"{bucket.samples:,}", f"{bucket.tokens:,}", f"{bucket.padding:.2f}"
        rows.add_row(_sides(bucket.length), *numbers)
    if len(chosen.buckets) > _BUCKETS_SHOWN:
        rows.add_row(f"and {len(chosen.buckets) - _BUCKETS_SHOWN:,} more", "", "", "")
    out.print(rows)
    if png is not None:
        plot_report(chosen, lengths, png, title=f"{dataset.path.name}: {method}")


def _chosen(reports: Mapping[str, Report], method: str) -> Report:
    return reports[one_of("method", method, reports)]


def _sides(shape: Iterable[int]) -> str:
    return " x ".join(map(str, shape))


def _print_reports(
    first: str, columns: Mapping[str, str], reports: Mapping[str, Any], legend: str, json_out: Path | None
) -> None:
    """Print a row for each report, with its numbers in these forms, and write the reports as JSON."""
    rows = table(first, *columns, "similar", "next", "partners")
    for name, report in reports.items():
        correlations = (report.intraclass_correlation, report.lag1_autocorrelation)
        rows.add_row(
            name,
            *(form.format(report) for form in columns.values()),
            *("-" if value is None else f"{value:.3f}" for value in correlations),
            f"{report.effective_partners:,.0f}",
        )
    out.print(rows)
    out.print(f"{legend}\n", style="dim")
    write_json({name: asdict(report) for name, report in reports.items()}, json_out)


def _by_lengths(
    lengths: Int64, batch_size: int, buckets: int, multiple: int, pack: int | None, ranks: int, seed: int
) -> dict[str, PlanReport]:
    """Reports of the first epoch of random batches, sorted windows, buckets and packing, by name."""
    shared: dict[str, Any] = {"seed": seed, "world_size": ranks}
    samplers: dict[str, SortedBucketSampler | FixedBucketSampler] = {}
    for name, window in (("random", 1), ("sorted", 100)):
        options = {"window": window, "pad_to_multiple_of": multiple, **shared}
        samplers[name] = SortedBucketSampler(lengths, batch_size, **options)
    for method in get_args(Method):
        if method != "optimal" or lengths.ndim == 1 or lengths.shape[1] <= 2:
            edges = bucket_boundaries(lengths, buckets, method, pad_to_multiple_of=multiple)
            samplers[method] = FixedBucketSampler(lengths, edges, batch_size, **shared)
    reports = {
        name: report_plan(sampler.plan(0), lengths, sampler.plan(1)) for name, sampler in samplers.items()
    }
    if pack is not None:
        plans = [pack_rows(lengths, pack, seed=seed, epoch=epoch) for epoch in (0, 1)]
        reports[f"packed {pack}"] = report_plan(plans[0], lengths, plans[1])
    return reports


def _by_shapes(
    sizes: Int64, buckets: AspectBuckets, batch_size: int, ranks: int, seed: int
) -> dict[str, ImageReport]:
    """Reports of the first epoch with the best single shape, even, best and all shapes; sizes (N, 2)."""
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
        sampler = AspectSampler(sizes, nearest, batch_sizes, shapes, seed=seed, world_size=ranks)
        reports[name] = report_images(sampler)
    return reports


def _by_groups(sizes: Int64, batch_size: int, ranks: int, seed: int) -> dict[str, ImageReport]:
    """Reports of the first epoch of padded batches, by ``aspect_ratio_group_factor``; sizes (N, 2)."""
    reports = {}
    for factor in (None, 0, 1, 3, 6):
        groups = ratio_groups(sizes, factor)
        batch_sizes = np.full(groups.max() + 1, batch_size)
        sampler = AspectSampler(sizes, groups, batch_sizes, seed=seed, world_size=ranks)
        reports[str(factor)] = report_images(sampler)
    return reports


def _image_sizes(dataset: OpenedDataset) -> Int64:
    """Heights and widths of all images, (N, 2)."""
    if not len(dataset):
        raise ConfigError("the dataset has no images", path=dataset.path)
    return image_sizes(dataset)


def _show_packed_rows(
    dataset: OpenedDataset,
    sizes: str | None,
    caption: str | None,
    seed: int,
    *,
    json_out: Path | None,
    png: Path | None,
) -> None:
    """Print how full packed rows of patches are, and captions beside them."""
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
    plan = make_size_plan(patches, 1, seed)
    plan = with_planner(plan, dataset, shuffle=True, sampler=None, last_batch="partial", on_error="raise")
    captions = None if caption is None else find_captions(dataset, parse_caption(caption), mixes=False)
    planner = with_captions(plan, captions, seed).patch_planner
    assert planner is not None, "patches have a planner"
    report = report_rows(planner.packing(0), planner.packing(1))
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
