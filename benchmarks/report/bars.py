"""Bars as SVG, for a light and for a dark background, on the page of the comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

_WIDTH, _LABELS, _VALUES = 760, 250, 90
"""Width of a picture, of its labels and of its values, pixels."""
_ROW, _BAR, _TITLE, _MARGIN = 24, 16, 34, 12


@dataclass(frozen=True)
class Colours:
    """Colours of a picture."""

    ground: str
    ink: str
    ours: str
    theirs: str


LIGHT = Colours(ground="#ffffff", ink="#24292f", ours="#00796b", theirs="#b0bec5")
DARK = Colours(ground="#1e2129", ink="#e3e6eb", ours="#4db6ac", theirs="#566573")


@dataclass(frozen=True)
class Bar:
    """A bar: its label, its length, the text of its value, and whether it is Stoker's."""

    label: str
    value: float
    text: str
    ours: bool


@dataclass(frozen=True)
class Panel:
    """A title with bars below it; the longest bar has the whole width."""

    title: str
    bars: Sequence[Bar]


def draw(panels: Sequence[Panel], colours: Colours) -> str:
    """Return a picture with panels below each other."""
    top, parts = _MARGIN, []
    for panel in panels:
        parts.append(_text(_MARGIN, top + 17, panel.title, colours.ink, "font-weight='bold'"))
        top += _TITLE
        longest = max((bar.value for bar in panel.bars), default=0.0) or 1.0
        for bar in panel.bars:
            length = (_WIDTH - _LABELS - _VALUES) * bar.value / longest
            weight = "font-weight='bold'" if bar.ours else ""
            fill = colours.ours if bar.ours else colours.theirs
            parts += [
                _text(_LABELS - 8, top + 13, bar.label, colours.ink, f"text-anchor='end' {weight}"),
                f"<rect x='{_LABELS}' y='{top}' width='{max(length, 1):.1f}' height='{_BAR}' fill='{fill}'/>",
                _text(_LABELS + length + 6, top + 13, bar.text, colours.ink, weight),
            ]
            top += _ROW
        top += _MARGIN
    titles = escape("; ".join(panel.title for panel in panels))
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {top}' font-size='13' "
            "font-family='Helvetica, Arial, sans-serif'>",
            f"<title>{titles}</title>",
            f"<rect width='{_WIDTH}' height='{top}' fill='{colours.ground}'/>",
            *parts,
            "</svg>\n",
        ]
    )


def _text(x: float, y: float, text: str, colour: str, more: str) -> str:
    return f"<text x='{x:.1f}' y='{y}' fill='{colour}' {more}>{escape(text)}</text>"
