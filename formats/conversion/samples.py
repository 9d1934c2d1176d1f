"""Samples from Python, checked: the first one fixes the labels, columns, objects and masks of all."""

from __future__ import annotations

import io
import keyword
import operator
import os
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from PIL import Image

from stoker.arguments import some_of
from stoker.errors import ConfigError

from ..codecs.decode import sixteen_bits
from ..codecs.header import is_negative
from ..containers.image_record import StoredArray
from ..dataset.annotations import Annotations, checked_runs, decompress_runs, runs_of_mask
from ..dataset.columns import ARRAY_DTYPES, array_types
from ..dataset.dataset import Dataset
from ..dataset.index import is_reserved
from ..files import is_unicode, read_regular
from ..sources.columns import is_missing
from ..sources.image_files import SkippedError, unreadable

Floats = npt.NDArray[np.float32]
Runs = npt.NDArray[np.uint32]
Value = int | float | str | np.ndarray[Any, Any]


@dataclass(frozen=True)
class ColumnType:
    """The type of a column of numbers, texts or arrays."""

    dtype: str  # NumPy's name of the type of a number or of the elements of an array; "str" for texts
    sides: int = 0  # Number of sides of an array; 0 for numbers and texts

    def __str__(self) -> str:
        if self.sides:
            return f"an array of {self.dtype} with {self.sides} side{'s' if self.sides > 1 else ''}"
        return "a text" if self.dtype == "str" else f"a number of {self.dtype}"


def check_names(names: Iterable[str]) -> None:
    """Raise ConfigError for a name that a column of a batch or of the index cannot have."""
    names = list(names)
    derived = {column: name for name in names for column in array_types(name)}
    for name in names:
        wrong = None
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
            wrong = "is no name that a column of a batch can have"
        elif is_reserved(name):
            wrong = "is a name that the index uses itself"
        elif name in derived:
            wrong = f"is a name that the index uses for the arrays {derived[name]!r}"
        if wrong:
            raise ConfigError(f"column {name!r} {wrong}", hint="Give the column another name.")


def types_of(values: Mapping[str, Any], key: str) -> dict[str, ColumnType]:
    """Return the types of the columns of the first sample."""
    # Python's integers are int64, its floats float64, and True and False uint8; a value of NumPy has its own
    # type. A list or a tuple of numbers, and anything that NumPy can make an array of, is an array.
    check_names(values)
    return {name: _type_of(_plain(name, value, key)) for name, value in values.items()}


def _type_of(plain: str | npt.NDArray[Any]) -> ColumnType:
    if isinstance(plain, str):
        return ColumnType("str")
    return ColumnType("uint8" if plain.dtype == bool and not plain.ndim else plain.dtype.name, plain.ndim)


def _plain(name: str, value: Any, key: str) -> str | npt.NDArray[Any]:
    """A text, or numbers as an array; numbers alone have no side."""
    if isinstance(value, str):
        return value
    plain = _as_array(value, f"column {name!r} holds no value that can be stored", key)
    if plain.dtype.name not in ARRAY_DTYPES:
        kind = "None" if value is None else f"a value of the type {type(value).__name__}"
        inside = f" of {plain.dtype}" if plain.ndim else ""
        raise ConfigError(
            f"column {name!r} holds {kind}{inside}, which cannot be stored",
            key=key,
            hint="A column has a number, a text or an array of numbers in every sample.",
        )
    return plain


def _as_array(value: Any, wrong: str, key: str, dtype: Any = None) -> npt.NDArray[Any]:
    try:
        return np.asarray(value, dtype)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise ConfigError(f"{wrong}: {error}", key=key) from error


def store_value(name: str, value: Any, wanted: ColumnType, key: str) -> Value:
    """Return a value as the type of its column; of an array the elements in C order, little-endian."""
    plain = _plain(name, value, key)
    if isinstance(plain, str):
        if wanted.dtype == "str" and is_unicode(plain):
            return plain
        found = "half of a surrogate pair" if wanted.dtype == "str" else "a text"
    else:
        target = np.dtype(wanted.dtype)
        if wanted.dtype != "str" and plain.ndim == wanted.sides and _keeps_value(plain, target, value):
            if plain.ndim:
                return np.ascontiguousarray(plain, target.newbyteorder("<"))
            number: int | float = plain.astype(target).item()
            return number
        found = str(_type_of(plain)) if plain.ndim else f"{plain.item()!r}, {_type_of(plain)}"
    raise ConfigError(
        f"column {name!r} holds {found}, and in the first sample {wanted}",
        key=key,
        hint="The first sample fixes the type of a column: write values of one type in all.",
    )


