"""Items of datasets (PyTorch's, torchvision's, Hugging Face's, any iterable) as samples for a writer.

The module imports none of these libraries: it recognises their datasets by their attributes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from stoker.errors import ConfigError

from ...dataset.columns import ARRAY_DTYPES

_IMAGE_NAMES = ("image", "img")
_TARGET_NAMES = {
    "boxes": "boxes",
    "labels": "box_labels",
    "masks": "masks",
    "keypoints": "keypoints",
    "area": "area",
    "iscrowd": "crowd",
}
"""Keys of the targets of torchvision's detection models, and the arguments of a writer."""


@dataclass(frozen=True)
class Items:
    """The items of a dataset, and the facts that hold for all of them."""

    source: Any  # The dataset
    number: int | None  # Number of items; None where it is unknown
    classes: tuple[str, ...] | None = None  # Names of the classes; None where the dataset does not name them
    # Argument of a writer for each field of an item; None leaves a field out
    fields: Mapping[str, str | None] = field(default_factory=dict)
    # NumPy's names of the types of numbers in fields, where the dataset states them
    dtypes: Mapping[str, str] = field(default_factory=dict)
    by_index: bool = False  # Whether items are read by their indices

    def each(self, order: npt.NDArray[np.int64] | None = None) -> Iterator[Any]:
        """Yield the items, or those at the indices ``order``, (M,) int64."""
        if self.by_index:
            indices = range(self.number or 0) if order is None else order.tolist()
            yield from (self.source[i] for i in indices)
        else:
            yield from self.source

    def sample(self, item: Any) -> dict[str, Any]:
        """Return the arguments of a writer for an item."""
        if isinstance(item, Mapping):
            return self._named(item)
        if isinstance(item, tuple) and hasattr(item, "_asdict"):
            return self._named(item._asdict())
        if isinstance(item, (tuple, list)):
            return _of_pair(item)
        return {"image": item} | ({"key": os.fspath(item)} if isinstance(item, (str, os.PathLike)) else {})

    def _named(self, item: Mapping[str, Any]) -> dict[str, Any]:
        names = {name: self.fields.get(name, name) for name in item}
        if "image" not in names.values():
            names |= {name: "image" for name in _IMAGE_NAMES if name in names}
        sample = {name: self._value(item, key) for key, name in names.items() if name is not None}
        if "image" not in sample:
            raise ConfigError(
                f"no field of an item is its image: {', '.join(map(repr, item))}",
                hint="name the field: fields={'picture': 'image'}; a field with None is left out",
            )
        if len(sample) < len([name for name in names.values() if name is not None]):
            raise ConfigError(
                f"two fields of an item have one name: {names}", hint="choose with fields={...}"
            )
        image = sample["image"]
        if isinstance(image, Mapping) and {"bytes", "path"} & image.keys():  # of Hugging Face, not decoded
            sample["image"] = image["path"] if image.get("bytes") is None else image["bytes"]
        return sample

    def _value(self, item: Mapping[str, Any], key: str) -> Any:
        value = _plain(item[key])
        return np.asarray(value, self.dtypes[key])[()] if key in self.dtypes and value is not None else value


def _dtype(feature: Any) -> str:
    """NumPy's name of the numbers in a feature of Hugging Face, in a list or alone; empty for another one."""
    if type(feature).__name__ == "ClassLabel":
        return ""
    inner = getattr(feature, "feature", feature)
    dtype = str(getattr(inner, "dtype", ""))
    return dtype if dtype in ARRAY_DTYPES else ""


def _of_pair(item: Sequence[Any]) -> dict[str, Any]:
    """Arguments of an image and its target: a label or labels, a mask of classes, or objects."""
    if not 1 <= len(item) <= 2:
        raise ConfigError(
            f"an item of the dataset is a {type(item).__name__} of {len(item)} values",
            hint="give make=, a function that returns the arguments of Writer.write as a dict",
        )
    image, target = item if len(item) == 2 else (item[0], None)
    if isinstance(target, Mapping):
        arguments = {name: target[key] for key, name in _TARGET_NAMES.items() if key in target}
        return {"image": image, **arguments}
    if isinstance(target, Image.Image) or getattr(target, "ndim", 0) == 2:
        return {"image": image, "segmentation": target}
    return {"image": image, **({} if target is None else {"label": _plain(target)})}


