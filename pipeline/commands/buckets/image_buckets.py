"""The part of ``stoker buckets`` that compares shapes for batches of images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.table import Table

from stoker.bucketing import PlanReport
from stoker.bucketing.aspect_shapes import (
    RatioGroupSampler,
    ShapeBucketSampler,
    best_shapes,
    candidate_shapes,
)
from stoker.bucketing.reports import (
    RatioReport,
    RowReport,
    ShapeReport,
    report_ratio_groups,
    report_rows,
    report_shapes,
)
from stoker.errors import ConfigError
from stoker.formats.dataset.dataset import Dataset

from ...images.captions import Tokens, find_captions
from ...images.patches import Patches
from ...images.planners import AspectBuckets, image_sizes
from ...images.sizes import make_size_plan, with_captions, with_planner
from ..shared.console import out, table, write_json
from ..shared.loader_arguments import parse_caption, parse_sizes

Int64 = npt.NDArray[np.int64]


def compare_shapes(
    sizes: Int64, buckets: AspectBuckets, *, batch_size: int, world_size: int, seed: int
) -> dict[str, ShapeReport]:
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
    return {
        name: report_shapes(
            ShapeBucketSampler(
                sizes, shapes, np.full(len(shapes), batch_size), seed=seed, world_size=world_size
            )
        )
        for name, shapes in chosen.items()
    }


def fill_of_rows(dataset: Dataset, patches: Patches, caption: Tokens | None, seed: int) -> RowReport:
    """The report of the first epoch of a shuffled loader: of patches, and of the tokens of captions."""
    plan = make_size_plan(patches, 1, None, seed)
    plan = with_planner(plan, dataset, shuffle=True, sampler=None, last_batch="partial", on_error="raise")
    planner = with_captions(plan, find_captions(dataset, caption, mixes=False), seed).patch_planner
    assert planner is not None, "patches have a planner"
    return report_rows(planner.packing(0), planner.packing(1))


_FACTORS = {"None": None, "0": 0, "1": 1, "3": 3, "6": 6}
_PADDED_LEGEND = """\
padding %: share of the pixels of a batch that is padding, if all images first get the same shorter side.
groups: number of groups of aspect ratios that have images.
similar: correlation of aspect ratios within a batch. next: that of the mean ratios of successive batches.
partners: effective number of samples that may share a batch with a sample."""
_LEGEND = """\
cropped %: share of an image that its crop leaves out. shapes: number of distinct shapes.
similar: correlation of aspect ratios within a batch. next: that of the mean ratios of successive batches.
partners: effective number of samples that may share a batch with a sample."""


def compare_images(
    dataset: Dataset,
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
    out.print(_comparison(reports))
    out.print(f"{_LEGEND}\n", style="dim")
    out.print(_by_shape(reports[method], method))
    write_json({name: report.as_dict() for name, report in reports.items()}, json_out)
    if png is not None:
        from stoker.bucketing.plots import plot_shapes

        plot_shapes(reports[method], sizes, png, title=f"{dataset.path.name}: {method}")


def compare_padded(
    dataset: Dataset, batch_size: int, ranks: int, seed: int, *, json_out: Path | None, png: Path | None
) -> None:
    """Print the table of padded batches by groups of aspect ratios; the arguments are the command's."""
    sizes = _image_sizes(dataset)
    if png is not None:
        raise ConfigError("--png draws shapes of buckets", hint="Leave --png or --padded out.")
    reports = {
        name: report_ratio_groups(RatioGroupSampler(sizes, factor, batch_size, seed=seed, world_size=ranks))
        for name, factor in _FACTORS.items()
    }
    rows = table("aspect_ratio_group_factor", "padding %", "groups", "steps", "similar", "next", "partners")
    for name, report in reports.items():
        rows.add_row(
            name, f"{report.padding:.2f}", f"{report.groups:,}", f"{report.steps:,}", *cost_cells(report)
        )
    out.print(rows)
    out.print(_PADDED_LEGEND, style="dim")
    write_json({name: report.as_dict() for name, report in reports.items()}, json_out)


def fill_packed(
    dataset: Dataset,
    sizes: str | None,
    caption: str | None,
    seed: int,
    *,
    json_out: Path | None,
    png: Path | None,
) -> None:
    """Print the fill of packed rows of patches, and of captions beside them; the arguments are the command's."""
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
    write_json(report.as_dict(), json_out)


def _image_sizes(dataset: Dataset) -> npt.NDArray[np.int64]:
    """Heights and widths of all images, (N, 2)."""
    if not len(dataset):
        raise ConfigError("the dataset has no images", path=dataset.path)
    return image_sizes(dataset)


def cost_cells(report: PlanReport | ShapeReport | RatioReport) -> tuple[str, ...]:
    """The cells of what a plan costs in randomness."""
    pair = (report.intraclass_correlation, report.lag1_autocorrelation)
    return *("-" if value is None else f"{value:.3f}" for value in pair), f"{report.effective_partners:,.0f}"


def _comparison(reports: dict[str, ShapeReport]) -> Table:
    """Return a table with a row for each method."""
    rows = table("method", "cropped %", "shapes", "steps", "similar", "next", "partners")
    for name, report in reports.items():
        rows.add_row(
            name, f"{report.cropped:.2f}", f"{report.shapes:,}", f"{report.steps:,}", *cost_cells(report)
        )
    return rows


def _by_shape(report: ShapeReport, method: str) -> Table:
    """Return a table with a row for each shape of one method."""
    rows = table("height x width", "images", "cropped %")
    rows.title = method
    for figure in report.figures:
        rows.add_row(f"{figure.shape[0]} x {figure.shape[1]}", f"{figure.samples:,}", f"{figure.cropped:.2f}")
    return rows
