"""Objects of samples from Python: boxes, labels, keypoints and masks as :class:`Annotations`."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from ..containers.image_record import StoredArray
from ..dataset.annotations import Annotations, checked_runs, decompress_runs, runs_of_mask
from .sample_values import ColumnType, store_array, store_value, types_of

Floats = npt.NDArray[np.float32]
Runs = npt.NDArray[np.uint32]

BOX_FORMATS = ("XYXY", "XYWH", "CXCYWH")
OBJECT_FIELDS = ("boxes", "box_labels", "crowd", "area", "object_id", "keypoints", "masks")
"""Arguments of a sample that describe its objects; ``boxes`` and ``box_labels`` are there in all of them."""

OPTIONAL_FIELDS = frozenset({"crowd", "area", "object_id"})
"""Those of them that have a default, and may be missing in a sample."""

_FARTHEST = 1e18  # pixels; the square, an area, still is a float32


def make_objects(
    arguments: Mapping[str, Any], labels: Sequence[int], box_format: str, keypoints: int | None, key: str
) -> Annotations:
    """Return the M objects of one sample."""
    boxes = _boxes(arguments["boxes"], box_format, key)
    number = len(boxes)
    sides = boxes[:, 2:] - boxes[:, :2]
    default = {"crowd": np.zeros(number), "area": sides[:, 0] * sides[:, 1], "object_id": np.arange(number)}
    columns = {
        name: _of_each(name, arguments.get(name, default[name]), number, dtype, key)
        for name, dtype in (("crowd", bool), ("area", np.float32), ("object_id", np.int64))
    }
    polygons, runs = _masks(arguments["masks"], number, key) if "masks" in arguments else (None, None)
    if len(labels) != number:
        raise ConfigError(f"box_labels has {len(labels)} labels for {number} boxes", key=key)
    return Annotations(
        owner=np.zeros(number, np.int64),
        boxes=boxes,
        labels=np.array(labels, np.int64),
        crowd=columns["crowd"],
        area=columns["area"],
        id=columns["object_id"],
        keypoints=_keypoints(arguments["keypoints"], number, keypoints, key)
        if "keypoints" in arguments
        else None,
        polygons=polygons,
        runs=runs,
    )


def _numbers(name: str, value: Any, dtype: Any, key: str) -> npt.NDArray[Any]:
    try:
        return np.asarray(value, dtype)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise ConfigError(f"{name} holds no numbers: {error}", key=key) from error


def _boxes(value: Any, box_format: str, key: str) -> Floats:
    boxes = _numbers("boxes", value, np.float64, key)
    if boxes.size == 0:
        boxes = boxes.reshape(0, 4)
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ConfigError(f"boxes has the shape {boxes.shape}, and boxes have (M, 4)", key=key)
    if box_format == "XYWH":
        boxes = np.concatenate((boxes[:, :2], boxes[:, :2] + boxes[:, 2:]), axis=1)
    elif box_format == "CXCYWH":
        half = boxes[:, 2:] / 2
        boxes = np.concatenate((boxes[:, :2] - half, boxes[:, :2] + half), axis=1)
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


def _of_each(name: str, value: Any, number: int, dtype: Any, key: str) -> npt.NDArray[Any]:
    values = _numbers(name, value, dtype, key)
    if values.shape != (number,):
        raise ConfigError(f"{name} has the shape {values.shape} for {number} boxes", key=key)
    return values


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


def _masks(value: Any, number: int, key: str) -> tuple[list[list[Floats]], list[Runs]]:
    """The polygons and the run lengths of each object; one of both is empty."""
    if len(value) != number:
        raise ConfigError(f"masks has {len(value)} masks for {number} boxes", key=key)
    parts = [_parts(mask, index, key) for index, mask in enumerate(value)]
    return [polygons for polygons, _ in parts], [runs for _, runs in parts]


def _parts(mask: Any, index: int, key: str) -> tuple[list[Floats], Runs]:
    """The polygons of a mask, or its run lengths; errors name its ``index``."""
    try:
        if isinstance(mask, Sequence) and not isinstance(mask, (str, bytes)):
            return [_polygon(polygon) for polygon in mask], np.zeros(0, np.uint32)
        return [], _runs(mask)
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


def _runs(mask: Any) -> Runs:
    """Run lengths of COCO's form, compressed or not, or of an array (H, W)."""
    if isinstance(mask, Mapping):
        counts = mask["counts"]
        if isinstance(counts, bytes):
            counts = counts.decode("ascii")
        return decompress_runs(counts) if isinstance(counts, str) else checked_runs(counts)
    pixels = np.asarray(mask)
    if pixels.ndim != 2:
        raise ValueError(f"it has the shape {pixels.shape}, not (H, W)")
    return runs_of_mask(pixels != 0)


