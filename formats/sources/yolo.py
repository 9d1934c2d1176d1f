"""Names of classes for YOLO's text files, from ``data.yaml`` or ``classes.txt``."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import yaml

from stoker.errors import SourceError
from stoker.urls import is_url

from ..dataset.annotations import AnnotationInfo
from ..files import printable_name
from .file_list import find_files
from .listing import ListedFiles, Listing, Skip, no_images_error
from .objects import MOST_KEYPOINTS, BadObjectError, ObjectTable, checked_box, numbers
from .source import Source, SourceFolder, open_folder, split_at_folder

YAML_NAMES = ("data.yaml", "dataset.yaml", "data.yml")
_TEXT = "classes.txt"
_LONGEST = 1 << 20  # characters of a YAML file: names of ten thousand classes have fewer
_DEEPEST = 16  # lists and mappings in each other; PyYAML crashes at some ten thousand
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # several times as fast, where PyYAML has it


@dataclass(frozen=True)
class YoloNames:
    """Classes and keypoints of a YOLO dataset."""

    classes: tuple[str, ...] = ()  # Names by number; empty if the dataset has none
    keypoints: int = 0  # K, the keypoints of an object
    numbers: int = 0  # Numbers that a line has for the keypoints: 2K or 3K
    # (K,) the keypoint that each becomes in a mirrored image, ``flip_idx``; empty if there is none
    swap: tuple[int, ...] = ()


def read_names(folders: Sequence[SourceFolder]) -> YoloNames:
    """Read the names from the first of the folders that has a file of names."""
    for folder in folders:
        for name in (*YAML_NAMES, _TEXT):
            if (lines := folder.lines(name)) is not None:
                if name != _TEXT:
                    return parse_names(f"{folder.root}/{name}", lines)
                return YoloNames(tuple(line.strip() for line in lines if line.strip()))
    return YoloNames()


def parse_names(path: str, lines: list[str]) -> YoloNames:
    """The names in the lines of a ``data.yaml``; SourceError if they have another form than Ultralytics'."""
    members = load_yaml(path, "\n".join(lines))
    classes = yaml_strings(path, "names", members.get("names"))
    shape = yaml_strings(path, "kpt_shape", members.get("kpt_shape"))
    swap = yaml_strings(path, "flip_idx", members.get("flip_idx"))
    try:
        count, each = map(int, shape) if shape else (0, 2)
        flips = tuple(map(int, swap))
        declared = int(members.get("nc", len(classes)))
    except (TypeError, ValueError):
        fail_yaml(path, "nc must be an integer, kpt_shape two integers, and flip_idx integers")
    if count > MOST_KEYPOINTS:
        fail_yaml(path, f"kpt_shape has {count} keypoints, more than {MOST_KEYPOINTS}")
    if classes and declared != len(classes):
        fail_yaml(path, f"nc is {declared}, and there are {len(classes)} names")
    if count < 0 or each not in (2, 3) or (flips and sorted(flips) != list(range(count))):
        fail_yaml(path, "kpt_shape must be [K, 2] or [K, 3], and flip_idx name each of K keypoints once")
    return YoloNames(classes, count, count * each, flips)


def load_yaml(path: str, text: str) -> dict[str, Any]:
    """The mapping that a YAML file holds, all its scalars as text."""
    if len(text) > _LONGEST:
        fail_yaml(path, f"it has more than {_LONGEST} characters")
    try:
        if _nests_deeper(text, _DEEPEST):
            fail_yaml(path, f"it nests more than {_DEEPEST} lists or mappings")
        # BaseLoader makes only text, lists and mappings. SafeLoader would read a class named "no" as False.
        document = yaml.load(text, Loader=_LOADER)  # noqa: S506 - it is safer than SafeLoader
    except (yaml.YAMLError, RecursionError) as error:
        fail_yaml(path, f"it is no YAML: {' '.join(str(error).split())}")
    if document is not None and not isinstance(document, dict):
        fail_yaml(path, "it holds no mapping")
    return document or {}


