"""A contact sheet as a self-contained HTML page that can hide annotations."""

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
from PIL import Image, ImageDraw

from stoker.errors import ConfigError

from ..order.sample_source import SampleSource
from .drawing import LETTERS, Legend, color_of, contrast_to, draw_marks, font, length, named_marks, shorten
from .pictures import Picture
from .scene import class_name

_MARGIN, _GAP, _ROW_GAP = 36, 16, 22
_BACKGROUND, _INK, _GREY = "#fbfbf9", "#1d1d1f", "#6e6e73"
_TITLE, _TEXT, _SMALL = 25, 14, 12.5
_LEAST_WIDTH = 640
"""Least width of a sheet, pixels, so that its title is legible."""
_MOST_SWATCHES = 6
_GRID = 5  # pictures in a row, if rows have no meaning


@dataclass(frozen=True)
class Sheet:
    """A contact sheet."""

    title: str  # Name of the dataset
    facts: tuple[str, ...]  # Lines below the title
    headings: tuple[str, ...]  # A heading for each column; empty for none
    rows: tuple[tuple[Picture, ...], ...]  # Rows of pictures
    legend: Legend  # The meaning of the marks
    mask_names: tuple[str, ...]  # Names of the classes of segmentation masks
    cell: int  # Longer side of a picture on the sheet, pixels


def sheet_of(
    dataset: SampleSource,
    facts: Sequence[str],
    headings: tuple[str, ...],
    rows: Sequence[tuple[Picture, ...]],
    cell: int,
) -> Sheet:
    """Return a sheet with the name, the classes and the meanings of annotations of a dataset."""
    info, classes = dataset.manifest.annotations, dataset.classes
    name = partial(class_name, classes)
    legend = Legend(name, info.skeleton, info.ignore, by_object=len(classes) <= 1)
    title, mask_names = dataset.path.resolve().name, info.mask_classes or classes
    return Sheet(title, tuple(facts), headings, tuple(rows), legend, mask_names, cell)


def in_grid(pictures: Sequence[Picture]) -> list[tuple[Picture, ...]]:
    """Return the pictures in rows of five."""
    return [tuple(pictures[i : i + _GRID]) for i in range(0, len(pictures), _GRID)]


def fitted(picture: Picture, cell: int) -> tuple[int, int]:
    """Height and width of a picture on the sheet, pixels; the longer one is ``cell``."""
    height, width = picture.pixels.shape[:2]
    scale = cell / max(height, width)
    return max(1, round(height * scale)), max(1, round(width * scale))


def swatches(sheet: Sheet, picture: Picture) -> list[tuple[tuple[int, int, int], str]]:
    """Colours and names of the classes that cover most of a segmentation mask."""
    if picture.marks.segmentation is None:
        return []
    values, counts = np.unique(picture.marks.segmentation, return_counts=True)
    ranked = [value for value in values[np.argsort(-counts)].tolist() if value != sheet.legend.ignore]
    return [(color_of(value), class_name(sheet.mask_names, value)) for value in ranked[:_MOST_SWATCHES]]


def render_image(sheet: Sheet) -> Image.Image:
    """The sheet as an RGB image."""
    columns = max(len(row) for row in sheet.rows)
    width = max(2 * _MARGIN + columns * (sheet.cell + _GAP) - _GAP, _LEAST_WIDTH)
    head = _MARGIN + _TITLE + 14 + len(sheet.facts) * (_TEXT + 8) + 16
    heights = [max(_height(sheet, picture) for picture in row) for row in sheet.rows]
    under_headings = head + (_TEXT + 14 if sheet.headings else 0)
    image = Image.new("RGB", (width, under_headings + sum(heights) + _ROW_GAP * len(heights)), _BACKGROUND)
    room = width - 2 * _MARGIN
    _text(image, (_MARGIN, _MARGIN), sheet.title, width=room, size=_TITLE, ink=_INK)
    y = _MARGIN + _TITLE + 14
    for fact in sheet.facts:
        _text(image, (_MARGIN, y), fact, width=room, size=_TEXT, ink=_GREY)
        y += _TEXT + 8
    for column, heading in enumerate(sheet.headings):
        x = _MARGIN + column * (sheet.cell + _GAP)
        _text(image, (x, head), heading, width=sheet.cell, size=_TEXT, ink=_INK)
    y = under_headings
    for row, height in zip(sheet.rows, heights, strict=True):
        for column, picture in enumerate(row):
            _paste_cell(image, sheet, picture, (_MARGIN + column * (sheet.cell + _GAP), y))
        y += height + _ROW_GAP
    return image