def _keeps_value(plain: npt.NDArray[Any], target: np.dtype[Any], value: Any) -> bool:
    """Whether numbers keep their values in another type; Python's own take the type of their column."""
    if plain.dtype.kind in "iu" and target.kind == "f":
        return bool((plain.astype(target).astype(object) == plain.astype(object)).all())
    if plain.dtype == target or np.can_cast(plain.dtype, target, "safe"):
        return True
    if type(value) is int and target.kind in "iu":
        return bool(np.iinfo(target).min <= value <= np.iinfo(target).max)
    return type(value) is float and target.kind == "f"


def number_column(values: Sequence[Any], column: ColumnType) -> pa.Array:
    """Return a column of the index, (N,), of numbers or texts."""
    if column.dtype == "str":
        return pa.array(values, pa.large_string())
    return pa.array(np.array(values, column.dtype))


_CHANNELS = (1, 3, 4)
_FILES = (bytes, bytearray, memoryview, str, os.PathLike, Image.Image)
_PNG_MODES = {"1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA"}
_COLOUR_TYPES = {3: 2, 4: 6}  # of PNG, by channels


def image_file(image: Any, key: str) -> bytes:
    """Return the file of an image."""
    if isinstance(image, (bytes, bytearray, memoryview)):
        return bytes(image)
    if isinstance(image, (str, os.PathLike)):
        try:
            return read_regular(image)
        except OSError as error:
            reason, detail = unreadable(error, os.fspath(image))
            raise SkippedError(reason, f"{os.fspath(image)}: {detail}") from error
    if isinstance(image, Image.Image) and is_negative(image):
        image = sixteen_bits(image)
    if isinstance(image, Image.Image):
        if image.mode == "F":
            raise ConfigError("the pixels of the image are floats, and none is known to be white", key=key)
        return _png(image if image.mode in _PNG_MODES else image.convert("RGB"))
    return _array_file(_pixels(image, "image", key), "image", key)


def mask_file(mask: Any, key: str) -> bytes:
    """Return the file of a mask of classes: bytes, a path, an image of Pillow, or (H, W) uint8 or uint16."""
    if isinstance(mask, _FILES) and not (isinstance(mask, Image.Image) and is_negative(mask)):
        return image_file(mask, key)
    pixels = _pixels(mask, "segmentation", key)
    if pixels.ndim != 2:
        raise ConfigError(f"segmentation has the shape {pixels.shape}, and a mask has (H, W)", key=key)
    if pixels.dtype.kind in "iub" and pixels.size and 0 <= pixels.min() <= pixels.max() < 1 << 16:
        pixels = pixels.astype(np.uint8 if pixels.max() < 256 else np.uint16)
    return _array_file(pixels, "segmentation", key)


def _pixels(image: Any, column: str, key: str) -> npt.NDArray[Any]:
    if hasattr(image, "permute") and getattr(image, "ndim", 0) == 3:  # a tensor of PyTorch: channels first
        image = image.permute(1, 2, 0)
    return _as_array(image, f"{column} is no image", key)


def _array_file(pixels: npt.NDArray[Any], column: str, key: str) -> bytes:
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    shaped = pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] in _CHANNELS)
    if not shaped or pixels.dtype not in (np.uint8, np.uint16) or not pixels.size:
        raise ConfigError(
            f"{column} is {type(pixels).__name__} of {pixels.dtype} with the shape {pixels.shape}",
            key=key,
            hint="Give bytes of a file, a path, an image of Pillow, or an array (H, W) or (H, W, 3) of "
            "uint8 or uint16 as it was before it was normalised.",
        )
    if pixels.dtype == np.uint16 and pixels.ndim == 3:
        return _png_of_colours(pixels)
    return _png(Image.fromarray(np.ascontiguousarray(pixels)))


