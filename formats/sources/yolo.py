"""YOLO's text files as a source: ``images/.../x.jpg`` with ``labels/.../x.txt``, or x.txt beside x.jpg.

A line is one object: its class and, as shares of the image's width and height,
- the centre, width and height of its box;
- the same and its keypoints, where ``data.yaml`` has ``kpt_shape``;
- or x and y of the vertices of its outline.
The format is that of https://docs.ultralytics.com/datasets/. An image without a text file has no objects.

A ``data.yaml`` of Ultralytics or Roboflow names the images of the splits: ``train``, ``val`` and ``test`` are
each a folder, a list of images as a .txt, or several of these. Paths start at ``path``, which starts at the
folder of the file; Roboflow writes ``../train/images`` for ``train/images``. An ``obj.data`` of darknet names
lists of images; its paths start at the folder in which darknet runs, mostly the one above, ``data``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import yaml

from stoker.errors import SourceError
from stoker.log import EventLog
from stoker.urls import is_url

from ..dataset.annotations import AnnotationInfo
from ..files import is_inside, printable_name
from .detection import YAML_NAMES, is_data_file, label_files, yolo_folders
from .image_files import find_files
from .listing import ListedFiles, Listing, Skip, no_images_error
from .objects import (
    MOST_KEYPOINTS,
    BadObjectError,
    ObjectTable,
    area_of,
    box_around,
    check_shares,
    checked_box,
    swap_of,
)
from .source import NAMES_FILE, NAMES_FILES, Source, SourceFolder, open_folder, split_at_folder

_LOG = EventLog("conversion")
_IMAGES, _LABELS = "images", "labels"
_SPLITS = {"train": ("train",), "val": ("val", "validation", "valid"), "test": ("test",)}
_MOST_CLASSES = 1_000_000  # without names: then the highest label gives their number
_LONGEST = 1 << 20  # characters of a YAML file: names of ten thousand classes have fewer
_MOST_FOLDERS = 100  # in which names of classes are looked for
_DEEPEST = 16  # lists and mappings in each other; PyYAML crashes at some ten thousand
_NULLS = ("null", "Null", "NULL", "~", "")  # texts for the loader, as all scalars are
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # several times as fast, where PyYAML has it


def list_yolo(source: Source) -> Listing:
    """List the images of a YOLO folder, or of all splits of a ``data.yaml``, with their objects."""
    if is_data_file(source.path):
        return _list_splits(source)
    folders = yolo_folders(source)
    if folders is None:
        raise SourceError(
            "the source is not YOLO: it has no folders of images and labels",
            path=source.path,
            hint="Its files must be images/.../x.jpg and labels/.../x.txt, or x.txt beside x.jpg.",
        )
    images, labels = folders
    files, skipped = images.images()
    if not len(files):
        raise no_images_error("the folder holds no image", images.root, skipped)
    above = [images.parent] if images is labels else [images.parent, images.parent.parent]
    label_names = list(map(_labels_of, files.names()))
    names = read_names([source.folder, images, labels, *above])
    names = names if names.classes else replace(names, classes=_names_within(labels, label_names))
    there = [] if images is labels else label_files(labels)  # beside images there is other text, too
    return _annotated(names, files, skipped, labels, label_names, there=there, splits={"": len(files)})


def _names_within(labels: SourceFolder, label_names: list[str]) -> tuple[str, ...]:
    """The names of classes in the folders of the labels, such as ``data`` above darknet's ``data/obj``."""
    folders = dict.fromkeys(str(one) for name in label_names for one in PurePosixPath(name).parents)
    found = {one: YoloNames().or_listed(labels.child(one)).classes for one in [*folders][:_MOST_FOLDERS]}
    there = {classes: one for one, classes in reversed(found.items()) if classes}
    if len(there) > 1:
        raise SourceError(
            f"the folders {' and '.join(there.values())} name different classes",
            path=labels.root,
            hint="Convert each by itself, and join them by stoker.merge.",
        )
    return next(iter(there), ())