def _height(sheet: Sheet, picture: Picture) -> int:
    """Height of a picture and the lines below it, pixels."""
    lines = len(picture.caption) + len(_swatch_lines(sheet, picture))
    return fitted(picture, sheet.cell)[0] + (8 + round(lines * (_SMALL + 5)) if lines else 0)


def _paste_cell(image: Image.Image, sheet: Sheet, picture: Picture, corner: tuple[int, int]) -> None:
    x, y = corner
    height, width = fitted(picture, sheet.cell)
    shown = Image.fromarray(picture.pixels).resize((width, height), Image.Resampling.LANCZOS).convert("RGBA")
    shown.alpha_composite(draw_marks(picture.marks, picture.pixels.shape[:2], (height, width), sheet.legend))
    image.paste(shown, corner, _rounded(width, height, 6))
    line = y + height + 8.0
    for number, text in enumerate(picture.caption):
        _text(image, (x, line), text, width=sheet.cell, size=_SMALL, ink=_GREY if number else _INK)
        line += _SMALL + 5
    for entries in _swatch_lines(sheet, picture):
        at = float(x)
        for color, name in entries:
            image.paste(color, (round(at), round(line) + 1), _rounded(11, 11, 5.5))
            _text(image, (at + 15, line), name, width=sheet.cell, size=_SMALL, ink=_GREY)
            at += _swatch_width(name)
        line += _SMALL + 5


def _swatch_lines(sheet: Sheet, picture: Picture) -> list[list[tuple[tuple[int, int, int], str]]]:
    """Swatches of a picture, in lines of the width of a picture."""
    lines: list[list[tuple[tuple[int, int, int], str]]] = []
    used = 0.0
    for color, name in swatches(sheet, picture):
        short = shorten(name, sheet.cell - 14, _SMALL)
        if not lines or used + _swatch_width(short) > sheet.cell:
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
"""Pixels of a picture for each pixel of the page, for displays with high density."""

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
.picture { position: relative; }
.picture > img, .marks img { display: block; width: 100%; height: 100%; border-radius: 6px; }
.marks { position: absolute; inset: 0; overflow: hidden; border-radius: 6px; }
.name { position: absolute; overflow: hidden; padding: 0 3px; border-radius: 3px; white-space: nowrap;
  text-overflow: ellipsis; font-size: 11px; line-height: 15px; }
figcaption { margin-top: 7px; font-size: 12.5px; color: var(--grey); overflow-wrap: anywhere; }
figcaption div:first-child { color: var(--ink); }
.swatch { display: inline-block; margin-right: 10px; }
.swatch i { display: inline-block; width: 10px; height: 10px; margin-right: 4px; border-radius: 5px; }
"""


def _render(sheet: Sheet, details: str, folded: str) -> str:
    more = ""
    if details:
        more = f"<details><summary>{escape(folded)}</summary><pre>{escape(details)}</pre></details>"
    switch = ""
    if any(_has_marks(picture) for row in sheet.rows for picture in row):
        switch = '<input type="checkbox" id="hide"><label for="hide">Hide annotations</label>'
    headings = "".join(f'<div class="cell">{escape(heading)}</div>' for heading in sheet.headings)
    rows = [f'<div class="row headings">{headings}</div>'] if headings else []
    body = "\n".join((switch, "<main>", *rows, sheet_rows(sheet), "</main>"))
    return html_page(sheet.title, f":root {{ --cell: {sheet.cell}px; }}", sheet.facts, more, body)


def html_page(title: str, style: str, facts: Sequence[str], more: str, body: str) -> str:
    """A page of HTML, which refers to no other file."""
    title, lines = escape(title), "".join(f"<p>{escape(fact)}</p>" for fact in facts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}</title>\n'
        f"<style>{PAGE_STYLE}{style}</style>\n</head>\n<body>\n"
        f"<header><h1>{title}</h1>{lines}{more}</header>\n{body}\n</body>\n</html>\n"
    )


def checked_target(out: str | Path) -> Path:
    """Return the path of a sheet's file; raise ConfigError unless it ends in .png or .html."""
    if Path(out).suffix not in (".png", ".html"):
        raise ConfigError(f"out must end in .png or .html, found {str(out)!r}")
    return Path(out)


