"""Charts of a dataset card: histograms as inline SVG, and bars; colours follow the style of the page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

_WIDTH, _HEIGHT, _FOOT = 340, 120, 18  # pixels of the page
_BINS = 30
_TICKS = 4
_SPREAD = 12  # largest value over smallest, from which bins grow with their values


def histogram(values: npt.NDArray[Any], title: str, unit: str = "") -> str:
    """Return a histogram as an HTML figure, whose bars have titles with their range and count."""
    # values (N,)
    low, high = float(values.min()), float(values.max())
    edges = _edges(values, low, high)
    counts = np.histogram(values, edges)[0]
    step, most = _WIDTH / len(counts), max(int(counts.max()), 1)
    bars = []
    for number, count in enumerate(counts.tolist()):
        height = _HEIGHT * count / most
        label = f"{_number(edges[number])} to {_number(edges[number + 1])}{unit}: {count:,}"
        bars.append(
            f'<rect x="{number * step + 0.5:.1f}" y="{_HEIGHT - height:.1f}" width="{step - 1:.1f}" '
            f'height="{height:.1f}"><title>{escape(label)}</title></rect>'
        )
    ticks = []
    for number in range(_TICKS + 1):
        edge = number * len(counts) // _TICKS
        anchor = "start" if not number else "end" if number == _TICKS else "middle"
        attributes = f'x="{edge * step:.1f}" y="{_HEIGHT + _FOOT - 4}" text-anchor="{anchor}"'
        ticks.append(f"<text {attributes}>{_number(edges[edge])}</text>")
    spread = f"{_number(low)} to {_number(high)}{unit}, median {_number(float(np.median(values)))}"
    return (
        f"<figure><figcaption><b>{escape(title)}</b> {escape(spread)}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT + _FOOT}" role="img" aria-label="{escape(title)}">'
        f'{"".join(bars)}<line x1="0" x2="{_WIDTH}" y1="{_HEIGHT}" y2="{_HEIGHT}"/>{"".join(ticks)}</svg>'
        "</figure>"
    )


def _edges(values: npt.NDArray[Any], low: float, high: float) -> npt.NDArray[np.float64]:
    """Return the ends of the bins; a bin of whole numbers has room for at least one of them."""
    if low == high:
        return np.array([low - 0.5, high + 0.5])
    whole = values.dtype.kind in "iu"
    if low > 0 and high / low > _SPREAD:
        edges = np.geomspace(low, high, _BINS + 1)
        edges[-1] = high  # rounding must not leave out the largest value
        return np.unique(np.floor(edges)) if whole else edges
    return np.linspace(low, high, 1 + (min(_BINS, int(high - low)) if whole else _BINS))


def _number(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:,.3g}M"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def bar_chart(names: Sequence[str], counts: Sequence[int]) -> str:
    """Return a row for each name, with a bar as long as its count, as an HTML table."""
    most = max([*counts, 1])
    rows = "".join(
        f'<tr><th>{escape(name)}</th><td><i style="width:{100 * count / most:.2f}%"></i></td>'
        f"<td>{count:,}</td></tr>"
        for name, count in zip(names, counts, strict=True)
    )
    return f'<table class="bars">{rows}</table>'