def _list_splits(source: Source) -> Listing:
    if is_url(source.path):
        raise SourceError(
            "a data.yaml is read from a disk, and this is a URL",
            path=source.path,
            hint="Convert each split by itself, and name its folder, such as train/images.",
        )
    data = read_data_file(source.path)
    paths = {split: [_resolve(data, split, entry) for entry in data.splits[split]] for split in data.splits}
    folders = [path for path in chain(*paths.values()) if path.is_dir()]
    listed = {path: list(_listed(data, path)) for path in chain(*paths.values()) if path not in folders}
    # The folder that holds the dataset, the folders of images, and the labels beside these.
    common = os.path.commonpath([data.base, *folders, *(image.parent for image in chain(*listed.values()))])
    home = os.path.realpath(data.path.parent)
    if not (source.options.outside or common == home or is_inside(common, home)):
        raise SourceError(
            f"the file must name images in its own folder, found {common}",
            path=data.path,
            hint="Put the file into the folder of the dataset, or allow folders anywhere: outside=True.",
        )
    parts = split_at_folder(common, _IMAGES)
    follow_links = source.options.follow_links
    root = open_folder(common if parts is None else parts[0], follow_links=follow_links)
    start_of = {folder: os.path.relpath(folder, root.root) for folder in folders}
    found, skipped = [], []
    for split in data.splits:
        keys = []
        for path in paths[split]:
            if path not in start_of:
                keys += [os.path.relpath(image, root.root) for image in listed[path]]
                continue
            inside, lost = open_folder(path, follow_links=follow_links).images()
            keys += [os.path.normpath(f"{start_of[path]}/{key}") for key in inside.names()]
            skipped += [Skip(os.path.normpath(f"{start_of[path]}/{skip.key}"), *skip[1:]) for skip in lost]
        named, lost = find_files(root.root, keys, follow_links=follow_links)
        skipped += lost
        found.append(named.files)
        if not len(named.files):
            raise no_images_error(f"{split} holds no image", str(data.path), skipped)
    files = ListedFiles(
        root.root,
        pa.concat_arrays([part.keys for part in found]),
        np.concatenate([part.sizes for part in found]),
        np.concatenate([part.modified for part in found]),
        follow_links=follow_links,
    )
    label_names = list(map(_labels_beside, files.names()))
    there: list[str] = []
    for start in dict.fromkeys(start_of.values()):
        labels = _labels_beside(f"{start}/x").rpartition("/")[0]
        if labels != start and root.child(labels).exists():  # beside images there is other text, too
            there += [f"{labels}/{name}" for name in label_files(root.child(labels))]
    splits = dict(zip(data.splits, map(len, found), strict=True))
    listing = _annotated(data.names, files, skipped, root, label_names, there=there, splits=splits)
    numbers = np.repeat(np.arange(len(found), dtype=np.int8), list(splits.values()))
    return replace(listing, split=numbers, splits=tuple(data.splits))


def _resolve(data: DataFile, split: str, entry: str) -> Path:
    """The folder or list that an entry names, its absolute path."""
    for base in (data.base, data.path.parent):
        for path in (base / name for one in _spellings(entry) for name in (one, one.removeprefix("../"))):
            if _is_there(path):
                return path.resolve()
    raise SourceError(
        f"{split} names {entry[:200]!r}, which is not there",
        path=data.path,
        hint=f"Correct the path in the file, or remove the line; paths start at {data.base}.",
    )


def _listed(data: DataFile, path: Path) -> Iterator[Path]:
    """Absolute paths of the images that a list names."""
    lines = [line.strip() for line in open_folder(path.parent).lines(path.name) or () if line.strip()]
    bases = (path.parent, data.base)
    found = (
        (base, at) for base in bases for at, one in enumerate(_spellings(lines[0])) if _is_there(base / one)
    )
    base, spelling = next(found, (path.parent, 0)) if lines else (path.parent, 0)
    return (Path(os.path.normpath(base / _spellings(line)[spelling])) for line in lines)


def _spellings(path: str) -> tuple[str, ...]:
    """A path as it is, as on Windows, and as darknet's, which starts above the folder ``data``."""
    there = path.replace("\\", "/")
    return path, there, there.removeprefix("./").removeprefix("data/")