def write_sheet(sheet: Sheet, target: Path, details: Sequence[object], folded: str = "Recipe") -> Sheet:
    """Write a sheet as an image or as a page, by the name of the file, and return it."""
    if target.suffix == ".png":
        render_image(sheet).save(target, optimize=True)
    else:
        target.write_text(_render(sheet, "\n".join(map(json.dumps, details)), folded), "utf-8")
    return sheet


def sheet_rows(sheet: Sheet) -> str:
    """The rows of pictures as HTML, for a page with the style :data:`PAGE_STYLE`."""
    return "\n".join(
        f'<div class="row">{"".join(_cell(sheet, picture) for picture in row)}</div>' for row in sheet.rows
    )


def _has_marks(picture: Picture) -> bool:
    return bool(len(picture.marks.labels)) or picture.marks.segmentation is not None


def _cell(sheet: Sheet, picture: Picture) -> str:
    height, width = fitted(picture, sheet.cell)
    # A browser enlarges pictures itself.
    density = min(_DENSITY, max(1.0, max(picture.pixels.shape[:2]) / sheet.cell))
    large = round(height * density), round(width * density)
    image = Image.fromarray(picture.pixels).resize(large[::-1], Image.Resampling.LANCZOS)
    layers = [f'<img alt="{escape(" ".join(picture.caption))}" src="{_inline(image, "JPEG")}">']
    if _has_marks(picture):
        layers.append(_marks(sheet, picture, large, density))
    lines = [f"<div>{escape(line)}</div>" for line in picture.caption]
    spots = [
        f'<span class="swatch"><i style="background:rgb{color}"></i>{escape(name)}</span>'
        for color, name in swatches(sheet, picture)
    ]
    lines += [f"<div>{''.join(spots)}</div>"] if spots else []
    size = f"width:{width}px;height:{height}px"
    return (
        f'<figure class="cell"><div class="picture" style="{size}">{"".join(layers)}</div>'
        f"<figcaption>{''.join(lines)}</figcaption></figure>"
    )


def _marks(sheet: Sheet, picture: Picture, large: tuple[int, int], density: float) -> str:
    """The layer of annotations; names are HTML text, since a browser has all letters."""
    source = picture.pixels.shape[:2]
    drawn = draw_marks(picture.marks, source, large, sheet.legend, density, named=False)
    names = [
        f'<span class="name" title="{escape(name.text)}" style="left:{name.rectangle[0] / density:.1f}px;'
        f"top:{name.rectangle[1] / density:.1f}px;max-width:calc(100% - {name.rectangle[0] / density:.1f}px);"
        f'background:rgb{color};color:rgb{contrast_to(color)}">{escape(name.text)}</span>'
        for name, color in named_marks(picture.marks, source, large, sheet.legend, density)
    ]
    return f'<div class="marks"><img alt="" src="{_inline(drawn, "PNG")}">{"".join(names)}</div>'


def _inline(image: Image.Image, codec: str) -> str:
    stream = BytesIO()
    image.save(stream, codec, quality=88, optimize=True)
    return f"data:image/{codec.lower()};base64,{b64encode(stream.getvalue()).decode()}"