def _png(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "PNG", exif=b"")  # the pixels are taken as they are seen, whatever EXIF said
    return stream.getvalue()


def _png_of_colours(pixels: npt.NDArray[np.uint16]) -> bytes:
    """A PNG of (H, W, 3) or (H, W, 4) uint16, which Pillow does not write (PNG 1.2, chapters 3 and 4)."""
    height, width, channels = pixels.shape
    rows = pixels.astype(">u2").reshape(height, -1).view(np.uint8)
    filtered = np.concatenate((np.zeros((height, 1), np.uint8), rows), axis=1)  # filter 0: no filter
    header = struct.pack(">IIBBBBB", width, height, 16, _COLOUR_TYPES[channels], 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(filtered.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


def check_samples(source: Any) -> None:
    """Raise ConfigError for an object that is no dataset, though Python may iterate it."""
    kind = type(source).__name__
    by_index = hasattr(source, "__getitem__") and hasattr(source, "__len__")
    if isinstance(source, Mapping):
        raise ConfigError(
            f"the source is a {kind} of {some_of(map(repr, source))}, no dataset",
            hint=f"Give one of them, such as source[{next(iter(source), 'train')!r}], and give each a folder "
            "of its own.",
        )
    if hasattr(source, "columns") and not isinstance(source, Dataset):
        raise ConfigError(
            f"the source is a {kind}, and iterating it gives columns, not samples",
            hint="Give its rows as dicts: to_dict('records') of pandas, to_dicts() of polars, to_pylist() of "
            "Arrow.",
        )
    if isinstance(source, (set, frozenset)):
        raise ConfigError(
            f"the source is a {kind}, whose order differs from run to run",
            hint="Give iter(sorted(source)).",
        )
    if isinstance(source, io.IOBase):
        raise ConfigError(f"the source is an open file, a {kind}", hint="Give its path.")
    if isinstance(source, (bytes, bytearray)) or not (by_index or isinstance(source, Iterable)):
        raise ConfigError(
            f"the source is a {kind}, which has neither a length and items nor an iterator",
            hint="Give a path, a dataset, or an iterable.",
        )


BOX_FORMATS = ("XYXY", "XYWH", "CXCYWH")
_OBJECT_FIELDS = ("boxes", "box_labels", "crowd", "area", "object_id", "keypoints", "corners", "masks")
_OPTIONAL_FIELDS = frozenset({"crowd", "area", "object_id"})  # with a default in samples that lack them
_FARTHEST = 1e18  # pixels; the square, an area, still is a float32


def _make_objects(
    arguments: Mapping[str, Any], labels: Sequence[int], box_format: str, keypoints: int | None, key: str
) -> Annotations:
    """Return the M objects of one sample."""
    boxes = _boxes(arguments["boxes"], box_format, key)
    number = len(boxes)
    sides = boxes[:, 2:] - boxes[:, :2]
    columns = {"crowd": np.zeros(number, bool), "area": sides[:, 0] * sides[:, 1], "id": np.arange(number)}
    for name, argument in (("crowd", "crowd"), ("area", "area"), ("id", "object_id")):
        if argument in arguments:
            columns[name] = _numbers(argument, arguments[argument], columns[name].dtype, key)
            if columns[name].shape != (number,):
                raise ConfigError(
                    f"{argument} has the shape {columns[name].shape} for {number} boxes", key=key
                )
    if not (columns["area"] >= 0).all():
        raise ConfigError("area must be numbers from 0, in pixels", key=key)
    if "area" not in arguments:
        columns["area"] *= -1  # so that it shrinks with the box, see fit_objects
    if "masks" in arguments and len(arguments["masks"]) != number:
        raise ConfigError(f"masks has {len(arguments['masks'])} masks for {number} boxes", key=key)
    masks = [_mask(mask, index, key) for index, mask in enumerate(arguments.get("masks", ()))]
    if len(labels) != number:
        raise ConfigError(f"box_labels has {len(labels)} labels for {number} boxes", key=key)
    return Annotations(
        owner=np.zeros(number, np.int64),
        boxes=boxes,
        labels=np.array(labels, np.int64),
        crowd=columns["crowd"],
        area=columns["area"],
        id=columns["id"],
        keypoints=_keypoints(arguments["keypoints"], number, keypoints, key)
        if "keypoints" in arguments
        else None,
        corners=_corners(arguments["corners"], number, key) if "corners" in arguments else None,
        polygons=[polygons for polygons, _ in masks] if "masks" in arguments else None,
        runs=[runs for _, runs in masks] if "masks" in arguments else None,
    )


def _numbers(name: str, value: Any, dtype: Any, key: str) -> npt.NDArray[Any]:
    return _as_array(value, f"{name} holds no numbers", key, dtype)


def _boxes(value: Any, box_format: str, key: str) -> Floats:
    boxes = _numbers("boxes", value, np.float64, key)
    if boxes.size == 0:
        boxes = boxes.reshape(0, 4)
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ConfigError(f"boxes has the shape {boxes.shape}, and boxes have (M, 4)", key=key)
    first, second = boxes[:, :2], boxes[:, 2:]
    if box_format == "XYWH":
        boxes = np.concatenate((first, first + second), axis=1)
    elif box_format == "CXCYWH":
        boxes = np.concatenate((first - second / 2, first + second / 2), axis=1)
    bad = ~(np.abs(boxes) < _FARTHEST).all(axis=1) | ~(boxes[:, 2:] > boxes[:, :2]).all(axis=1)
    if bad.any():
        index = int(np.flatnonzero(bad)[0])
        shown = ", ".join(f"{side:g}" for side in boxes[index])
        raise ConfigError(
            f"boxes: box {index} has no area or is not finite: {shown} as left, top, right, bottom",
            key=key,
            hint=f"Boxes are read as box_format={box_format!r}.",
        )
    return boxes.astype(np.float32)


def _corners(value: Any, number: int, key: str) -> Floats:
    corners: Floats = _numbers("corners", value, np.float32, key)
    corners = corners.reshape(0, 4, 2) if not corners.size else corners
    if corners.shape != (number, 4, 2) or not (np.abs(corners) < _FARTHEST).all():
        raise ConfigError(
            f"corners must be finite and have the shape ({number}, 4, 2), found {corners.shape}", key=key
        )
    return corners


def _keypoints(value: Any, number: int, each: int | None, key: str) -> Floats:
    points = _numbers("keypoints", value, np.float32, key)
    if number == 0 and points.size == 0:
        return np.zeros((0, each or 0, 3), np.float32)
    if points.ndim == 2 and points.shape[1] % 3 == 0:  # COCO's flat lists
        points = points.reshape(len(points), -1, 3)
    if points.shape != (number, points.shape[1] if each is None and points.ndim == 3 else each, 3):
        raise ConfigError(
            f"keypoints has the shape {points.shape}, and {number} boxes have ({number}, {each or 'K'}, 3)",
            key=key,
            hint="Every object has K keypoints of x, y and visibility, the same K in all samples.",
        )
    return points


def _mask(mask: Any, index: int, key: str) -> tuple[list[Floats], Runs]:
    """The polygons of a mask, or its run lengths; errors name its ``index``."""
    try:
        if isinstance(mask, Sequence) and not isinstance(mask, (str, bytes)):
            return [_polygon(polygon) for polygon in mask], np.zeros(0, np.uint32)
        if not isinstance(mask, Mapping):
            pixels = np.asarray(mask)
            if pixels.ndim != 2:
                raise ValueError(f"it has the shape {pixels.shape}, not (H, W)")
            return [], runs_of_mask(pixels != 0)
        counts = mask["counts"]
        if isinstance(counts, bytes):
            counts = counts.decode("ascii")
        return [], decompress_runs(counts) if isinstance(counts, str) else checked_runs(counts)
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise ConfigError(
            f"masks: mask {index} cannot be read: {error}",
            key=key,
            hint="A mask is an array (H, W), a list of polygons, or COCO's size and counts.",
        ) from error


def _polygon(value: Any) -> Floats:
    points = np.asarray(value, np.float32).reshape(-1, 2)
    if len(points) < 3 or not np.isfinite(points).all():
        raise ValueError("a polygon has three vertices or more, all of them finite")
    return points


_LONGEST_KEY = 4096  # bytes


class CheckedSample(NamedTuple):
    """A sample that has been checked, all but its image."""

    key: str  # Its name
    image: Any  # Its image, as image_file takes it
    labels: tuple[int, ...] | None  # Its labels; None where samples have none
    objects: Annotations | None  # Its objects; None where samples have none
    segmentation: Any  # Its class mask, as mask_file takes it; None where samples have none
    values: tuple[Value, ...]  # Numbers and texts, in the order of the columns
    arrays: tuple[StoredArray, ...]  # Arrays, in the order of the columns
    captions: tuple[str, ...] = ()  # Its captions; empty where samples have none


@dataclass(frozen=True)
class SampleForm:
    """The arguments that all samples have, as the first one fixes them."""

    labels: str  # Whether samples have no label, one, or a list of them
    objects: frozenset[str]  # Names of the arguments that describe objects, without those that may be missing
    segmentation: bool  # Whether samples have a mask of classes
    values: Mapping[str, ColumnType]  # Types of the columns of numbers and texts
    arrays: Mapping[str, ColumnType]  # Types of the columns of arrays

    @classmethod
    def of(cls, key: str, label: Any, arguments: Mapping[str, Any]) -> SampleForm:
        """The form of the first sample."""
        objects = frozenset(name for name in _OBJECT_FIELDS if name in arguments)
        if objects and not objects >= {"boxes", "box_labels"}:
            raise ConfigError(
                f"{', '.join(sorted(objects))} without boxes and box_labels",
                key=key,
                hint="Every object has a box and a label: give boxes=(M, 4) and box_labels=(M,).",
            )
        columns = {name: value for name, value in arguments.items() if name not in {*objects, "segmentation"}}
        types = types_of(columns, key)
        return cls(
            "no label" if label is None else "several labels" if _is_list(label) else "one label",
            objects - _OPTIONAL_FIELDS,
            "segmentation" in arguments,
            {name: column for name, column in types.items() if not column.sides},
            {name: column for name, column in types.items() if column.sides},
        )

    def check(self, key: str, label: Any, arguments: Mapping[str, Any]) -> None:
        """Raise ConfigError for a sample with other arguments."""
        names = {*self.objects, *self.values, *self.arrays}
        names |= ({"label"} if self.labels != "no label" else set()) | (
            {"segmentation"} if self.segmentation else set()
        )
        optional = _OPTIONAL_FIELDS if self.objects else frozenset()
        present = (arguments.keys() - optional) | (set() if label is None else {"label"})
        for different, verb in ((names - present, "lacks"), (present - names, "has")):
            if different:
                raise ConfigError(
                    f"the sample {verb} {', '.join(map(repr, sorted(different)))}, unlike the first sample",
                    key=key,
                    hint="All samples have the same columns: write a value for each, such as an empty list "
                    "of boxes.",
                )
        if label is not None and _is_list(label) != (self.labels == "several labels"):
            raise ConfigError(
                f"label is {label!r}, and the first sample has {self.labels}",
                key=key,
                hint="Give a list of labels in every sample, or one label in every sample.",
            )


@dataclass
class SampleChecker:
    """Checks samples and numbers their classes."""

    classes: list[str]  # Names of the classes by label; without named classes they grow as names occur
    fixed_classes: bool  # Whether the user named the classes
    box_format: str  # Format of the boxes
    keypoints: int | None = None  # Number of keypoints of an object; None as long as it is unknown
    form: SampleForm | None = None  # The form of all samples; None before the first one
    caption_column: str | None = None  # Name of the argument with captions; None if samples have none
    _label_of: dict[str, int] = field(default_factory=dict)
    _numbered: bool = False  # whether labels are plain numbers

    def __post_init__(self) -> None:
        self._label_of = {name: label for label, name in enumerate(self.classes)}

    def check(self, key: str, image: Any, label: Any, arguments: Mapping[str, Any]) -> CheckedSample:
        """Return a sample as it is stored, with an image that is not examined and other arguments by name."""
        _check_key(key)
        captions: tuple[str, ...] = ()
        if self.caption_column is not None:
            captions = self._captions(key, arguments.get(self.caption_column))
            arguments = {name: value for name, value in arguments.items() if name != self.caption_column}
        form = self.form or SampleForm.of(key, label, arguments)
        form.check(key, label, arguments)
        labels = None
        if label is not None:
            labels = tuple(self._labels(label if _is_list(label) else [label], "label", key))
            if len(labels) > len(set(labels)) and {0, 1}.issuperset(labels):
                raise ConfigError(
                    f"label must be the numbers of classes, found {label!r}, which repeats 0 or 1",
                    key=key,
                    hint="Of a number for each class, give those that are 1: np.flatnonzero(label).",
                )
        values, arrays = (
            [(name, store_value(name, arguments[name], column, key)) for name, column in columns.items()]
            for columns in (form.values, form.arrays)
        )
        checked = CheckedSample(
            key=key,
            image=image,
            labels=labels,
            objects=None,
            segmentation=arguments.get("segmentation"),
            values=tuple(value for _, value in values),
            arrays=tuple(
                StoredArray(name, array.dtype.name, array.shape, array.tobytes())
                for name, array in arrays
                if isinstance(array, np.ndarray)
            ),
            captions=captions,
        )
        if form.objects:
            box_labels = self._labels(arguments["box_labels"], "box_labels", key)
            objects = _make_objects(arguments, box_labels, self.box_format, self.keypoints, key)
            if objects.keypoints is not None and len(objects):
                self.keypoints = objects.keypoints.shape[1]
            checked = checked._replace(objects=objects)
        self.form = form
        return checked

    def _captions(self, key: str, value: Any) -> tuple[str, ...]:
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
            found = "missing" if value is None else repr(value)
            raise ConfigError(
                f"{self.caption_column} is {found}, and every sample has captions",
                key=key,
                hint=f"Give {self.caption_column}= a text or a list of texts.",
            )
        return tuple(text for text in texts if text.strip())

    def _labels(self, labels: Any, column: str, key: str) -> list[int]:
        listed = labels.tolist() if hasattr(labels, "tolist") else list(labels)
        return [
            self._named(label, column, key) if isinstance(label, str) else self._number(label, column, key)
            for label in listed
        ]

    def _number(self, label: Any, column: str, key: str) -> int:
        label = label.item() if isinstance(label, np.generic) else label
        try:
            number = operator.index(label)
        except TypeError:
            if not isinstance(label, float) or not label.is_integer():
                raise ConfigError(
                    f"{column} is {label!r}, neither the name nor the number of a class",
                    key=key,
                    hint="Numbers to predict are columns of any other name than label.",
                ) from None
            number = int(label)
        if self.classes and not self.fixed_classes:
            raise ConfigError(
                f"{column} is the number {number}, and earlier samples have names as labels",
                key=key,
                hint="Write names or numbers in all samples, or give classes=[...].",
            )
        if not 0 <= number < (len(self.classes) or 1 << 63):
            raise ConfigError(
                f"{column} is {number}, and there are {len(self.classes) or 'only'} classes, from 0",
                key=key,
                hint="Leave out samples without a class; other numbers are columns of any other name.",
            )
        self._numbered = not self.classes
        return number

    def _named(self, name: str, column: str, key: str) -> int:
        if name in self._label_of:
            return self._label_of[name]
        if self.fixed_classes:
            raise ConfigError(
                f"{column} is {name!r}, which is not among the classes",
                key=key,
                hint=f"The classes are {some_of(self.classes)}.",
            )
        if self._numbered or is_missing(name):
            raise ConfigError(
                f"{column} is {name!r}, which names no class",
                key=key,
                hint="Write names or numbers as labels in all samples, or give classes=[...].",
            )
        self._label_of[name] = len(self.classes)
        self.classes.append(name)
        return self._label_of[name]


def _is_list(label: Any) -> bool:
    return not isinstance(label, (str, bytes)) and (
        isinstance(label, Sequence) or getattr(label, "ndim", 0) > 0
    )


def _check_key(key: Any) -> None:
    if not isinstance(key, str) or not key:
        raise ConfigError(f"key must be a text that is not empty, found {key!r}")
    if not is_unicode(key):
        raise ConfigError(f"key holds half of a surrogate pair: {key!r}")
    if (size := len(key.encode())) > _LONGEST_KEY:
        raise ConfigError(f"key has {size} bytes, more than {_LONGEST_KEY}")
