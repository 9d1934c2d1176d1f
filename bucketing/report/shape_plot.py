"""A report on shapes of images as a picture: aspect ratios with the shapes, and what each of them crops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stoker.errors import optional_import

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from .shape_report import ShapeReport

__all__ = ["plot_shapes"]

_DATA, _EDGE, _CROPPED = "#4c72b0", "#333333", "#dd8452"


def plot_shapes(
    report: ShapeReport,
    sizes: npt.NDArray[np.int64],
    path: str | Path,
    *,
    title: str = "",
    dpi: int = 120,
) -> None:
    """Write a PNG: a histogram of aspect ratios with the shapes above, what each shape crops below.

    Args:
        report: What :func:`stoker.bucketing.report.shape_report.report_shapes` returned.
        sizes: (N, 2) integers, heights and widths of the images.
        path: File to write.
        title: Text above the picture.
        dpi: Dots per inch; the picture is 9 x 6.5 inches.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    with optional_import("plots need matplotlib", "matplotlib"):
        from matplotlib.figure import Figure
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    top, bottom = figure.subplots(2, 1, height_ratios=(3, 2))
    top.hist(np.log2(sizes[:, 0] / sizes[:, 1]), bins=120, color=_DATA)
    for one in report.figures:
        ratio = np.log2(one.shape[0] / one.shape[1])
        top.axvline(ratio, color=_EDGE, linewidth=0.8, linestyle="--")
    top.set(xlabel="logarithm to base 2 of height over width (dashed: shapes)", ylabel="images")
    names = [f"{height}x{width}" for height, width in (one.shape for one in report.figures)]
    places = np.arange(len(names))
    bottom.bar(places, [one.cropped for one in report.figures], color=_CROPPED, zorder=2)
    bottom.axhline(report.cropped, color=_EDGE, linewidth=0.8, zorder=1)
    bottom.set_xticks(places, names, rotation=45 if len(names) > 10 else 0)
    bottom.set(xlabel="height x width (line: all images)", ylabel="cropped, % (on top: images)")
    bottom.margins(y=0.15)
    for place, one in zip(places, report.figures, strict=True):
        bottom.annotate(f"{one.samples:,}", (place, one.cropped), ha="center", va="bottom", fontsize=8)
    summary = f"cropped {report.cropped:.2f} % of an image, {report.shapes} shapes"
    figure.suptitle(f"{title}\n{summary}" if title else summary)
    figure.savefig(path, format="png", dpi=dpi)
