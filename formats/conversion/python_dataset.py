"""Items of datasets (PyTorch's, torchvision's, Hugging Face's, any iterable) as samples for a writer.

The module imports none of these libraries: it recognises their datasets by their attributes.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count, islice
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from stoker.arguments import some_of
from stoker.errors import ConfigError, EngineError, SourceError, StokerError
from stoker.log import EventLog

from ..dataset.columns import ARRAY_DTYPES
from ..dataset.index import free_name
from ..options import declarations, given_options
from ..sources.objects import BadObjectError
from ..sources.options import SourceOptions
from ..sources.table_objects import check_box_format, corners_of, object_fields, objects_of, warn_of_others
from ..threads import check_threads
from ..worker_processes import worker_processes
from .execution import ray_cluster
from .options import ConvertArguments, Progress, Selection
from .plan import shuffled
from .publishing import Summary
from .samples import check_samples, image_file, mask_file
from .writer import Writer

_IMAGE_NAMES = ("image", "img")
_ARGUMENTS = ("image", "label", "key", "segmentation")  # of a writer, which fields may be
_LOOKED_AT = 1_000  # rows of a dataset whose boxes tell their format
_TARGET_NAMES = {
    "boxes": "boxes",
    "labels": "box_labels",
    "masks": "masks",
    "keypoints": "keypoints",
    "area": "area",
    "iscrowd": "crowd",
}
"""Keys of the targets of torchvision's detection models, and the arguments of a writer."""

_LOG = EventLog("conversion")


@dataclass(frozen=True)
class Objects:
    """A field of Hugging Face's objects."""

    name: str
    fields: Mapping[str, str]  # Names in it, by their use
    box_format: str

    def arguments(self, value: Any) -> dict[str, Any]:
        """The arguments of a writer for the objects of an item."""
        found = list(objects_of(value, self.fields))
        try:
            boxes = [corners_of(one["box"], self.box_format) for one in found]
        except BadObjectError as error:
            raise ConfigError(
                f"field {self.name!r} holds an {': '.join(error.args)}",
                hint="Leave such objects out before, with Dataset.map.",
            ) from error
        areas = [(right - left) * (bottom - top) for left, top, right, bottom in boxes]
        defaults: dict[str, Sequence[Any]] = {
            "area": areas,
            "crowd": [False] * len(found),
            "id": range(len(found)),
        }
        given = {
            name: [
                one.get(use) if one.get(use) is not None else defaults[use][at]
                for at, one in enumerate(found)
            ]
            for use, name in _OBJECT_ARGUMENTS.items()
            if use in self.fields
        }
        return {"boxes": boxes, "box_labels": [one["category"] for one in found], **given}


_OBJECT_ARGUMENTS = {"area": "area", "crowd": "crowd", "id": "object_id"}


@dataclass(frozen=True)
class Items:
    """The items of a dataset, and what holds for all of them."""

    source: Any  # The dataset
    number: int | None  # Number of items; None where it is unknown
    classes: tuple[str, ...] | None = None  # Names of the classes; None where the dataset does not name them
    # Argument of a writer for each field of an item; None leaves a field out
    fields: Mapping[str, str | None] = field(default_factory=dict)
    # NumPy's names of the types of numbers in fields, where the dataset states them
    dtypes: Mapping[str, str] = field(default_factory=dict)
    by_index: bool = False  # Whether items are read by their indices
    may_lack_label: bool = False  # Whether None is no label, as in Hugging Face's datasets, and -1 of classes
    objects: Objects | None = None  # The field of the objects

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
        if self.objects is not None:
            names.pop(self.objects.name)
        sample = {name: self._value(item, key) for key, name in names.items() if name is not None}
        if "image" not in sample:
            raise ConfigError(
                f"no field of an item is its image: {some_of(map(repr, item))}",
                hint="Name the field: fields={'picture': 'image'}; a field with None is left out.",
            )
        if len(sample) < len([name for name in names.values() if name is not None]):
            raise ConfigError(
                f"two fields of an item have one name: {names}", hint="Choose with fields={...}."
            )
        if self.objects is not None:
            sample |= self.objects.arguments(item[self.objects.name])
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
            hint="Give make=, a function that returns the arguments of Writer.write as a dict.",
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


