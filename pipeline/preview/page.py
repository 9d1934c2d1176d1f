"""A contact sheet as a self-contained HTML page that can hide annotations."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from io import BytesIO
from pathlib import Path

from PIL import Image

from stoker.errors import ConfigError

from .marks import contrast_to, draw_marks, named_marks
from .pictures import Picture
from .sheet import Sheet, fitted, render_image, swatches

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