def _is_there(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110 - Path.exists raises an error for a name that is too long


def _labels_of(key: str) -> str:
    return f"{os.path.splitext(key)[0]}.txt"  # noqa: PTH122 - a key is not a path


def _labels_beside(key: str) -> str:
    """The file of labels of an image, with its last folder ``images`` replaced; beside it without one."""
    before, found, behind = f"/{_labels_of(key)}".rpartition(f"/{_IMAGES}/")
    return f"{before}/{_LABELS}/{behind}".lstrip("/") if found else behind.lstrip("/")


@dataclass(frozen=True)
class YoloNames:
    """Classes and keypoints of a YOLO dataset."""

    classes: tuple[str, ...] = ()  # Names by number; empty if the dataset has none
    keypoints: int = 0  # K, the keypoints of an object
    numbers: int = 0  # Numbers that a line has for the keypoints: 2K or 3K
    # (K,) the keypoint that each becomes in a mirrored image, ``flip_idx``; empty if there is none
    swap: tuple[int, ...] = ()
    count: int = 0  # Number of classes that have no names in the file

    def or_listed(self, folder: SourceFolder) -> YoloNames:
        """The same with names from a file of names in a folder, where it has none."""
        lists = (folder.lines(name) for name in NAMES_FILES if not self.classes)
        lines: list[str] = next((one for one in lists if one is not None), [])
        classes = tuple(line.strip() for line in lines if line.strip())
        return replace(self, classes=classes, count=0) if classes else self

    def or_numbered(self) -> YoloNames:
        """The same with the names that Ultralytics gives where there are none (data/utils.py)."""
        numbered = tuple(f"class_{number}" for number in range(self.count))
        return replace(self, classes=self.classes or numbered, count=0)


def _annotated(
    names: YoloNames,
    files: ListedFiles,
    skipped: list[Skip],
    folder: SourceFolder,
    label_names: list[str],
    *,
    there: Iterable[str],
    splits: Mapping[str, int],
) -> Listing:
    """The listing of images with their objects, which the files ``label_names`` in ``folder`` have."""
    # Other files that are ``there`` are reported. ``splits`` has the number of images of each split.
    reader = _Reader(names, skipped)
    contents = zip(files.names(), label_names, folder.read(label_names), strict=True)
    has_labels = [
        reader.read(number, key, name, content) for number, (key, name, content) in enumerate(contents)
    ]
    first = 0
    for split, count in splits.items():
        if not any(has_labels[first : first + count]):
            message = f"not one of {count:,} images{f' of {split}' if split else ''} has labels"
            if split != "test" or not any(has_labels):
                raise SourceError(
                    f"{message}: there is no {label_names[first]}",
                    path=folder.root,
                    hint="Labels of images/x.jpg are labels/x.txt, and of images elsewhere the .txt beside "
                    "them. An empty file says that an image shows no object.",
                )
            _LOG.warning("yolo labels", f"{message}: its images have no objects")
        first += count
    if reader.equal:
        message = "{:,} lines are equal to another of their file, and become one object with it"
        _LOG.warning("yolo labels", message.format(reader.equal))
    expected = set(label_names)
    strays = (printable_name(name) for name in there if name not in expected)
    skipped = [skip for skip in skipped if skip.key not in expected]
    skipped += [Skip(name, "labels without an image") for name in strays]
    keypoints = tuple(map(str, range(names.keypoints)))
    rows, unknown = np.array(reader.table.image, np.int64), np.zeros((len(files), 2), np.int32)
    return Listing(
        **vars(files),
        labels=None,
        classes=names.classes or tuple(map(str, range(reader.highest + 1))),
        skipped=tuple(sorted(skipped)),
        objects=reader.table.listed(rows, unknown, "object {} of its labels", relative=True),
        info=AnnotationInfo(keypoints, names.swap or swap_of(keypoints)),
    )


class _Reader:
    """Collects the labels of all images."""

    def __init__(self, names: YoloNames, skipped: list[Skip]) -> None:
        self._names = names
        self._skipped = skipped
        self.table = ObjectTable(keypoints=names.keypoints)
        self.highest = -1  # label
        self.equal = 0  # Number of lines that are equal to one before them

    def read(self, number: int, key: str, name: str, content: bytes | OSError | ValueError) -> bool:
        """Read the labels of one image; return whether there is a file of them."""
        try:
            if not isinstance(content, bytes):
                raise content
            text = content.decode("utf-8-sig")
        except FileNotFoundError:
            return False
        except (OSError, ValueError) as error:
            self._skipped.append(Skip(key, "labels that cannot be read", f"{name}: {error}"))
            return True
        seen: set[tuple[float, ...]] = set()
        for index, line in enumerate(text.splitlines()):
            if not line.strip():
                continue
            try:
                values = _numbers(line)
                if values in seen:  # as Ultralytics (data/utils.py, verify_image_label)
                    self.equal += 1
                else:
                    seen.add(values)
                    self._object(number, index, *values)
            except BadObjectError as error:
                reason, detail = error.args
                self._skipped.append(Skip(key, reason, f"line {index + 1} of {name}: {detail}"))
        return True

    def _object(self, image: int, index: int, label: float, *values: float) -> None:
        if not (label.is_integer() and 0 <= label < (len(self._names.classes) or _MOST_CLASSES)):
            raise BadObjectError("object of an unknown category", f"{label:g}")
        self.highest = max(self.highest, int(label))
        names = self._names
        needed = 4 + names.numbers
        if names.keypoints and len(values) not in (4, needed):
            shape = f"kpt_shape [{names.keypoints}, {names.numbers // names.keypoints}]"
            detail = f"{1 + len(values)} numbers, and with {shape} a line has {1 + needed}"
            raise BadObjectError("line that is no object", detail)
        if len(values) == 4 or names.keypoints:
            check_shares(values[:4])
            x, y, width, height = values[:4]
            box = checked_box(x - width / 2, y - height / 2, x + width / 2, y + height / 2)
            self.table.add(image, box, int(label), index, keypoints=self._keypoints(values[4:]))
        elif len(values) >= 6 and len(values) % 2 == 0:
            check_shares(values, "; keypoints need kpt_shape in data.yaml")
            self.table.add(
                image,
                box_around(values),
                int(label),
                index,
                area=area_of(values[0::2], values[1::2]),
                corners=_corners(values),
                polygons=[values],
            )
        else:
            raise BadObjectError("line that is no object", f"{1 + len(values)} numbers")

    def _keypoints(self, values: Sequence[float]) -> Sequence[float]:
        """x, y and visibility of each keypoint; without visibilities, a point at (0, 0) is not labelled."""
        if self._names.numbers == 3 * self._names.keypoints:
            check_shares([value for at, value in enumerate(values) if at % 3 < 2])
            if wrong := [value for value in values[2::3] if not 0 <= value <= 2]:
                raise BadObjectError("keypoint whose visibility is not 0, 1 or 2", f"{wrong[0]:g}")
            return values
        check_shares(values)
        points = zip(values[0::2], values[1::2], strict=True)
        return [number for x, y in points for number in (x, y, 2.0 if x or y else 0.0)]


def _numbers(line: str) -> tuple[float, ...]:
    try:
        return tuple(map(float, line.split()))
    except ValueError as error:
        raise BadObjectError("line that is no object", str(error)) from error


def _corners(outline: Sequence[float]) -> Sequence[float]:
    """The four corners of an oriented box; empty for an outline of more vertices."""
    opened = outline[:-2] if outline[:2] == outline[-2:] else outline
    return opened if len(opened) == 8 else ()


def read_names(folders: Iterable[SourceFolder]) -> YoloNames:
    """The names in the first of the folders that has a file of names."""
    found = YoloNames()
    for folder in folders:
        for name in YAML_NAMES if found == YoloNames() else ():
            if (lines := folder.lines(name)) is not None:
                path = f"{folder.root}/{name}"
                found = _parse_names(path, _load_yaml(path, lines))
        if (found := found.or_listed(folder)).classes:
            return found
    return found.or_numbered()


@dataclass(frozen=True)
class DataFile:
    """The content of a ``data.yaml``."""

    path: Path
    names: YoloNames
    base: Path  # The folder of the dataset, resolved
    # Paths of folders and lists by split, "train", "val" or "test", as the file has them
    splits: dict[str, tuple[str, ...]]


def read_data_file(path: str | os.PathLike[str]) -> DataFile:
    """Read a ``data.yaml`` on a disk."""
    file = Path(path).absolute()
    name = str(file)
    lines = open_folder(file.parent).lines(file.name)
    if lines is None:
        raise SourceError("there is no such file", path=name, hint="Name the data.yaml of a YOLO dataset.")
    folder = open_folder(file.parent)
    members = (
        _load_darknet(name, folder, lines) if file.suffix.lower() == ".data" else _load_yaml(name, lines)
    )
    names = _parse_names(name, members).or_listed(folder).or_numbered()
    splits = {}
    for split, keys in _SPLITS.items():
        if entries := next((members[key] for key in keys if members.get(key)), None):
            splits[split] = _strings(name, split, [entries] if isinstance(entries, str) else entries)
    if not splits:
        _fail(name, "it names no images: train, val or test")
    if not names.classes:
        _fail(name, "it has no names of classes and no nc, their number")
    base = members.get("path") or ""
    if not isinstance(base, str) or any("\0" in one for one in (base, *chain(*splits.values()))):
        _fail(name, "path, train, val and test must be paths")
    root = next((one for one in map(file.parent.joinpath, _spellings(base)) if _is_there(one)), file.parent)
    return DataFile(file, names, root.resolve(), splits)


def _load_darknet(path: str, folder: SourceFolder, lines: list[str]) -> dict[str, Any]:
    """The members of a file of darknet, ``key = value`` on each line, under the names of a data.yaml."""
    pairs = (line.partition("=") for line in lines if not line.lstrip().startswith("#"))
    members: dict[str, Any] = {key.strip(): value.strip() for key, _, value in pairs if key.strip()}
    if named := members.pop("names", ""):
        file = next(filter(folder.has, _spellings(named)), named)
        if (listed := folder.lines(file)) is None:
            _fail(path, f"there is no file of names {named[:200]}")
        members["names"] = [line.strip() for line in listed if line.strip()]
    return members | {"nc": members.pop("classes", "")}


def _parse_names(path: str, members: dict[str, Any]) -> YoloNames:
    classes = _strings(path, "names", members.get("names"))
    shape = _strings(path, "kpt_shape", members.get("kpt_shape"))
    swap = _strings(path, "flip_idx", members.get("flip_idx"))
    try:
        count, each = map(int, shape) if shape else (0, 2)
        flips = tuple(map(int, swap))
        stated = int(members.get("nc") or len(classes))
    except (TypeError, ValueError):
        _fail(path, "nc must be an integer, kpt_shape two integers, and flip_idx integers")
    if stated > _MOST_CLASSES:
        _fail(path, f"nc is {stated}, more than {_MOST_CLASSES}")
    if count > MOST_KEYPOINTS:
        _fail(path, f"kpt_shape has {count} keypoints, more than {MOST_KEYPOINTS}")
    if classes and stated != len(classes):
        _fail(path, f"nc is {stated}, and there are {len(classes)} names")
    if count < 0 or each not in (2, 3) or (flips and sorted(flips) != list(range(count))):
        _fail(path, "kpt_shape must be [K, 2] or [K, 3], and flip_idx name each of K keypoints once")
    return YoloNames(classes, count, count * each, flips, 0 if classes else stated)


def _load_yaml(path: str, lines: list[str]) -> dict[str, Any]:
    """The mapping in the lines of a YAML file, all its scalars as text."""
    text = "\n".join(lines)
    if len(text) > _LONGEST:
        _fail(path, f"it has more than {_LONGEST} characters")
    try:
        if _nests_deeper(text, _DEEPEST):
            _fail(path, f"it nests more than {_DEEPEST} lists or mappings")
        # BaseLoader makes only text, lists and mappings. SafeLoader would read a class named "no" as False.
        document = yaml.load(text, Loader=_LOADER)  # noqa: S506 - it is safer than SafeLoader
    except (yaml.YAMLError, RecursionError) as error:
        _fail(path, f"it is not YAML: {' '.join(str(error).split())}")
    if document is not None and not isinstance(document, dict):
        _fail(path, "it holds no mapping")
    return {key: value for key, value in (document or {}).items() if value not in _NULLS}


def _nests_deeper(text: str, most: int) -> bool:
    """Whether YAML nests more lists and mappings than ``most``; it is read up to there, without recursion."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > most:
            return True
    return False


def _strings(path: str, name: str, value: Any) -> tuple[str, ...]:
    """The items of a list, which may be written as a mapping of the numbers from 0; empty without a value."""
    if not value:
        return ()
    if isinstance(value, dict):
        if list(value) != [str(number) for number in range(len(value))]:
            _fail(path, f"the numbers of {name} must count from 0")
        value = list(value.values())
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        # Lists that name one list often are a few bytes in YAML, and gigabytes as text.
        found = repr(value[:60]) if isinstance(value, str) else "one of other values"
        _fail(path, f"{name} must be a list of names or numbers, found {found}")
    return tuple(value)


def _fail(path: str, message: str) -> NoReturn:
    raise SourceError(
        f"the file cannot be read: {message}",
        path=path,
        hint=f"Correct it; names of classes may also stand in {NAMES_FILE} beside it, one on each line.",
    )