def find_items(dataset: Any, options: SourceOptions) -> Items:
    """Return the items of a dataset; those of an unchanged ImageFolder of torchvision are its files."""
    # ``fields`` of the options has arguments of a writer by the names of fields; None leaves a field out.
    arguments = dict(options.fields or {})
    check_samples(dataset)
    by_index = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    classes = _class_names(dataset)
    if (files := _image_files(dataset)) is not None:
        return Items(files, len(files), classes, arguments, by_index=True)
    dtypes: dict[str, str] = {}
    may_lack_label = False
    objects = None
    if isinstance(features := getattr(dataset, "features", None), Mapping):
        objects = _find_objects(dataset, arguments, options.box_format)
        dtypes = {name: dtype for name, feature in features.items() if (dtype := _dtype(feature))}
        dataset, classes, arguments = _of_hugging_face(dataset, arguments, objects)
        may_lack_label = objects is None
    number = len(dataset) if hasattr(dataset, "__len__") else None
    return Items(dataset, number, classes, arguments, dtypes, by_index, may_lack_label, objects)


def _inner(feature: Any) -> Any:
    """The feature of the values of a list, or the feature itself."""
    return feature[0] if isinstance(feature, list) and feature else getattr(feature, "feature", feature)


def _find_objects(
    dataset: Any, arguments: Mapping[str, str | None], box_format: str | None
) -> Objects | None:
    """The field of a dataset of Hugging Face that holds objects, which the caller has not named."""
    for name, feature in dataset.features.items():
        inner = _inner(feature)
        fields = object_fields(inner) if isinstance(inner, Mapping) and name not in arguments else {}
        if fields:
            rows: Sequence[Any] = ()
            if hasattr(dataset, "select_columns") and hasattr(dataset, "__len__"):
                there = [one for one in (name, "height", "width") if one in dataset.features]
                rows = [*dataset.select_columns(there).with_format(None).take(_LOOKED_AT)]
            boxes = [(one["box"], row) for row in rows for one in objects_of(row[name], fields)]
            sizes = [(row.get("height"), row.get("width")) for _, row in boxes]
            found = check_box_format([box for box, _ in boxes], sizes, box_format, f"field {name!r}")
            warn_of_others(inner, fields, f"field {name!r}")
            return Objects(name, fields, found)
    return None


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
    dataset: Any, arguments: dict[str, str | None], objects: Objects | None
) -> tuple[Any, tuple[str, ...] | None, dict[str, str | None]]:
    """The dataset with files in place of decoded images, the names of its classes, and its fields."""
    if hasattr(dataset, "with_format"):
        if (getattr(dataset, "format", None) or {}).get(
            "type"
        ) == "custom":  # as examples of training have it
            _LOG.warning("transform", "the transform of the dataset (set_transform) is not applied")
        dataset = dataset.with_format(None)
    features = dataset.features
    kinds = {name: type(feature).__name__ for name, feature in features.items()}
    renamed = {name: free_name(name) for name in kinds if name not in _ARGUMENTS}  # as of tables
    fields = {name: new for name, new in renamed.items() if new != name} | arguments
    for name in (name for name, kind in kinds.items() if kind == "Image"):
        dataset = dataset.cast_column(name, type(features[name])(decode=False))
        if "image" not in {*fields.values(), *(kinds.keys() - fields.keys())}:
            fields[name] = "image"
    if objects is not None:
        category = _inner(_inner(features[objects.name])[objects.fields["category"]])
        names = getattr(category, "names", None)
        return dataset, tuple(names) if names else None, fields
    of_classes = [name for name, kind in kinds.items() if kind == "ClassLabel"]
    chosen = next((name for name, argument in fields.items() if argument == "label"), None)
    if chosen is None and "label" in kinds and "label" not in fields:
        chosen = "label"
    if chosen is None and (free := [name for name in of_classes if name not in fields]):
        if len(free) > 1:
            raise ConfigError(
                f"the dataset has several labels: {some_of(free)}",
                hint=f"Choose one: fields={{{free[0]!r}: 'label'}}; others are columns of numbers.",
            )
        chosen = free[0]
        fields[chosen] = "label"
    names = getattr(_inner(features[chosen]), "names", None) if chosen else None
    return dataset, tuple(names) if names else None, fields


