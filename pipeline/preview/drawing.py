"""Names of objects on a preview: their font, their widths, and their rectangles at the boxes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter, ImageFont

Color = tuple[int, int, int]
Bitmap = npt.NDArray[np.uint8]
Array = npt.NDArray[Any]

LETTERS = 4  # factor by which text is drawn larger before it is reduced, to smooth it
_NAME_SIZE, _HEIGHT, _PAD = 11, 15, 3  # letters of a name and its plate, pixels of the page
_SUPERSAMPLING = 2  # factor by which lines and letters are drawn larger before they are reduced
_TINT = 0.38  # opacity of the colour of a mask, 0 to 1
_PALETTE = (
    *("e63946", "1d7fd1", "2a9d5c", "f3a712", "8f4fd6", "f3722c", "00a7c7"),
    *("ef5da8", "6a994e", "5e60ce", "b5838d", "4d908e", "c9184a", "7f5539"),
)


@lru_cache(maxsize=16)
def font(size: float) -> Any:
    """Pillow's own font, so that a page looks the same on every machine."""
    return ImageFont.load_default(size)


def length(text: str, size: float) -> float:
    """Width of a line, pixels; measured on large letters, as widths of small ones are rounded."""
    return float(font(LETTERS * size).getlength(text)) / LETTERS


def shorten(text: str, width: float, size: float) -> str:
    """The text on one line of at most ``width`` pixels; an ellipsis replaces the middle of a longer text."""
    text = " ".join(text.split())
    if length(text, size) <= width:
        return text

    def kept(count: int) -> str:
        return f"{text[: (count + 1) // 2]}…{text[len(text) - count // 2 :]}"

    longest = bisect_right(range(len(text)), width, key=lambda count: length(kept(count), size)) - 1
    return kept(max(0, longest))


@dataclass(frozen=True)
class Marks:
    """Annotations of one image, in its pixels."""

    labels: Array  # (M,) int64, class of each object
    crowd: Array  # (M,) bool, whether each object stands for a crowd
    boxes: Array  # (M, 4) float64 XYXY
    keypoints: Array | None = None  # (M, K, 3), x, y and visibility; or None
    masks: Array | None = None  # (M, H, W) uint8, 1 inside each object; or None
    segmentation: Array | None = None  # (H, W) integers, class of each pixel; or None


NO_MARKS = Marks(np.zeros(0, np.int64), np.zeros(0, np.bool_), np.zeros((0, 4)))


@dataclass(frozen=True)
class Legend:
    """The meaning of the marks of a page."""

    class_name: Callable[[int], str]  # Function that returns the name of a class of objects
    skeleton: tuple[tuple[int, int], ...] = ()  # Pairs of keypoints that are joined by lines
    ignore: int | None = 255  # Value in segmentation masks that is no class
    by_object: bool = False  # Whether each object has a colour; otherwise each class has one


def color_of(number: int) -> Color:
    """Colour of a class or an object, (R, G, B); colours repeat after fourteen."""
    code = _PALETTE[number % len(_PALETTE)]
    return int(code[:2], 16), int(code[2:4], 16), int(code[4:], 16)


def draw_marks(
    marks: Marks,
    source: tuple[int, int],
    shown: tuple[int, int],
    legend: Legend,
    density: float = 1.0,
    *,
    named: bool = True,
) -> Image.Image:
    """Draw the layer of annotations."""
    height, width = (side * _SUPERSAMPLING for side in shown)
    layer = Image.new("RGBA", (width, height))
    order = _by_size(marks)
    colors = [_object_color(marks, legend, k) for k in range(len(marks.labels))]
    if marks.segmentation is not None:
        layer.alpha_composite(_classes(marks.segmentation, (width, height), legend))
    if marks.masks is not None:
        for k in order:
            layer.alpha_composite(_mask(marks.masks[k], (width, height), colors[k]))
    pen = _Pen(layer, density * _SUPERSAMPLING)
    scale = np.array((width / source[1], height / source[0]))
    boxes = marks.boxes * np.tile(scale, 2)
    for k in order:
        pen.box(boxes[k], colors[k], bool(marks.crowd[k]))
    if marks.keypoints is not None:
        for k in order:
            pen.keypoints(marks.keypoints[k] * (*scale, 1), colors[k], legend.skeleton)
    if named:
        for name in named_marks(marks, source, (height, width), legend, density * _SUPERSAMPLING):
            pen.name(name)
    return layer.resize((shown[1], shown[0]), Image.Resampling.LANCZOS)


@dataclass(frozen=True)
class Name:
    """The name of an object, in the colour of the object, and the rectangle that it fills."""

    text: str  # The name, shortened to the width of the image
    number: int  # Number of the object among those of its image
    rectangle: tuple[float, float, float, float]  # Left, top, right and bottom, pixels of the layer
    color: Color


