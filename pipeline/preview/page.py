"""The page of a preview: rows of images with their annotations, as an image file or as one HTML file."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from stoker.errors import ConfigError

from ..order.sampling import SampleSource
from .drawing import (
    LETTERS,
    Legend,
    Marks,
    color_of,
    contrast_to,
    draw_marks,
    font,
    length,
    named_marks,
    shorten,
)

_MARGIN, _GAP, _ROW_GAP = 36, 16, 22
_BACKGROUND, _INK, _GREY = "#fbfbf9", "#1d1d1f", "#6e6e73"
_TITLE, _TEXT, _SMALL = 25, 14, 12.5
_LEAST_WIDTH = 640
"""Least width of a page, pixels, so that its title is legible."""
_MOST_SWATCHES = 6
_GRID = 5  # images in a row, if rows have no meaning


@dataclass(frozen=True)
class Cell:
    """An image on the page, (H, W, 3) uint8, its annotations, and the lines below it."""

    pixels: npt.NDArray[np.uint8]
    marks: Marks
    caption: tuple[str, ...]


@dataclass(frozen=True)
class Page:
    """Rows of images, with a title and lines of text above them."""

    title: str  # Name of the dataset
    lines: tuple[str, ...]  # Lines below the title
    headings: tuple[str, ...]  # A heading for each column; empty for none
    rows: tuple[tuple[Cell, ...], ...]  # Rows of cells
    legend: Legend  # The meaning of the marks
    mask_names: tuple[str, ...]  # Names of the classes of segmentation masks
    side: int  # Longer side of an image on the page, pixels


def page_of(
    dataset: SampleSource,
    lines: Sequence[str],
    headings: tuple[str, ...],
    rows: Sequence[tuple[Cell, ...]],
    side: int,
) -> Page:
    """Return a page with the name, the classes and the meanings of annotations of a dataset."""
    info, classes = dataset.manifest.annotations, dataset.classes
    name = partial(class_name, classes)
    legend = Legend(name, info.skeleton, info.ignore, by_object=len(classes) <= 1)
    title, mask_names = dataset.path.resolve().name, info.mask_classes or classes
    return Page(title, tuple(lines), headings, tuple(rows), legend, mask_names, side)


def class_name(classes: Sequence[str], label: int) -> str:
    """Name of a class, or "class" and its number."""
    return classes[label] if 0 <= label < len(classes) else f"class {label}"


def spread_positions(
    n: int, samples: int, positions: Sequence[int] | None, *, path: Path | None = None, what: str = "sample"
) -> list[int]:
    """Positions of the samples to show: ``positions``, or ``samples`` spread evenly over ``n``."""
    if positions is None:
        # In the middle of equal parts: the first sample of a class is often an unusual one.
        count = min(samples, n)
        return [int((i + 0.5) * n / count) for i in range(count)]
    if outside := [position for position in positions if not 0 <= position < n]:
        raise ConfigError(f"there is no {what} {outside[0]}: positions go from 0 to {n - 1}", path=path)
    return list(positions)


def in_grid(cells: Sequence[Cell]) -> list[tuple[Cell, ...]]:
    """Return the cells in rows of five."""
    return [tuple(cells[i : i + _GRID]) for i in range(0, len(cells), _GRID)]


def fitted(cell: Cell, side: int) -> tuple[int, int]:
    """Height and width of an image on the page, pixels; the longer one is ``side``."""
    height, width = cell.pixels.shape[:2]
    scale = side / max(height, width)
    return max(1, round(height * scale)), max(1, round(width * scale))


def swatches(page: Page, cell: Cell) -> list[tuple[tuple[int, int, int], str]]:
    """Colours and names of the classes that cover most of a segmentation mask."""
    if cell.marks.segmentation is None:
        return []
    values, counts = np.unique(cell.marks.segmentation, return_counts=True)
    ranked = [value for value in values[np.argsort(-counts)].tolist() if value != page.legend.ignore]
    return [(color_of(value), class_name(page.mask_names, value)) for value in ranked[:_MOST_SWATCHES]]


def render_image(page: Page) -> Image.Image:
    """The page as an RGB image."""
    columns = max(len(row) for row in page.rows)
    width = max(2 * _MARGIN + columns * (page.side + _GAP) - _GAP, _LEAST_WIDTH)
    head = _MARGIN + _TITLE + 14 + len(page.lines) * (_TEXT + 8) + 16
    heights = [max(_height(page, cell) for cell in row) for row in page.rows]
    under_headings = head + (_TEXT + 14 if page.headings else 0)
    image = Image.new("RGB", (width, under_headings + sum(heights) + _ROW_GAP * len(heights)), _BACKGROUND)
    room = width - 2 * _MARGIN
    _text(image, (_MARGIN, _MARGIN), page.title, width=room, size=_TITLE, ink=_INK)
    y = _MARGIN + _TITLE + 14
    for line in page.lines:
        _text(image, (_MARGIN, y), line, width=room, size=_TEXT, ink=_GREY)
        y += _TEXT + 8
    for column, heading in enumerate(page.headings):
        x = _MARGIN + column * (page.side + _GAP)
        _text(image, (x, head), heading, width=page.side, size=_TEXT, ink=_INK)
    y = under_headings
    for row, height in zip(page.rows, heights, strict=True):
        for column, cell in enumerate(row):
            _paste_cell(image, page, cell, (_MARGIN + column * (page.side + _GAP), y))
        y += height + _ROW_GAP
    return image


def _height(page: Page, cell: Cell) -> int:
    """Height of an image and the lines below it, pixels."""
    lines = len(cell.caption) + len(_swatch_lines(page, cell))
    return fitted(cell, page.side)[0] + (8 + round(lines * (_SMALL + 5)) if lines else 0)


def _paste_cell(image: Image.Image, page: Page, cell: Cell, corner: tuple[int, int]) -> None:
    x, y = corner
    height, width = fitted(cell, page.side)
    shown = Image.fromarray(cell.pixels).resize((width, height), Image.Resampling.LANCZOS).convert("RGBA")
    shown.alpha_composite(draw_marks(cell.marks, cell.pixels.shape[:2], (height, width), page.legend))
    image.paste(shown, corner, _rounded(width, height, 6))
    line = y + height + 8.0
    for number, text in enumerate(cell.caption):
        _text(image, (x, line), text, width=page.side, size=_SMALL, ink=_GREY if number else _INK)
        line += _SMALL + 5
    for entries in _swatch_lines(page, cell):
        at = float(x)
        for color, name in entries:
            image.paste(color, (round(at), round(line) + 1), _rounded(11, 11, 5.5))
            _text(image, (at + 15, line), name, width=page.side, size=_SMALL, ink=_GREY)
            at += _swatch_width(name)
        line += _SMALL + 5


def _swatch_lines(page: Page, cell: Cell) -> list[list[tuple[tuple[int, int, int], str]]]:
    """Swatches of an image, in lines of the width of an image."""
    lines: list[list[tuple[tuple[int, int, int], str]]] = []
    used = 0.0
    for color, name in swatches(page, cell):
        short = shorten(name, page.side - 14, _SMALL)
        if not lines or used + _swatch_width(short) > page.side:
            lines.append([])
            used = 0.0
        lines[-1].append((color, short))
        used += _swatch_width(short)
    return lines


def _swatch_width(name: str) -> float:
    return 26 + length(name, _SMALL)


def _rounded(width: int, height: int, radius: float) -> Image.Image:
    """A mask with round corners, drawn larger and reduced."""
    mask = Image.new("L", (4 * width, 4 * height))
    ImageDraw.Draw(mask).rounded_rectangle((0, 0, 4 * width - 1, 4 * height - 1), radius=4 * radius, fill=255)
    return mask.resize((width, height), Image.Resampling.BOX)


def _text(
    image: Image.Image, corner: tuple[float, float], text: str, *, width: float, size: float, ink: str
) -> None:
    """Write a line of at most ``width`` pixels; drawn larger and reduced, for even spacing."""
    text = shorten(text, width, size)
    letters = font(LETTERS * size)
    mask = Image.new("L", (round(letters.getlength(text)) + LETTERS, round(LETTERS * size * 1.4)))
    ImageDraw.Draw(mask).text((0, 0), text, fill=255, font=letters)
    mask = mask.reduce(LETTERS)
    image.paste(ink, (round(corner[0]), round(corner[1])), mask)


_DENSITY = 2
"""Pixels of an image for each pixel of the page, for displays with high density."""

PAGE_STYLE = """
:root { color-scheme: light dark; --ink: #1d1d1f; --grey: #6e6e73; --paper: #fbfbf9; --rule: #e3e3e0; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #f2f2f0; --grey: #a0a0a6; --paper: #161618; --rule: #2e2e32; }
}
* { box-sizing: border-box; }
body { margin: 0; padding: 36px; background: var(--paper); color: var(--ink);
  font: 14px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { margin: 0 0 6px; font-size: 25px; font-weight: 650; letter-spacing: -0.01em; }
header p { margin: 0; color: var(--grey); }
details { margin-top: 10px; color: var(--grey); } summary { cursor: pointer; }
pre { margin: 8px 0 0; font: 12.5px/1.5 ui-monospace, Menlo, Consolas, monospace; white-space: pre-wrap; }
#hide + label { display: inline-block; margin: 14px 0 0; cursor: pointer; color: var(--grey); }
#hide:checked ~ main .marks { display: none; }
main { overflow-x: auto; margin-top: 20px; padding-bottom: 8px; }
.row { display: flex; gap: 16px; padding: 14px 0; border-top: 1px solid var(--rule); }
.headings { padding: 6px 0; font-weight: 600; border: 0; }
.cell { flex: none; width: var(--cell); margin: 0; }
.image { position: relative; }
.image > img, .marks img { display: block; width: 100%; height: 100%; border-radius: 6px; }
.marks { position: absolute; inset: 0; overflow: hidden; border-radius: 6px; }
.name { position: absolute; overflow: hidden; padding: 0 3px; border-radius: 3px; white-space: nowrap;
  text-overflow: ellipsis; font-size: 11px; line-height: 15px; }
figcaption { margin-top: 7px; font-size: 12.5px; color: var(--grey); overflow-wrap: anywhere; }
figcaption div:first-child { color: var(--ink); }
.swatch { display: inline-block; margin-right: 10px; }
.swatch i { display: inline-block; width: 10px; height: 10px; margin-right: 4px; border-radius: 5px; }
"""


def _render(page: Page, details: str, folded: str) -> str:
    more = ""
    if details:
        more = f"<details><summary>{escape(folded)}</summary><pre>{escape(details)}</pre></details>"
    switch = ""
    if any(_has_marks(cell) for row in page.rows for cell in row):
        switch = '<input type="checkbox" id="hide"><label for="hide">Hide annotations</label>'
    headings = "".join(f'<div class="cell">{escape(heading)}</div>' for heading in page.headings)
    rows = [f'<div class="row headings">{headings}</div>'] if headings else []
    body = "\n".join((switch, "<main>", *rows, html_rows(page), "</main>"))
    return html_page(page.title, f":root {{ --cell: {page.side}px; }}", page.lines, more, body)


def html_page(title: str, style: str, lines: Sequence[str], more: str, body: str) -> str:
    """A page of HTML, which refers to no other file."""
    title, head = escape(title), "".join(f"<p>{escape(line)}</p>" for line in lines)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}</title>\n'
        f"<style>{PAGE_STYLE}{style}</style>\n</head>\n<body>\n"
        f"<header><h1>{title}</h1>{head}{more}</header>\n{body}\n</body>\n</html>\n"
    )


def checked_target(out: str | Path) -> Path:
    """Return the path of a page's file; raise ConfigError unless it ends in .png or .html."""
    if Path(out).suffix not in (".png", ".html"):
        raise ConfigError(f"out must end in .png or .html, found {str(out)!r}")
    return Path(out)


def write_page(page: Page, target: Path, details: Sequence[object], folded: str = "Recipe") -> Page:
    """Write a page as an image or as a page, by the name of the file, and return it."""
    if target.suffix == ".png":
        render_image(page).save(target, optimize=True)
    else:
        target.write_text(_render(page, "\n".join(map(json.dumps, details)), folded), "utf-8")
    return page


def html_rows(page: Page) -> str:
    """The rows of images as HTML, for a page with the style :data:`PAGE_STYLE`."""
    return "\n".join(
        f'<div class="row">{"".join(_cell(page, cell) for cell in row)}</div>' for row in page.rows
    )


def _has_marks(cell: Cell) -> bool:
    return bool(len(cell.marks.labels)) or cell.marks.segmentation is not None


def _cell(page: Page, cell: Cell) -> str:
    height, width = fitted(cell, page.side)
    # A browser enlarges images by itself.
    density = min(_DENSITY, max(1.0, max(cell.pixels.shape[:2]) / page.side))
    large = round(height * density), round(width * density)
    image = Image.fromarray(cell.pixels).resize(large[::-1], Image.Resampling.LANCZOS)
    layers = [f'<img alt="{escape(" ".join(cell.caption))}" src="{_inline(image, "JPEG")}">']
    if _has_marks(cell):
        layers.append(_marks(page, cell, large, density))
    lines = [f"<div>{escape(line)}</div>" for line in cell.caption]
    spots = [
        f'<span class="swatch"><i style="background:rgb{color}"></i>{escape(name)}</span>'
        for color, name in swatches(page, cell)
    ]
    lines += [f"<div>{''.join(spots)}</div>"] if spots else []
    size = f"width:{width}px;height:{height}px"
    return (
        f'<figure class="cell"><div class="image" style="{size}">{"".join(layers)}</div>'
        f"<figcaption>{''.join(lines)}</figcaption></figure>"
    )


def _marks(page: Page, cell: Cell, large: tuple[int, int], density: float) -> str:
    """The layer of annotations; names are HTML text, since a browser has all letters."""
    source = cell.pixels.shape[:2]
    drawn = draw_marks(cell.marks, source, large, page.legend, density, named=False)
    names = []
    for name in named_marks(cell.marks, source, large, page.legend, density):
        left, top, *_ = (side / density for side in name.rectangle)
        style = f"left:{left:.1f}px;top:{top:.1f}px;max-width:calc(100% - {left:.1f}px);"
        style += f"background:rgb{name.color};color:rgb{contrast_to(name.color)}"
        text = escape(name.text)
        names.append(f'<span class="name" title="{text}" style="{style}">{text}</span>')
    return f'<div class="marks"><img alt="" src="{_inline(drawn, "PNG")}">{"".join(names)}</div>'


def _inline(image: Image.Image, codec: str) -> str:
    stream = BytesIO()
    image.save(stream, codec, quality=88, optimize=True)
    return f"data:image/{codec.lower()};base64,{b64encode(stream.getvalue()).decode()}"