def upper_box_format(name: str) -> str:
    """Return the format of boxes in upper case."""
    if name not in (*BOX_FORMATS, *map(str.lower, BOX_FORMATS)):
        raise ConfigError(f"box_format must be one of {', '.join(BOX_FORMATS)}, found {name!r}")
    return name.upper()


_LONGEST_KEY = 4096  # bytes


class CheckedSample(NamedTuple):
    """A sample that has been checked, all but its image."""

    key: str  # Its name
    image: Any  # Its image, as image_file takes it
    labels: tuple[int, ...] | None  # Its labels; None where samples have none
    objects: Annotations | None  # Its objects; None where samples have none
    segmentation: Any  # Its class mask, as mask_file takes it; None where samples have none
    values: tuple[int | float | str, ...]  # Numbers and texts, in the order of the columns
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

    @property
    def names(self) -> set[str]:
        """Names of the arguments that every sample has, besides image and key."""
        names = {"label"} if self.labels != "no label" else set()
        names |= {*self.objects, *self.values, *self.arrays}
        return names | ({"segmentation"} if self.segmentation else set())


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
        captions, arguments = self._captions(key, arguments)
        form = self.form or self._form(key, label, arguments)
        self._check_names(form, key, label, arguments)
        labels = self._labels(form, label, key)
        columns = {**form.values, **form.arrays}
        stored = {name: store_value(name, arguments[name], column, key) for name, column in columns.items()}
        objects = None
        if form.objects:
            parts = {name: arguments[name] for name in OBJECT_FIELDS if name in arguments}
            numbers = self._numbers(arguments["box_labels"], "box_labels", key)
            objects = make_objects(parts, numbers, self.box_format, self.keypoints, key)
            if objects.keypoints is not None and len(objects):
                self.keypoints = objects.keypoints.shape[1]
        self.form = form
        arrays = ((name, stored[name]) for name in form.arrays)
        return CheckedSample(
            key,
            image,
            labels,
            objects,
            arguments.get("segmentation"),
            tuple(value for name in form.values if not isinstance(value := stored[name], np.ndarray)),
            tuple(store_array(name, value) for name, value in arrays if isinstance(value, np.ndarray)),
            captions,
        )

    def _captions(self, key: str, arguments: Mapping[str, Any]) -> tuple[tuple[str, ...], Mapping[str, Any]]:
        """The captions of a sample, and its other arguments."""
        name = self.caption_column
        if name is None:
            return (), arguments
        value = arguments.get(name)
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
            raise ConfigError(
                f"{name} is {'missing' if value is None else repr(value)}, and every sample has captions",
                key=key,
                hint=f"Give {name}= a text or a list of texts.",
            )
        further = {argument: value for argument, value in arguments.items() if argument != name}
        return tuple(text for text in texts if text.strip()), further

    def _form(self, key: str, label: Any, arguments: Mapping[str, Any]) -> SampleForm:
        objects = frozenset(name for name in OBJECT_FIELDS if name in arguments)
        required = objects - OPTIONAL_FIELDS
        if objects and not objects >= {"boxes", "box_labels"}:
            raise ConfigError(
                f"{', '.join(sorted(objects))} without boxes and box_labels",
                key=key,
                hint="Every object has a box and a label: give boxes=(M, 4) and box_labels=(M,).",
            )
        columns = {name: value for name, value in arguments.items() if name not in {*objects, "segmentation"}}
        types = types_of(columns, key)
        kind = "no label" if label is None else "several labels" if _is_list(label) else "one label"
        return SampleForm(
            kind,
            required,
            "segmentation" in arguments,
            {name: column for name, column in types.items() if column.kind != "array"},
            {name: column for name, column in types.items() if column.kind == "array"},
        )

    def _check_names(self, form: SampleForm, key: str, label: Any, arguments: Mapping[str, Any]) -> None:
        optional = OPTIONAL_FIELDS if form.objects else frozenset()
        present = (arguments.keys() - optional) | (set() if label is None else {"label"})
        for names, verb in ((form.names - present, "lacks"), (present - form.names, "has")):
            if names:
                raise ConfigError(
                    f"the sample {verb} {', '.join(map(repr, sorted(names)))}, unlike the first sample",
                    key=key,
                    hint="All samples have the same columns: write a value for each, such as an empty list "
                    "of boxes.",
                )

    def _labels(self, form: SampleForm, label: Any, key: str) -> tuple[int, ...] | None:
        if label is None:
            return None
        if _is_list(label) != (form.labels == "several labels"):
            raise ConfigError(
                f"label is {label!r}, and the first sample has {form.labels}",
                key=key,
                hint="Give a list of labels in every sample, or one label in every sample.",
            )
        return tuple(self._numbers(label if _is_list(label) else [label], "label", key))

    def _numbers(self, labels: Any, column: str, key: str) -> list[int]:
        listed = labels.tolist() if hasattr(labels, "tolist") else list(labels)
        return [self._number(label, column, key) for label in listed]

    def _number(self, label: Any, column: str, key: str) -> int:
        if isinstance(label, str):
            return self._named(label, column, key)
        try:
            number = operator.index(label)
        except TypeError:
            number = int(label) if isinstance(label, float) and label.is_integer() else -1
            if number < 0:
                raise ConfigError(
                    f"{column} is {label!r}, neither the name nor the number of a class", key=key
                ) from None
        if self.classes and not self.fixed_classes:
            raise ConfigError(
                f"{column} is the number {number}, and earlier samples have names as labels",
                key=key,
                hint="Write names or numbers in all samples, or give classes=[...].",
            )
        if not -(1 << 63) <= number < 1 << 63 or (self.classes and not 0 <= number < len(self.classes)):
            raise ConfigError(
                f"{column} is {number}, and there are {len(self.classes)} classes, from 0", key=key
            )
        self._numbered = not self.classes
        return number

    def _named(self, name: str, column: str, key: str) -> int:
        if name in self._label_of:
            return self._label_of[name]
        if self.fixed_classes or self._numbered or not name:
            raise ConfigError(
                f"{column} is {name!r}, "
                + ("which is not among the classes" if self.fixed_classes else "which names no class"),
                key=key,
                hint=f"the classes are {', '.join(self.classes[:5])}"
                + (", ..." if len(self.classes) > 5 else "")
                if self.fixed_classes
                else "write names or numbers as labels in all samples, or give classes=[...]",
            )
        self._label_of[name] = len(self.classes)
        self.classes.append(name)
        return self._label_of[name]


def _is_list(label: Any) -> bool:
    return not isinstance(label, str) and (isinstance(label, Sequence) or getattr(label, "ndim", 0) > 0)


def _check_key(key: Any) -> None:
    if not isinstance(key, str) or not key:
        raise ConfigError(f"key must be a text that is not empty, found {key!r}")
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise ConfigError(f"key holds half of a surrogate pair: {key!r}") from None
    if size > _LONGEST_KEY:
        raise ConfigError(f"key has {size} bytes, more than {_LONGEST_KEY}")
