"""A contact sheet: rows of pictures with their annotations, and the sheet as one image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from PIL import Image, ImageDraw

from ..order.sample_source import SampleSource
from .marks import Legend, color_of, draw_marks
from .names import LETTERS, font, length, shorten
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
            _cell(image, sheet, picture, (_MARGIN + column * (sheet.cell + _GAP), y))
        y += height + _ROW_GAP
    return image


def _height(sheet: Sheet, picture: Picture) -> int:
    """Height of a picture and the lines below it, pixels."""
    lines = len(picture.caption) + len(_swatch_lines(sheet, picture))
    return fitted(picture, sheet.cell)[0] + (8 + round(lines * (_SMALL + 5)) if lines else 0)


def _cell(image: Image.Image, sheet: Sheet, picture: Picture, corner: tuple[int, int]) -> None:
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
