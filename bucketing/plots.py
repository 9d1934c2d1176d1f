"""Reports as images: a histogram with boundaries or shapes, and the padding or cropping of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import optional_import

from .boundaries import as_lengths
from .reports import ImageReport, PlanReport

_DATA, _EDGE, _BAR = "#4c72b0", "#333333", "#dd8452"

_MANY = 20
"""Largest number of buckets with a label on each."""


def plot_report(
    report: PlanReport, lengths: npt.ArrayLike, path: str | Path, *, title: str = "", dpi: int = 120
) -> None:
    """Write a PNG: a histogram of lengths with boundaries above, the padding of each bucket below.

    Args:
        report: Result of :func:`stoker.bucketing.report_plan`.
        lengths: (N,) or (N, 2) integers, tokens.
        path: File to write.
        title: Text above the plot.
        dpi: Dots per inch; the plot is 9 x 6.5 inches.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    figure, top, bottom = _figure()
    table = as_lengths(lengths)
    if table.ndim == 2 and table.shape[1] == 2:
        _two_lengths(top, report, table)
    else:
        _one_length(top, report, table.reshape(len(table), -1).sum(axis=1))
    _paddings(bottom, report)
    summary = (
        f"padding {report.padding:.2f} % ({report.padding_per_sample:.2f} tokens a sample), "
        f"lower bound {report.lower_bound:.2f} %, {report.shapes} shapes"
    )
    _save(figure, title, summary, path, dpi)


def plot_shapes(
    report: ImageReport, sizes: npt.NDArray[np.int64], path: str | Path, *, title: str = "", dpi: int = 120
) -> None:
    """Write a PNG: a histogram of aspect ratios with the shapes above, what each shape crops below."""
    # sizes (N, 2)
    figure, top, bottom = _figure()
    top.hist(np.log2(sizes[:, 0] / sizes[:, 1]), bins=120, color=_DATA)
    for one in report.shapes:
        ratio = np.log2(one.shape[0] / one.shape[1])
        top.axvline(ratio, color=_EDGE, linewidth=0.8, linestyle="--")
    top.set(xlabel="logarithm to base 2 of height over width (dashed: shapes)", ylabel="images")
    names = [f"{height}x{width}" for height, width in (one.shape for one in report.shapes)]
    centers = _bars(bottom, [one.cropped for one in report.shapes], report.cropped)
    bottom.set_xticks(centers, names, rotation=45 if len(names) > 10 else 0)
    bottom.set(xlabel="height x width (line: all images)", ylabel="cropped, % (on top: images)")
    bottom.margins(y=0.15)
    _annotate(bottom, [(one.samples, one.cropped) for one in report.shapes])
    summary = f"cropped {report.cropped:.2f} % of an image, {report.groups} shapes"
    _save(figure, title, summary, path, dpi)


def _figure() -> tuple[Any, Any, Any]:
    """A figure of 9 x 6.5 inches, and its upper and lower axes."""
    with optional_import("plots need matplotlib", "matplotlib"):
        from matplotlib.figure import Figure
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    return figure, *figure.subplots(2, 1, height_ratios=(3, 2))


def _save(figure: Any, title: str, summary: str, path: str | Path, dpi: int) -> None:
    figure.suptitle(f"{title}\n{summary}" if title else summary)
    figure.savefig(path, format="png", dpi=dpi)


def _bars(axes: Any, heights: list[float], mean: float) -> npt.NDArray[np.int64]:
    """Draw bars and a line at their mean; returns the x coordinates of their centres."""
    centers = np.arange(len(heights))
    axes.bar(centers, heights, color=_BAR, zorder=2)
    axes.axhline(mean, color=_EDGE, linewidth=0.8, zorder=1)
    return centers


def _annotate(axes: Any, bars: list[tuple[int, float]]) -> None:
    """Write the number of samples on top of each bar."""
    for center, (samples, height) in enumerate(bars):
        axes.annotate(f"{samples:,}", (center, height), ha="center", va="bottom", fontsize=8)


def _one_length(axes: Any, report: PlanReport, lengths: npt.NDArray[np.int64]) -> None:
    axes.hist(lengths, bins=_bins(int(lengths.max())), color=_DATA)
    shown = report.buckets if len(report.buckets) <= _MANY else ()
    for bucket in shown:
        axes.axvline(bucket.length[0] + 0.5, color=_EDGE, linewidth=0.8, linestyle="--")
    note = " (dashed: padded lengths)" if shown else ""
    axes.set(xlabel=f"length, tokens{note}", ylabel="samples", xlim=(0, None))


def _bins(longest: int) -> npt.NDArray[np.float64]:
    """Return equidistant edges between whole lengths: unequal bins would show false gaps."""
    step = -(-(longest + 1) // 120)
    return np.arange(0, longest + step + 1, step, dtype=np.float64) - 0.5


def _two_lengths(axes: Any, report: PlanReport, lengths: npt.NDArray[np.int64]) -> None:
    bins = [_bins(int(column.max())) for column in lengths.T]
    axes.hist2d(lengths[:, 0], lengths[:, 1], bins=bins, cmap="viridis_r", cmin=1, norm="log")
    for width, height in (bucket.length for bucket in report.buckets):
        axes.plot([0, width + 0.5, width + 0.5], [height + 0.5, height + 0.5, 0], color=_EDGE, linewidth=0.8)
    axes.set(xlabel="first length, tokens", ylabel="second length, tokens", xlim=(0, None), ylim=(0, None))


def _paddings(axes: Any, report: PlanReport) -> None:
    names = ["x".join(map(str, bucket.length)) for bucket in report.buckets]
    centers = _bars(axes, [bucket.padding for bucket in report.buckets], report.padding)
    axes.margins(y=0.12)
    shown = centers[:: -(-len(names) // _MANY)]
    axes.set_xticks(shown, [names[center] for center in shown])
    axes.set(xlabel="padded length, tokens (line: all batches)", ylabel="padding, % (on top: samples)")
    if len(names) <= _MANY:
        _annotate(axes, [(bucket.samples, bucket.padding) for bucket in report.buckets])
