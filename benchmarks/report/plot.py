"""Pictures of comparisons by matplotlib, with a bar for each loader."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stoker.benchmarks.peers import TITLES
from stoker.benchmarks.report.results import Comparison
from stoker.benchmarks.report.table import machine_line
from stoker.errors import MissingDependencyError, install_hint

_OURS, _THEIRS, _INK = "#d9480f", "#adb5bd", "#495057"
_BAR_INCHES = 0.34


def plot(comparisons: Sequence[Comparison], path: Path) -> None:
    """Write a PNG or an SVG, by the suffix of ``path``, with a panel for each comparison.

    Each bar is the median of a loader; its thin line reaches from the lowest to the highest turn.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("plots need matplotlib", hint=install_hint("matplotlib")) from error
    rows = [len(comparison.measured()) for comparison in comparisons]
    with mpl.rc_context({"svg.hashsalt": "stoker", "svg.fonttype": "none"}):
        figure = Figure(figsize=(8, 0.9 * len(rows) + _BAR_INCHES * sum(rows) + 0.4), layout="constrained")
        panels = figure.subplots(len(rows), 1, squeeze=False, height_ratios=[1 + count for count in rows])
        for panel, comparison in zip(panels[:, 0], comparisons, strict=True):
            _draw(panel, comparison)
        figure.supxlabel(machine_line(comparisons[-1]), fontsize=7, color=_INK)
        # A file with a date would differ in each run.
        figure.savefig(path, dpi=160, metadata={"Date": None} if path.suffix == ".svg" else None)


def _draw(panel: Any, comparison: Comparison) -> None:
    peers = sorted(comparison.measured(), key=lambda peer: peer.rate.median)
    rates = [peer.rate for peer in peers]
    bars = panel.barh(
        [TITLES[peer.name] for peer in peers],
        [rate.median for rate in rates],
        xerr=[[rate.median - rate.low for rate in rates], [rate.high - rate.median for rate in rates]],
        color=[_OURS if peer.name.startswith("stoker") else _THEIRS for peer in peers],
        error_kw={"linewidth": 1, "ecolor": _INK},
        height=0.72,
    )
    panel.bar_label(
        bars, [f" {rate.median:,.0f}" for rate in rates], label_type="edge", padding=6, fontsize=8
    )
    panel.set_title(f"{comparison.workload}, images/s", loc="left", fontsize=9, fontweight="bold")
    panel.spines[["top", "right", "bottom"]].set_visible(False)
    panel.tick_params(left=False, bottom=False, labelbottom=False, labelsize=8)
    panel.margins(x=0.14)
