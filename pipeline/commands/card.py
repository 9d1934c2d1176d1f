"""The card of a dataset of images: one HTML page, with histograms as inline SVG and bars."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.dataset.manifest import SKIPPED_NAME
from stoker.formats.dataset.versions import read_versions
from stoker.formats.pixel_statistics import pixel_statistics

from ..preview.page import html_page, html_rows, spread_positions
from ..preview.preview import samples_page
from .summary import class_counts, summary_rows, version_rows

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


def _bar_chart(counts: Mapping[str, int]) -> str:
    """A row for each name, with a bar as long as its count, as an HTML table."""
    most = max([*counts.values(), 1])
    rows = "".join(
        f'<tr><th>{escape(name)}</th><td><i style="width:{100 * count / most:.2f}%"></i></td>'
        f"<td>{count:,}</td></tr>"
        for name, count in counts.items()
    )
    return f'<table class="bars">{rows}</table>'


_CLASSES = 60  # of the most samples
_IMAGES = 15
_CELL = 180
_DECODED = 1_000  # images for the statistics of channels
_NAMED = 5  # files that are named for a reason

_STYLE = """
main > section { margin-top: 34px; } main { overflow: visible; }
h2 { margin: 0 0 10px; font-size: 17px; font-weight: 650; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(250px, 1fr)); gap: 26px; }
figure { margin: 0; } svg { width: 100%; height: auto; } svg rect { fill: var(--bar); }
svg line { stroke: var(--rule); } svg text { font-size: 10px; fill: var(--grey); }
.charts figcaption { margin: 0 0 6px; } .charts figcaption b { color: var(--ink); }
table { border-collapse: collapse; } th { text-align: left; font-weight: 500; }
td, th { padding: 2px 18px 2px 0; vertical-align: top; overflow-wrap: anywhere; }
.summary th, td.note { color: var(--grey); } .summary th { white-space: nowrap; }
.bars { width: 100%; max-width: 760px; } .bars td:nth-child(2) { width: 60%; }
.bars i { display: block; height: 12px; margin-top: 4px; min-width: 1px; background: var(--bar);
  border-radius: 2px; }
:root { --bar: #3b6fb6; }
@media (prefers-color-scheme: dark) { :root { --bar: #7aa7e6; } }
.row { flex-wrap: wrap; border: 0; padding: 0 0 14px; }
"""


def write_card(
    dataset: Dataset,
    file: str | os.PathLike[str],
    *,
    num_threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write the card of a dataset of images: one page that refers to no other file.

    It shows a summary, classes with their counts, histograms of sizes and aspect ratios, samples, the
    statistics of the channels of at most a thousand images, what was skipped, and the versions.
    """
    target = Path(file)
    if target.suffix != ".html":
        raise ConfigError(f"a card is a .html file, found {str(target)!r}", hint="name it card.html")
    if not target.parent.is_dir():
        raise ConfigError("the folder of the card does not exist", path=target.parent, hint="make it first")
    if dataset.manifest.sample_type != "image" or not len(dataset):
        raise ConfigError("a card shows images, and this dataset holds none", path=dataset.path)
    title = dataset.path.resolve().name
    summary = [(name, value) for name, value in summary_rows(dataset) if name != "columns"]
    sections = [
        ("", _table(summary, "summary")),
        *_classes(dataset),
        ("Sizes", _sizes(dataset)),
        ("Samples", html_rows(samples_page(dataset, spread_positions(len(dataset), _IMAGES, None), _CELL))),
        ("Channels", _channels(dataset, num_threads, progress)),
        *_skipped(dataset),
    ]
    if len(versions := read_versions(dataset.path)) > 1:
        sections.append(("Versions", _table(version_rows(versions))))
    body = "\n".join(
        f"<section>{f'<h2>{escape(name)}</h2>' if name else ''}{content}</section>"
        for name, content in sections
    )
    style = f":root {{ --cell: {_CELL}px; }}{_STYLE}"
    target.write_text(html_page(title, style, (), "", f"<main>\n{body}\n</main>"), "utf-8")


def _table(rows: Iterable[Sequence[str]], kind: str = "") -> str:
    lines = (
        f"<tr><th>{escape(first)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in rest)}</tr>"
        for first, *rest in rows
    )
    return f'<table class="{kind}">{"".join(lines)}</table>'


def _classes(dataset: Dataset) -> list[tuple[str, str]]:
    """The classes in the order of their labels; of very many classes, those with the most samples."""
    counts, what = class_counts(dataset)
    if not any(counts):
        return []
    shown, note = list(range(len(counts))), ""
    if len(counts) > _CLASSES:
        shown = sorted(shown, key=lambda label: -counts[label])[:_CLASSES]
        rest = sum(counts) - sum(counts[label] for label in shown)
        note = f"<p>The {_CLASSES} largest; {len(counts) - _CLASSES:,} more have {rest:,} {what}.</p>"
    chart = _bar_chart({dataset.classes[label]: counts[label] for label in shown})
    return [(f"Classes: {dataset.num_classes:,}, {what} of each", chart + note)]


def _sizes(dataset: Dataset) -> str:
    height, width = dataset.column("height"), dataset.column("width")
    charts = [
        histogram(width, "Width", " px"),
        histogram(height, "Height", " px"),
        histogram(width / height, "Width over height"),
        histogram(dataset.column("length"), "Bytes of an image"),
    ]
    return f'<div class="charts">{"".join(charts)}</div>'


def _channels(dataset: Dataset, num_threads: int | None, progress: Callable[[int, int], None] | None) -> str:
    sample = dataset.select(spread_positions(len(dataset), _DECODED, None))
    statistics = pixel_statistics(sample, num_threads=num_threads, progress=progress)
    channels = range(len(statistics.mean))
    names = ["red", "green", "blue"] if len(channels) == 3 else [f"channel {i}" for i in channels]
    rows = [("", "mean", "standard deviation")] + [
        (name, f"{mean:.4f}", f"{std:.4f}")
        for name, mean, std in zip(names, statistics.mean, statistics.std, strict=True)
    ]
    of = "all images" if len(sample) == len(dataset) else f"{len(sample):,} images, spread evenly"
    return _table(rows) + f"<p>Of {of}; black is 0 and white is 1.</p>"


def _skipped(dataset: Dataset) -> list[tuple[str, str]]:
    """What was left out when the dataset was made, and the first files of each reason."""
    reasons = dataset.manifest.skipped
    if not reasons:
        return []
    named: dict[str, list[str]] = {reason: [] for reason in reasons}
    file = dataset.path / SKIPPED_NAME
    if file.is_file():
        with file.open(encoding="utf-8") as lines:
            for skip in map(json.loads, islice(lines, 1_000_000)):
                some = named.get(skip["reason"], [])
                if len(some) < _NAMED:
                    some.append(f"{skip['key']} ({skip['detail']})" if skip["detail"] else skip["key"])
    return [
        ("Left out", _table((reason, f"{reasons[reason]:,}", ", ".join(named[reason])) for reason in reasons))
    ]