def _nests_deeper(text: str, most: int) -> bool:
    """Whether YAML nests more lists and mappings than ``most``; it is read up to there, without recursion."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > most:
            return True
    return False


def yaml_strings(path: str, name: str, value: Any) -> tuple[str, ...]:
    """The items of a list, which may be written as a mapping of the numbers from 0; empty without a value."""
    if not value:
        return ()
    if isinstance(value, dict):
        if list(value) != [str(number) for number in range(len(value))]:
            fail_yaml(path, f"the numbers of {name} must count from 0")
        value = list(value.values())
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        # Lists that name one list often are a few bytes in YAML, and gigabytes as text.
        found = repr(value[:60]) if isinstance(value, str) else "one of other values"
        fail_yaml(path, f"{name} must be a list of names or numbers, not {found}")
    return tuple(value)


def fail_yaml(path: str, message: str) -> NoReturn:
    """Raise SourceError for a YAML file."""
    raise SourceError(
        f"the file cannot be read: {message}",
        path=path,
        hint="correct it, or remove it and write the names of classes into classes.txt, one on each line",
    )


_SPLITS = {"train": ("train",), "val": ("val", "validation", "valid"), "test": ("test",)}


class SplitImages(NamedTuple):
    """The images of all splits of a dataset."""

    root: SourceFolder  # The folder that holds images and labels; keys are relative to it
    files: ListedFiles  # The images, split by split
    split: npt.NDArray[np.int8]  # (N,) int8, the number of each image's split
    folders: tuple[str, ...]  # The folders of images that the file names, relative to the root
    skipped: list[Skip]  # Files that were left out


@dataclass(frozen=True)
class YoloData:
    """The content of a ``data.yaml``."""

    path: Path  # The file
    names: YoloNames  # Classes and keypoints
    base: Path  # The folder of the dataset, resolved
    # Paths of folders and lists by split, "train", "val" or "test", as the file has them
    splits: dict[str, tuple[str, ...]]

    def images(self, *, follow_links: bool) -> SplitImages:
        """Find the images of all splits."""
        paths = {
            split: [self._resolve(split, entry) for entry in self.splits[split]] for split in self.splits
        }
        folders = {split: [path for path in paths[split] if path.is_dir()] for split in paths}
        listed = {
            split: [
                image for path in paths[split] if path not in folders[split] for image in self._listed(path)
            ]
            for split in paths
        }
        root = self._root([*chain(*folders.values()), *{path.parent for path in chain(*listed.values())}])
        opened = open_folder(root, follow_links=follow_links)
        parts, skipped = [], []
        for split in self.splits:
            keys = [os.path.relpath(path, root) for path in listed[split]]
            for folder in folders[split]:
                start = os.path.relpath(folder, root)
                found, lost = open_folder(folder, follow_links=follow_links).images()
                keys += [os.path.normpath(f"{start}/{key}") for key in found.names()]
                skipped += [Skip(os.path.normpath(f"{start}/{skip.key}"), *skip[1:]) for skip in lost]
            named, lost = find_files(opened.root, keys, follow_links=follow_links)
            skipped += lost
            parts.append(named.files)
            if not len(named.files):
                raise no_images_error(f"{split} holds no image", str(self.path), skipped)
        files = ListedFiles(
            opened.root,
            pa.concat_arrays([part.keys for part in parts]),
            np.concatenate([part.sizes for part in parts]),
            np.concatenate([part.modified for part in parts]),
            follow_links=follow_links,
        )
        numbers = np.repeat(np.arange(len(parts), dtype=np.int8), list(map(len, parts)))
        starts = {os.path.relpath(folder, root): None for folder in chain(*folders.values())}
        return SplitImages(opened, files, numbers, tuple(starts), skipped)

    def _root(self, folders: list[Path]) -> str:
        """The folder that holds the dataset, these folders of images, and their labels."""
        root = os.path.commonpath([self.base, *folders])
        parts = split_at_folder(root, "images")  # the labels lie beside the images
        return root if parts is None else parts[0]

    def _resolve(self, split: str, entry: str) -> Path:
        """The folder or list that an entry names, its absolute path."""
        for base in (self.base, self.path.parent):
            for path in (base / entry, base / entry.removeprefix("../")):
                if _is_there(path):
                    return path.resolve()
        raise SourceError(
            f"{split} names {entry[:200]!r}, which is not there",
            path=self.path,
            hint=f"correct the path in the file, or remove the line; paths start at {self.base}",
        )

    def _listed(self, path: Path) -> Iterator[Path]:
        """Absolute paths of the images that a list names."""
        lines = [line.strip() for line in open_folder(path.parent).lines(path.name) or () if line.strip()]
        bases = (path.parent, self.base)
        base = next((one for one in bases if lines and _is_there(one / lines[0])), path.parent)
        return (Path(os.path.normpath(base / line)) for line in lines)


def is_data_file(path: str | os.PathLike[str]) -> bool:
    """Whether a path is that of a ``data.yaml``, by its suffix; the file may have any name."""
    return os.fspath(path).lower().endswith((".yaml", ".yml"))


def read_data_file(path: str | os.PathLike[str]) -> YoloData:
    """Read a ``data.yaml`` on a disk."""
    file = Path(path).absolute()
    name = str(file)
    lines = open_folder(file.parent).lines(file.name)
    if lines is None:
        raise SourceError("there is no such file", path=name, hint="name the data.yaml of a YOLO dataset")
    members = load_yaml(name, "\n".join(lines))
    splits = {}
    for split, keys in _SPLITS.items():
        entries = next((members[key] for key in keys if members.get(key)), None)
        if entries is not None:
            splits[split] = yaml_strings(name, split, [entries] if isinstance(entries, str) else entries)
    names = parse_names(name, lines)
    if not splits:
        fail_yaml(name, "it names no images: train, val or test")
    if not names.classes:
        fail_yaml(name, "it has no names of classes")
    base = members.get("path") or ""
    if not isinstance(base, str) or any("\0" in one for one in (base, *sum(splits.values(), ()))):
        fail_yaml(name, "path, train, val and test must be paths")
    root = file.parent / base
    return YoloData(file, names, (root if _is_there(root) else file.parent).resolve(), splits)


def _is_there(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110 - Path.exists raises an error for a name that is too long


_IMAGES, _LABELS = "images", "labels"
_NOT_LABELS = frozenset({"classes.txt"})
_MOST_CLASSES = 1_000_000  # without names: then the highest label gives their number


def is_yolo(source: Source) -> bool:
    """Whether a source is a folder with images and labels, such a folder of images, or a ``data.yaml``."""
    if is_data_file(source.path):
        return True
    folders = _folders(source)
    return folders is not None and bool(_label_files(folders[1]))


def _folders(source: Source) -> tuple[SourceFolder, SourceFolder] | None:
    """The folder of the images and that of the labels; None where the source has none."""
    images, labels = source.folder.child(_IMAGES), source.folder.child(_LABELS)
    if not (images.exists() and labels.exists()):
        parts = split_at_folder(source.path, _IMAGES)
        if parts is None:
            return None
        images, labels = source.folder, source.open("/".join([parts[0], _LABELS, parts[1]]).rstrip("/"))
    return (images, labels) if images.exists() and labels.exists() else None


def _label_files(labels: SourceFolder) -> list[str]:
    return [name for name in labels.names(".txt") if name.rpartition("/")[2] not in _NOT_LABELS]


def list_yolo(source: Source) -> Listing:
    """List the images of a YOLO folder, with their objects."""
    if is_data_file(source.path):
        return _list_splits(source)
    folders = _folders(source)
    if folders is None:
        raise SourceError(
            "the source is no YOLO: it has no folders of images and labels",
            path=source.path,
            hint="its files must be images/.../x.jpg and labels/.../x.txt",
        )
    images, labels = folders
    files, skipped = images.images()
    if not len(files):
        raise no_images_error("the folder holds no image", images.root, skipped)
    names = read_names([source.folder, images, labels, images.parent, images.parent.parent])
    reader = _Reader(names, ObjectTable(keypoints=names.keypoints), skipped)
    reader.read_all(files, labels, list(map(_labels_of, files.names())))
    reader.find_strays(_label_files(labels), set(map(_labels_of, files.names())))
    return reader.listing(files)


def _list_splits(source: Source) -> Listing:
    """List the images of all splits of a ``data.yaml``."""
    if is_url(source.path):
        raise SourceError(
            "a data.yaml is read from a disk, and this is a URL",
            path=source.path,
            hint="convert each split by itself, and name its folder, such as train/images",
        )
    data = read_data_file(source.path)
    images = data.images(follow_links=source.options.follow_links)
    names = list(map(_labels_beside, images.files.names()))
    reader = _Reader(data.names, ObjectTable(keypoints=data.names.keypoints), images.skipped)
    reader.read_all(images.files, images.root, names)
    expected = set(names)
    for folder in images.folders:
        labels = _labels_beside(f"{folder}/x").rpartition("/")[0]
        if labels != folder:  # beside images there are other texts, too
            label_files = (f"{labels}/{name}" for name in _label_files(images.root.child(labels)))
            reader.find_strays(label_files, expected)
    return replace(reader.listing(images.files), split=images.split, splits=tuple(data.splits))


def _labels_of(key: str) -> str:
    return f"{os.path.splitext(key)[0]}.txt"  # noqa: PTH122 - a key is no path


def _labels_beside(key: str) -> str:
    """The file of labels of an image, with its last folder ``images`` replaced; beside it without one."""
    before, found, behind = f"/{_labels_of(key)}".rpartition(f"/{_IMAGES}/")
    return f"{before}/{_LABELS}/{behind}".lstrip("/") if found else behind.lstrip("/")


@dataclass
class _Reader:
    """Collects the labels of all images, and the highest label."""

    names: YoloNames
    table: ObjectTable
    skipped: list[Skip]
    highest: int = -1

    def read_all(self, files: ListedFiles, labels: SourceFolder, names: list[str]) -> None:
        """Read the labels of all images, which are the files ``names`` in the folder ``labels``."""
        contents = zip(files.names(), names, labels.read(names), strict=True)
        for number, (key, name, content) in enumerate(contents):
            self._read(number, key, name, content)

    def _read(self, number: int, key: str, name: str, content: bytes | OSError | ValueError) -> None:
        """Read the labels of one image, if it has any."""
        try:
            if not isinstance(content, bytes):
                raise content
            text = content.decode("utf-8-sig")
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            self.skipped.append(Skip(key, "labels that cannot be read", f"{name}: {error}"))
            return
        for index, line in enumerate(text.splitlines()):
            if not line.strip():
                continue
            try:
                self._object(number, index, line)
            except BadObjectError as error:
                reason, detail = error.args
                self.skipped.append(Skip(key, reason, f"line {index + 1} of {name}: {detail}"))

    def _object(self, image: int, index: int, line: str) -> None:
        try:
            label, *values = [float(word) for word in line.split()]
        except ValueError as error:
            raise BadObjectError("line that is no object", str(error)) from error
        if not (label.is_integer() and 0 <= label < (len(self.names.classes) or _MOST_CLASSES)):
            raise BadObjectError("object of an unknown category", f"{label:g}")
        self.highest = max(self.highest, int(label))
        if len(values) == 4 or (self.names.keypoints and len(values) == 4 + self.names.numbers):
            x, y, width, height = values[:4]
            box = checked_box(x - width / 2, y - height / 2, x + width / 2, y + height / 2)
            self.table.add(image, box, int(label), index, keypoints=self._keypoints(values[4:]))
        elif len(values) >= 6 and len(values) % 2 == 0:
            if not numbers(values):  # min() and max() of the vertices would hide a NaN
                raise BadObjectError("object without a box", "vertices that are no numbers")
            xs, ys = values[0::2], values[1::2]
            box = checked_box(min(xs), min(ys), max(xs), max(ys))
            self.table.add(image, box, int(label), index, area=_area(xs, ys), polygons=[values])
        else:
            raise BadObjectError("line that is no object", f"{1 + len(values)} numbers")

    def _keypoints(self, values: list[float]) -> list[float]:
        """x, y and visibility of each keypoint; without visibilities, a point at (0, 0) is not labelled."""
        if not numbers(values):
            raise BadObjectError("object with keypoints that are no numbers", str(values)[:60])
        if self.names.numbers == 3 * self.names.keypoints:
            return values
        seen = (2.0 if x or y else 0.0 for x, y in zip(values[0::2], values[1::2], strict=True))
        points = zip(values[0::2], values[1::2], seen, strict=True)
        return [number for point in points for number in point]

    def find_strays(self, label_files: Iterable[str], expected: Collection[str]) -> None:
        """Note the files of labels that belong to no image."""
        strays = (name for name in label_files if name not in expected)
        self.skipped += [Skip(printable_name(name), "labels without an image") for name in strays]

    def listing(self, files: ListedFiles) -> Listing:
        """The listing of all images."""
        rows = np.array(self.table.image, np.int64)
        keypoints = tuple(map(str, range(self.names.keypoints)))
        unknown = np.zeros((len(files), 2), np.int32)
        return Listing(
            **vars(files),
            labels=None,
            classes=self.names.classes or tuple(map(str, range(self.highest + 1))),
            skipped=tuple(sorted(self.skipped)),
            objects=self.table.listed(rows, unknown, "object {} of its labels", relative=True),
            info=AnnotationInfo(keypoints, self.names.swap or tuple(range(len(keypoints)))),
        )


def _area(xs: list[float], ys: list[float]) -> float:
    """Area of a polygon, by the shoelace formula."""
    return abs(sum(x * (ys[i - 1] - ys[(i + 1) % len(ys)]) for i, x in enumerate(xs))) / 2