Samples = list[dict[str, Any] | None]
Start = Callable[[list[Any], int], Callable[[], Samples | StokerError]]

_CHUNK = 8  # inputs in one task
_AHEAD = 2  # tasks for each worker


def made_samples(
    make: Callable[[Any], Any], inputs: Iterator[Any], items: Items, engine: str, workers: int
) -> Generator[dict[str, Any] | None]:
    """Yield the sample of each input; None for one that ``make`` leaves out."""
    with _workers(partial(_make_chunk, make, items), engine, workers) as start:
        window: deque[Callable[[], Samples | StokerError]] = deque()
        done = 0
        while chunk := list(islice(inputs, _CHUNK)):
            window.append(start(chunk, done))
            done += len(chunk)
            if len(window) > _AHEAD * workers:
                yield from _checked(window.popleft()())
        while window:
            yield from _checked(window.popleft()())


def _checked(result: Samples | StokerError) -> Samples:
    if isinstance(result, StokerError):
        raise result
    return result


def _make_chunk(
    make: Callable[[Any], Any], items: Items, inputs: list[Any], first: int
) -> Samples | StokerError:
    """Make some samples on a worker. Stoker's errors are returned, because Ray would wrap raised ones."""
    try:
        return [_make_sample(make, items, value, first + i) for i, value in enumerate(inputs)]
    except StokerError as error:
        return error


def _make_sample(make: Callable[[Any], Any], items: Items, value: Any, number: int) -> dict[str, Any] | None:
    try:
        item = make(value)
    except Exception as error:
        raise SourceError(
            f"make raised {type(error).__name__} for input {number}: {error}",
            hint="Return None for an input to leave it out.",
        ) from error
    if item is None:
        return None
    sample = items.sample(item)
    key = str(sample.get("key") or number)
    # Encoded here: pixels take longer to send than files, and the writing process has its own work.
    sample["image"] = image_file(sample["image"], key)
    if sample.get("segmentation") is not None:
        sample["segmentation"] = mask_file(sample["segmentation"], key)
    return sample


@contextmanager
def _workers(run: Callable[..., Samples | StokerError], engine: str, number: int) -> Generator[Start]:
    """Yield a function that starts a call of ``run`` on a worker, and returns how to wait for its result."""
    if engine == "local":
        texts = {"work": "makes samples", "sent": "make, or an input,", "fewer": "num_threads=1"}
        with worker_processes(run, number, **texts) as submit:
            yield lambda inputs, first: submit(inputs, first).result
        return
    with ray_cluster(number) as ray:
        shared = ray.put(run)
        task = ray.remote(num_cpus=1)(_run_shared)
        running: set[Any] = set()

        def start(inputs: list[Any], first: int) -> Callable[[], Samples | StokerError]:
            reference = task.remote(shared, inputs, first)
            running.add(reference)
            return partial(collect, reference)

        def collect(reference: Any) -> Samples | StokerError:
            try:
                result: Samples | StokerError = ray.get(reference)
            except ray.exceptions.RayError as error:
                raise EngineError(f"Ray could not make samples: {error}") from error
            running.discard(reference)
            return result

        try:
            yield start
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def _run_shared(
    run: Callable[[list[Any], int], Samples | StokerError], inputs: list[Any], first: int
) -> Samples | StokerError:
    return run(inputs, first)


_TICK = 0.1  # seconds between two reports of progress