def named_marks(
    marks: Marks, source: tuple[int, int], shown: tuple[int, int], legend: Legend, unit: float
) -> list[Name]:
    """Names at free corners of their boxes, those of small objects first; names without room are left out."""
    height, width = shown
    boxes = marks.boxes * np.tile((width / source[1], height / source[0]), 2)
    names: list[Name] = []
    pad, line = _PAD * unit, _HEIGHT * unit
    for number in reversed(_by_size(marks)):
        name = legend.class_name(int(marks.labels[number])) + (" (crowd)" if marks.crowd[number] else "")
        text = shorten(name, max(0.0, width - 2 * pad), _NAME_SIZE * unit)
        across = length(text, _NAME_SIZE * unit) + 2 * pad
        left, top, right, bottom = boxes[number].tolist()
        above, inside = top - line, bottom - line
        corners = ((left, above), (left, top), (right - across, top), (left, inside), (left, bottom))
        for corner in corners:
            x = min(max(corner[0], 0.0), max(0.0, width - across))
            y = min(max(corner[1], 0.0), max(0.0, height - line))
            rectangle = (x, y, x + across, y + line)
            if not any(_overlap(rectangle, earlier.rectangle) for earlier in names):
                names.append(Name(text, number, rectangle, _object_color(marks, legend, number)))
                break
    return names


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _by_size(marks: Marks) -> list[int]:
    """Numbers of the objects, the largest first, so that small ones are drawn over them."""
    sides = marks.boxes[:, 2:] - marks.boxes[:, :2]
    order: list[int] = np.argsort(-np.prod(sides, axis=1), kind="stable").tolist()
    return order


def _object_color(marks: Marks, legend: Legend, number: int) -> Color:
    return color_of(number if legend.by_object else int(marks.labels[number]))


def _classes(mask: Bitmap, size: tuple[int, int], legend: Legend) -> Image.Image:
    """A layer in the colours of classes; ignored pixels are grey."""
    values, indices = np.unique(mask, return_inverse=True)
    tints = [
        (128, 128, 128, 200) if value == legend.ignore else (*color_of(value), round(255 * _TINT))
        for value in values.tolist()
    ]
    layer = np.array(tints, np.uint8)[indices.reshape(mask.shape)]
    return Image.fromarray(layer, "RGBA").resize(size, Image.Resampling.NEAREST)


def _mask(mask: Bitmap, size: tuple[int, int], color: Color) -> Image.Image:
    """A layer that tints the inside of a mask, and outlines it."""
    levels = Image.fromarray(np.where(mask, np.uint8(255), np.uint8(0)))
    inside = levels.resize(size, Image.Resampling.NEAREST)
    core = np.asarray(inside.filter(ImageFilter.MinFilter(2 * _SUPERSAMPLING + 1)))
    alpha = np.where(core, round(255 * _TINT), np.asarray(inside)).astype(np.uint8)
    layer = Image.new("RGBA", size, color)
    layer.putalpha(Image.fromarray(alpha))
    return layer


class _Pen:
    """A pen that draws on a layer with ``unit`` pixels for each pixel of the page."""

    def __init__(self, layer: Image.Image, unit: float) -> None:
        self._drawing = ImageDraw.Draw(layer)
        self._unit = unit

    def box(self, box: npt.NDArray[np.float64], color: Color, crowd: bool) -> None:
        """Draw the outline of a box; fainter for a crowd."""
        left, top, right, bottom = box.tolist()
        if right - left < 1 or bottom - top < 1:
            return
        corners = (left, top, max(left, right - 1), max(top, bottom - 1))
        # A dark rim keeps the line visible on a background of its own colour.
        self._drawing.rectangle(corners, outline=(0, 0, 0, 110), width=round(2.6 * self._unit))
        faint = (*color, 140 if crowd else 255)
        self._drawing.rectangle(corners, outline=faint, width=round(1.8 * self._unit))

    def keypoints(
        self, points: npt.NDArray[np.float64], color: Color, skeleton: tuple[tuple[int, int], ...]
    ) -> None:
        """Draw an object's keypoints, (K, 3), and its skeleton; visible ones filled, hidden ones hollow."""
        for a, b in skeleton:
            if points[a, 2] > 0 and points[b, 2] > 0:
                line = [*points[a, :2].tolist(), *points[b, :2].tolist()]
                self._drawing.line(line, fill=(0, 0, 0, 110), width=round(3 * self._unit))
                self._drawing.line(line, fill=(*color, 255), width=round(2 * self._unit))
        radius = 2.8 * self._unit
        for x, y, visibility in points.tolist():
            if visibility > 0:
                paints = ((*color, 255), (255, 255, 255, 255))
                fill, rim = paints if visibility > 1 else paints[::-1]
                circle = (x - radius, y - radius, x + radius, y + radius)
                self._drawing.ellipse(circle, fill=fill, outline=rim, width=round(1.2 * self._unit))

    def name(self, name: Name) -> None:
        """Write a name on a plate in the colour of its object."""
        left, top, right, bottom = name.rectangle
        self._drawing.rounded_rectangle(name.rectangle, radius=3 * self._unit, fill=(*name.color, 235))
        letters, middle = font(_NAME_SIZE * self._unit), ((left + right) / 2, (top + bottom) / 2)
        self._drawing.text(middle, name.text, fill=contrast_to(name.color), font=letters, anchor="mm")


def contrast_to(color: Color) -> Color:
    """Black or white, whichever is easier to read on the colour (by its luma, ITU-R BT.601)."""
    red, green, blue = color
    return (20, 20, 20) if 0.299 * red + 0.587 * green + 0.114 * blue > 150 else (255, 255, 255)