def _plain(value: Any) -> Any:
    """A value without the wrapping of a framework: tensors of one number become numbers."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value


def find_items(dataset: Any, fields: Mapping[str, str | None] | None) -> Items:
    """Return the items of a dataset; those of an unchanged ImageFolder of torchvision are its files.

    ``fields`` has arguments of a writer by the names of fields; None leaves a field out.
    """
    arguments = dict(fields or {})
    if isinstance(dataset, Mapping):
        names = ", ".join(map(repr, dataset))
        raise ConfigError(
            f"the source is a {type(dataset).__name__} of {names}, no dataset",
            hint="convert each dataset to a folder of its own: convert(datasets['train'], 'shards/train')",
        )
    by_index = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    if isinstance(dataset, (bytes, bytearray)) or not (by_index or isinstance(dataset, Iterable)):
        raise ConfigError(
            f"the source is a {type(dataset).__name__}, which has neither a length and items nor an iterator",
            hint="give a path, a dataset, or an iterable",
        )
    classes = _class_names(dataset)
    if (files := _image_files(dataset)) is not None:
        return Items(files, len(files), classes, arguments, by_index=True)
    dtypes: dict[str, str] = {}
    if isinstance(features := getattr(dataset, "features", None), Mapping):
        dtypes = {name: dtype for name, feature in features.items() if (dtype := _dtype(feature))}
        dataset, classes, arguments = _of_hugging_face(dataset, arguments)
    number = len(dataset) if hasattr(dataset, "__len__") else None
    return Items(dataset, number, classes, arguments, dtypes, by_index)


def _image_files(dataset: Any) -> list[dict[str, Any]] | None:
    """Paths, labels and keys of a torchvision ImageFolder that changes nothing, or of a subset of one."""
    if type(dataset).__name__ == "Subset" and hasattr(dataset, "indices"):
        files = _image_files(dataset.dataset)
        return None if files is None else [files[i] for i in dataset.indices]
    changed = [getattr(dataset, name, None) for name in ("transform", "target_transform", "transforms")]
    loader = getattr(getattr(dataset, "loader", None), "__name__", "")
    samples = getattr(dataset, "samples", None)
    if loader != "default_loader" or not isinstance(samples, list) or any(changed):
        return None
    root = os.fspath(getattr(dataset, "root", "."))
    return [
        {"image": path, "label": label, "key": os.path.relpath(path, root).replace(os.sep, "/")}
        for path, label in samples
    ]


def _class_names(dataset: Any) -> tuple[str, ...] | None:
    while type(dataset).__name__ == "Subset" and hasattr(dataset, "dataset"):
        dataset = dataset.dataset
    names = getattr(dataset, "classes", None)
    if not isinstance(names, Sequence) or isinstance(names, str) or not names:
        return None
    is_unique = all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
    return tuple(names) if is_unique else None


def _of_hugging_face(
    dataset: Any, arguments: dict[str, str | None]
) -> tuple[Any, tuple[str, ...] | None, dict[str, str | None]]:
    """The dataset with files in place of decoded images, the names of its classes, and its fields."""
    features = dataset.features
    kinds = {name: type(feature).__name__ for name, feature in features.items()}
    fields = dict(arguments)
    for name in (name for name, kind in kinds.items() if kind == "Image"):
        dataset = dataset.cast_column(name, type(features[name])(decode=False))
        if "image" not in {*fields.values(), *(kinds.keys() - fields.keys())}:
            fields[name] = "image"
    of_classes = [name for name, kind in kinds.items() if kind == "ClassLabel"]
    chosen = next((name for name, argument in fields.items() if argument == "label"), None)
    if chosen is None and "label" in kinds and "label" not in fields:
        chosen = "label"
    if chosen is None and (free := [name for name in of_classes if name not in fields]):
        if len(free) > 1:
            raise ConfigError(
                f"the dataset has several labels: {', '.join(free)}",
                hint=f"choose one: fields={{{free[0]!r}: 'label'}}; others are columns of numbers",
            )
        chosen = free[0]
        fields[chosen] = "label"
    classes = tuple(features[chosen].names) if chosen in of_classes else None
    return dataset, classes, fields
