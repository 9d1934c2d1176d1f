"""A page in HTML with the images of groups of duplicates, for ``stoker duplicates --html``."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape

from PIL import Image

from .find import DuplicateImage, Duplicates

_GROUPS, _IMAGES = 200, 8  # that a page shows
_SIDE = 160  # pixels of a picture
_PAGE = """<!doctype html>
<meta charset="utf-8">
<title>Duplicates</title>
<style>
body {{ font: 14px system-ui, sans-serif; margin: 2em; }}
section {{ display: flex; gap: 1em; border-top: 1px solid #ccc; padding: 1em 0; }}
figure {{ margin: 0; max-width: {side}px; }}
figcaption {{ overflow-wrap: anywhere; }}
</style>
<h1>{title}</h1>
<p>The first image of each row stays.</p>
{rows}
"""


def render_sheet(result: Duplicates) -> str:
    """Return a page of the first groups: their images with keys, distances and datasets."""
    rows = (_row(result, group) for group in result.groups[:_GROUPS])
    title = f"{len(result.groups):,} groups of duplicates among {result.images:,} images"
    return _PAGE.format(side=_SIDE, title=title, rows="\n".join(rows))


def _row(result: Duplicates, group: Sequence[DuplicateImage]) -> str:
    more = f"<p>and {len(group) - _IMAGES:,} more</p>" if len(group) > _IMAGES else ""
    return f"<section>{''.join(_figure(result, image) for image in group[:_IMAGES])}{more}</section>"


def _figure(result: Duplicates, image: DuplicateImage) -> str:
    dataset = result.datasets[image.dataset]
    height, width = (int(dataset.values(name, [image.position])[0]) for name in ("height", "width"))
    picture = Image.fromarray(dataset[image.position].image)
    picture.thumbnail((_SIDE, _SIDE))
    data = io.BytesIO()
    picture.save(data, "JPEG")
    near = "the same pixels" if image.exact else f"distance {image.distance}"
    words = [image.key, result.paths[image.dataset].name, f"{width} x {height}", near]
    source = f"data:image/jpeg;base64,{base64.b64encode(data.getvalue()).decode()}"
    return f'<figure><img src="{source}"><figcaption>{"<br>".join(map(escape, words))}</figcaption></figure>'