def convert_items(
    dataset: Any, target: str | os.PathLike[str], arguments: ConvertArguments, progress: Progress | None
) -> Summary:
    """Convert the items of a dataset in Python, or the samples that ``make`` returns for them."""
    _check_no_file_options(arguments)
    make, engine = arguments.source_options.make, arguments.engine
    if engine == "ray" and make is None:
        raise ConfigError(
            "engine='ray' needs a function that makes the samples, as a dataset is read by one process",
            hint="Give make=function, which is called with each item on the cluster.",
        )
    items = find_items(dataset, arguments.source_options)
    order = None
    if arguments.seed is not None:
        if items.number is None or not items.by_index:
            raise ConfigError(
                "a seed shuffles items by their indices, and this dataset has none",
                hint="Shuffle it before, or leave seed out: ImageLoader shuffles in any case.",
            )
        order = shuffled(np.arange(items.number), arguments.seed)
    inputs = items.each(order)
    workers = check_threads(arguments.num_threads)
    samples: Generator[dict[str, Any] | None] = (items.sample(item) for item in inputs)
    if make is not None:
        samples = made_samples(make, inputs, items, engine, workers)
    names = ("container", "resize", "encoding", "quality", "shard_size", "strict", "overwrite", "num_threads")
    with closing(samples):
        first = list(islice(samples, 1))  # processes start before the threads of a writer do
        with Writer(
            target,
            classes=items.classes if arguments.classes is None and make is None else arguments.classes,
            ignore_index=arguments.source_options.ignore_index,
            captions=arguments.captions,
            storage=arguments.storage,
            **{name: getattr(arguments, name) for name in names},
        ) as writer:
            named: Iterator[dict[str, Any] | None] = chain(first, samples)
            # Names of which the dataset has none are new names of its numbers.
            own, given = items.classes or (), set(arguments.classes or ())
            if make is None and not given.isdisjoint(own) and not _changes_labels(dataset):
                named = (_with_names(sample, own) for sample in named)
            numbered = zip(count() if order is None else order.tolist(), named, strict=False)
            _write(writer, numbered, items, progress)
            return writer.close()


def _changes_labels(dataset: Any) -> bool:
    while type(dataset).__name__ == "Subset" and hasattr(dataset, "dataset"):
        dataset = dataset.dataset
    return any(getattr(dataset, name, None) for name in ("target_transform", "transforms"))


def _with_names(sample: dict[str, Any] | None, classes: tuple[str, ...]) -> dict[str, Any] | None:
    """A sample with the names of its labels, whose numbers the dataset knows, for classes that differ."""

    def name(label: Any) -> Any:
        if isinstance(label, (list, tuple, np.ndarray)):
            return [name(one) for one in label]
        is_number = isinstance(label, (int, np.integer)) and 0 <= label < len(classes)
        return classes[label] if is_number else label

    parts = ("label", "box_labels")
    return sample and {part: name(value) if part in parts else value for part, value in sample.items()}


def _check_no_file_options(arguments: ConvertArguments) -> None:
    groups = (arguments, arguments.source_options, arguments.selection, arguments.storage)
    given = {name for group in groups for name in given_options(group)}
    of_files = [item.name for table in (SourceOptions, Selection) for item, _ in declarations(table)]
    for name in ("val", "test", "shards", *of_files):
        if name in given and name not in ("make", "fields", "ignore_index", "box_format"):
            raise ConfigError(
                f"{name} is for sources of files, and the source is a dataset in Python",
                hint="Leave it out; Dataset.split divides a dataset that is written."
                if name in ("val", "test")
                else "Leave it out; fields={'breed': 'label', 'age': None} names and omits fields, and make "
                "changes items.",
            )


def _lacks_label(sample: dict[str, Any], items: Items) -> bool:
    label = sample.get("label", 0)
    return label is None or (items.classes is not None and type(label) is int and label == -1)


def _write(
    writer: Writer,
    samples: Iterable[tuple[int, dict[str, Any] | None]],
    items: Items,
    progress: Progress | None,
) -> None:
    """Write numbered samples, None for one that is left out, and report the progress."""
    shown, done, total = 0.0, 0, items.number
    for number, sample in samples:
        key = f"{number:08d}"
        if sample is None:
            writer.skip(key, "left out by make")
        elif items.may_lack_label and _lacks_label(sample, items):
            writer.skip(key, "row without a label")
        else:
            writer.write(**{"key": key, **sample})
        done += 1
        if progress is not None and time.monotonic() - shown > _TICK:
            shown = time.monotonic()
            progress(done, total or done, 0, "converting")
    if progress is not None:
        progress(done, total or done, 0, "publishing")
