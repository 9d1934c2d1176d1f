"""Folders that are not one dataset of classes, and the calls that read what they hold.

Such a folder is the root of several datasets (of COCO, VOC, YOLO, or of images and masks), holds splits such
as train and val, holds its classes in a folder of its own, or has annotations beside its images. As a folder
of classes it would have classes such as ``train`` and ``images``, without a word. Every call that takes a
folder asks :func:`check_is_one_dataset`: conversions, ``stoker index`` and ``stoker.open``. Names decide, at
the first levels.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from stoker.errors import SourceError
from stoker.urls import is_url

from ..containers.shard_names import is_pattern
from ..dataset.manifest import datasets_in
from ..splits import Door, call, group_by_split, join
from . import detection
from .image_files import has_image_suffix
from .source import Source

_MOST_FOLDERS = 50  # of a root; a folder of classes may have thousands
_MOST = 1_000  # files in a folder that are looked at
_SAMPLED = 8  # folders in a folder that are looked at
_IMAGES = 64  # images of a folder that may have annotations
_HEAD = 4096  # bytes of a file of annotations
_DEEPEST = 8
_NAMED = 4  # commands in a hint
_MASKS = {
    "images": ("annotations", "masks"),  # annotations in ADE20K
    "leftImg8bit": ("gtFine",),  # Cityscapes
    "JPEGImages": ("SegmentationClass",),
}
_LAYERS = {
    "image", "images", "img", "imgs", "pic", "pics", "picture", "pictures", "photo", "photos", "jpg", "jpeg",
    "png", "jpegimages", "data", "dataset", "raw", "all", "files", "rgb",
}  # fmt: skip
"""Names of a folder that say that images are in it, and not of which class."""
_TABLE, _TEXTS, _UNKNOWN = "a table of boxes", "texts", "an unknown format"
_MASK_ENDS = ("_mask", "-mask", "_masks", "_seg", "_gt", "_segmentation", "_label")
_ANNOTATIONS = (".xml", ".txt", ".json", ".XML", ".TXT", ".JSON")
_COCO = "Export them as COCO{}: stoker convert FILE.json TARGET --images {}"
_CURES = {
    "Pascal VOC": "Put the images into {0}/JPEGImages and the .xml files into {0}/Annotations: "
    "stoker convert {0} TARGET",
    "YOLO": "Put the images into {0}/images and the .txt files into {0}/labels: stoker convert {0} TARGET",
    "masks": "Put the masks into a folder, each under the name of its image: "
    "stoker convert {0} TARGET --masks MASKS",
    _TEXTS: "Write a list of path, label and text: stoker convert LIST.jsonl TARGET --images {0}",
    "CVAT": _COCO.format(" (COCO 1.0 in CVAT)", "{0}"),
    "Label Studio": _COCO.format(" (COCO in Label Studio)", "{0}"),
    "CreateML": _COCO.format(" (COCO in Roboflow)", "{0}"),
    "VGG Image Annotator": _COCO.format(" (in VIA: Export Annotations, COCO format)", "{0}"),
}


def check_is_one_dataset(source: Source, detected: str, door: Door = "convert") -> None:
    """Refuse a folder that is not one dataset, with the calls of ``door`` for what it holds."""
    options, path = source.options, os.fspath(source.path)
    if options.unlabelled or options.class_depth is not None or is_pattern(path):
        return
    root = Path(path)
    insist = f"if its folders are classes: {_with_depth(door, path)}"

    def refuse_root(*kinds: tuple[str, list[str]]) -> None:
        for name, commands in kinds:
            message = f"the folder is the root of {name}, not a folder of classes"
            _refuse(root, message, commands, insist)

    if not is_url(path):
        if not root.is_dir():
            return
        if detected == "yolo":
            message = "the folder holds several splits of YOLO, which would become one dataset"
            _refuse(root, message, _yolo_splits(root), "to make one dataset of them: source_format='yolo'")
        folders = _folders(root)
        _check_datasets(root, len(folders), door)
        if detected == "folder" and len(folders) <= _MOST_FOLDERS:
            refuse_root(("Pascal VOC's datasets", _voc(folders)), ("YOLO's splits", _yolo(root, folders)))
    if detected != "folder":
        return
    tree = _Tree(source)
    _check_annotations(tree, door, insist)
    if not is_url(path) and len(folders) <= _MOST_FOLDERS:
        refuse_root(("COCO's datasets", _coco(root, folders)), ("images and masks", _masks(root)))
    _check_levels(tree, door, insist)


def check_splits(path: str | os.PathLike[str], door: Door) -> None:
    """Refuse a folder of splits whose files are no images, such as datasets and shards."""
    tree = _Tree(Source(path))
    _check_split_folders(tree, "", door, "each is a dataset of its own")


def _check_datasets(root: Path, folders: int, door: Door) -> None:
    if folders and len(datasets := datasets_in(root)) == folders:
        calls = "; ".join(call(door, f"{root}/{name}", name) for name in datasets)
        message = f"the folder holds the datasets {join(datasets)}, which would become one dataset"
        raise SourceError(message, path=root, hint=f"Take each by itself: {calls}.")


def _with_depth(door: Door, path: str) -> str:
    if door == "open":
        return f"stoker.open({path!r}, class_depth=1)"
    return "--class-depth 1" if door == "index" else "class_depth=1"


def _refuse(root: Path, message: str, commands: list[str], otherwise: str) -> None:
    if commands:
        hint = f"Convert {'; or '.join(commands[:_NAMED])}; {otherwise}."
        raise SourceError(message, path=root, hint=hint)


class _Tree:
    """The names in the folders of a source, on a disk or at a URL, without hidden ones."""

    def __init__(self, source: Source) -> None:
        self.source, self.root = source, os.fspath(source.path).rstrip("/")
        self._known: dict[str, tuple[list[str], list[str]]] = {}
        if is_url(self.root):
            found = defaultdict[str, tuple[set[str], set[str]]](lambda: (set(), set()))
            for name in source.folder.names(""):
                *parents, file = name.split("/")
                found["/".join(parents)][1].add(file)
                for level, folder in enumerate(parents):
                    found["/".join(parents[:level])][0].add(folder)
            self._known = {path: (sorted(one), sorted(files)) for path, (one, files) in found.items()}

    def at(self, path: str) -> tuple[list[str], list[str]]:
        """The folders and the files in a folder, at most :data:`_MOST` of them on a disk."""
        if path not in self._known and not is_url(self.root):
            folders, files = list[str](), list[str]()
            self._known[path] = folders, files
            with suppress(OSError), os.scandir(Path(self.root, path)) as entries:
                for _, entry in zip(range(_MOST), entries, strict=False):
                    if not entry.name.startswith((".", "__MACOSX")):
                        (folders if entry.is_dir() else files).append(entry.name)
            folders.sort()
            files.sort()
        return self._known.get(path, ([], []))

    def folders(self, path: str) -> list[str]:
        return self.at(path)[0]

    def images(self, path: str) -> list[str]:
        return [one for one in self.at(path)[1] if has_image_suffix(one)]

    def has(self, path: str, name: str) -> bool:
        if name in self.at(path)[1]:
            return True
        is_whole = is_url(self.root) or sum(map(len, self.at(path))) < _MOST
        return not is_whole and Path(self.root, path, name).is_file()

    def walk(self, path: str = "", depth: int = 3) -> Iterator[str]:
        """The folder and those in it, to a depth, :data:`_SAMPLED` of each."""
        yield path
        for name in self.folders(path)[:_SAMPLED] if depth else ():
            yield from self.walk(_inside(path, name), depth - 1)

    def named(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root


def _inside(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def _check_levels(tree: _Tree, door: Door, insist: str) -> None:
    """Refuse splits, classes in one folder, and images in a folder ``images`` of each class."""
    path = ""
    while path.count("/") < _DEEPEST:
        _check_split_folders(tree, path, door, insist)
        folders = tree.folders(path)
        if len(folders) != 1 or tree.images(path):
            break
        path = _inside(path, folders[0])
    sampled = [_inside(path, name) for name in tree.folders(path)[:_SAMPLED]]
    inner = {one: tree.folders(one) for one in sampled}
    with_splits = [one for one in sampled if group_by_split(inner[one])]
    if with_splits and 2 * len(with_splits) >= len(sampled):
        names = join(one for of_split in group_by_split(inner[with_splits[0]]).values() for one in of_split)
        raise SourceError(
            f"the folders of the classes hold the splits {names}, not images",
            path=tree.root,
            hint=f"Put the splits above the classes, as in train/{sampled[0].rpartition('/')[2]}, and take "
            f"each by itself; to make one dataset of all: {_with_depth(door, tree.named(path))}.",
        )
    layers = {tuple(names) for one, names in inner.items() if not tree.images(one)}
    if len(sampled) > 1 and len(layers) == 1 and all(not tree.images(one) for one in sampled):
        (names_in,) = layers
        if len(names_in) == 1 and names_in[0].lower() in _LAYERS:
            raise SourceError(
                f"the folders of the classes hold their images in a folder {names_in[0]}",
                path=tree.root,
                hint=f"Name classes by the first folder alone: {_with_depth(door, tree.named(path))}.",
            )
    if path:
        _check_wrapper(tree, path, door, insist)


def _check_split_folders(tree: _Tree, path: str, door: Door, insist: str) -> None:
    groups = group_by_split(tree.folders(path))
    if not groups:
        return
    names = [name for of_split in groups.values() for name in of_split]
    calls = []
    for name in names:
        folder = _inside(path, name)
        while (inner := tree.folders(folder)) and len(inner) == 1 and tree.folders(f"{folder}/{inner[0]}"):
            folder = f"{folder}/{inner[0]}"  # such as test_set/test_set of archives
        more = "" if name == names[0] or not inner else f" --classes TARGET/{names[0]}"
        more = more if inner or door == "open" or not tree.images(folder) else " --unlabelled"
        calls.append(call(door, tree.named(folder), name, more))
    raise SourceError(
        f"the folder holds the splits {join(names)}, not classes",
        path=tree.root,
        hint=f"Take each by itself: {'; '.join(calls)}; {insist}.",
    )


def _check_wrapper(tree: _Tree, path: str, door: Door, insist: str) -> None:
    """Refuse a folder whose images all lie in one folder, which is no class."""
    folders, name = tree.folders(path), path.rpartition("/")[2]
    if not any(tree.images(one) for one in tree.walk(path)):
        return
    calls = [
        call(door, tree.named(file), more=f" --images {tree.named(path)}" if door == "convert" else "")
        for file in tree.at("")[1]
        if detection.has_list_suffix(file)
    ]
    if folders:
        inner, holds = path, "its classes"
    elif name.lower() in _LAYERS:
        inner, holds = path, "its images"
    elif "/" in path:
        inner, holds = path.rpartition("/")[0], "its class"
    else:
        return
    more = "" if folders or door == "open" or holds == "its class" else " --unlabelled"
    calls = [call(door, tree.named(inner), more=more), *calls[:_NAMED]]
    raise SourceError(
        f"the folder holds {holds} in the folder {inner}, which is no class",
        path=tree.root,
        hint=f"Take it by itself: {'; or '.join(calls)}; {insist}.",
    )


def _check_annotations(tree: _Tree, door: Door, insist: str) -> None:
    """Refuse images with annotations beside them, which a folder of classes would leave out."""
    if not tree.folders(""):
        flags = {"convert": "unlabelled=True", "index": "--unlabelled"}
        insist = f"without them: {flags.get(door) or _with_depth(door, tree.root)}"
    for path in tree.walk():
        if found := _beside(tree, path) or _apart(tree, path) or _of_tools(tree, path):
            kind, file = found
            at = tree.named(path)
            what = kind if kind in ("masks", _TABLE, _TEXTS) else f"annotations of {kind}"
            cure = _CURES.get(kind, _COCO.format("", "{0}")).format(at)
            raise SourceError(
                f"the folder holds {what}, such as {file}, which a folder of classes leaves out",
                path=tree.root,
                hint=f"{cure}; {insist}.",
            )


def _beside(tree: _Tree, path: str) -> tuple[str, str] | None:
    """Kind and example of annotations under the names of the images of a folder."""
    images = tree.images(path)
    stems = [os.path.splitext(one)[0] for one in images]  # noqa: PTH122 - a name
    if not stems:
        return None
    for end in _MASK_ENDS:
        if 2 * len(paired := {stem + end for stem in stems} & set(stems)) >= len(stems) - len(paired):
            return "masks", _inside(path, images[stems.index(min(paired))])
    step = max(1, len(stems) // _IMAGES)
    sampled = stems[::step]
    for suffix in _ANNOTATIONS:
        names = [f"{stem}{suffix}" for stem in sampled if tree.has(path, f"{stem}{suffix}")]
        if not names:
            continue
        found = _kind_of_some(tree, [_inside(path, name) for name in names[:_SAMPLED]])
        if 2 * len(names) >= len(sampled) or found[0] not in (
            _TEXTS,
            _UNKNOWN,
        ):  # some images have no objects
            return found
    return None


def _apart(tree: _Tree, path: str) -> tuple[str, str] | None:
    """Kind and example of annotations in a folder beside the folder of their images."""
    inner = [[one, *tree.folders(_inside(path, one))[:_SAMPLED]] for one in tree.folders(path)[:_SAMPLED]]
    places = [(top, sub) for top, *subs in inner for sub in ["", *subs]]
    holders = [(top, sub) for top, sub in places if tree.images(_inside(_inside(path, top), sub).rstrip("/"))]
    for top, sub in places:
        folder = _inside(_inside(path, top), sub).rstrip("/")
        files = [one for one in tree.at(folder)[1] if one.endswith(_ANNOTATIONS)]
        if not files or tree.images(folder):
            continue
        sampled = files[:: max(1, len(files) // _IMAGES)]
        for other, sub_of in holders:
            if other == top or sub_of != sub:
                continue
            there = _inside(_inside(path, other), sub).rstrip("/")
            suffix = os.path.splitext(tree.images(there)[0])[1]  # noqa: PTH122 - a name
            stems = [os.path.splitext(one)[0] for one in sampled]  # noqa: PTH122
            matching = sum(tree.has(there, stem) or tree.has(there, stem + suffix) for stem in stems)
            if matching and 2 * matching >= len(sampled):
                return _kind_of_some(tree, [f"{folder}/{name}" for name in sampled[:_SAMPLED]])
    return None


def _kind_of_some(tree: _Tree, files: list[str]) -> tuple[str, str]:
    """The format that one of some files shows, and that file; empty ones are of images without objects."""
    for file in files:
        if kind := _kind(file, tree.source.folder.head(file, _HEAD)):
            return kind, file
    return _TEXTS if files[0].lower().endswith(".txt") else _UNKNOWN, files[0]


def _of_tools(tree: _Tree, path: str) -> tuple[str, str] | None:
    """Kind and name of a file of annotations of a whole folder, by its start."""
    files = tree.at(path)[1]
    if not any(tree.images(one) for one in tree.walk(path, 2)):
        return None
    files = [one for one in files if one.lower().endswith((".xml", ".json", ".csv"))]
    for file in files[:_SAMPLED]:
        inside = _inside(path, file)
        if kind := _kind(inside, tree.source.folder.head(inside, _HEAD)):
            return kind, inside
    return None


def _kind(file: str, head: bytes) -> str | None:
    """The format of a file of annotations, by its suffix and its start; None for another file."""
    text = head.decode("utf-8-sig", "replace").lstrip()
    if file.lower().endswith(".xml"):
        return "CVAT" if "<annotations" in text else "Pascal VOC" if "<annotation" in text else None
    if file.lower().endswith(".csv"):
        names = {name.strip(' "').replace("_", "").lower() for name in text.partition("\n")[0].split(",")}
        return _TABLE if {"xmin", "ymin"} <= names or "bbox" in names else None
    if file.lower().endswith(".json"):
        return next((kind for kind, keys in _KEYS.items() if all(f'"{key}"' in text for key in keys)), None)
    return _kind_of_line(text.partition("\n")[0].split())


def _kind_of_line(words: list[str]) -> str | None:
    """The format of a text of objects, by the words of its first line."""
    is_number = [re.fullmatch(r"-?\d*\.?\d+([eE][-+]?\d+)?", word) is not None for word in words]
    if len(words) >= 5 and all(is_number):
        return "YOLO"
    if len(words) >= 9 and all(is_number[:8]):
        return "DOTA"
    return "KITTI" if len(words) >= 15 and all(is_number[1:]) else None


_KEYS = {
    "VGG Image Annotator": ("filename", "regions"),
    "labelme": ("shapes", "imagePath"),
    "Label Studio": ("annotations", "data"),
    "CreateML": ("annotations", "coordinates"),
    "Supervisely": ("objects", "size"),
}
"""Keys at the start of the JSON of a tool."""


def _entries(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [folder / entry.name for _, entry in zip(range(_MOST), entries, strict=False)]
    except OSError:
        return []


def _folders(folder: Path) -> list[Path]:
    return sorted(one for one in _entries(folder) if one.is_dir())


def _data_files(root: Path) -> list[tuple[Path, list[tuple[str, ...]]]]:
    """The files of a folder that name the images of YOLO's splits, and the paths of each split."""
    from .yolo import read_data_file

    found = []
    for file in (root / name for name in detection.YAML_NAMES if (root / name).is_file()):
        with suppress(SourceError):  # a file of names alone
            found.append((file, list(read_data_file(file).splits.values())))
    return found


def _yolo_splits(root: Path) -> list[str]:
    groups = group_by_split(one.name for one in _folders(root / "images"))
    commands = [f"stoker convert {root}/images/{one} TARGET" for names in groups.values() for one in names]
    for file, folders in _data_files(root):
        if len(set(folders)) > 1:
            commands = [f"stoker convert {file} TARGET", *commands]
    return commands


def _voc(folders: list[Path]) -> list[str]:
    commands = []
    for year in (one for one in folders if (one / "Annotations").is_dir() and (one / "JPEGImages").is_dir()):
        one = year / "ImageSets" / "Main" / "train.txt"
        commands += [f"one split: stoker convert {one} TARGET"] if one.is_file() else []
        commands.append(f"one year: stoker convert {year} TARGET")
    return commands


def _coco(root: Path, folders: list[Path]) -> list[str]:
    files = [
        file for folder in [root, *folders] for file in _entries(folder) if detection.is_coco(Source(file))
    ]
    files.sort(key=lambda file: (not file.name.startswith(("instances", "_annotations")), file))
    commands = []
    for file in files:
        images: Path | str = file.parent
        if file.parent.name == "annotations":
            inside = [one for folder in folders if folder.name == "images" for one in _folders(folder)]
            named = [one for one in [*folders, *inside] if one.name in file.stem]
            images = max(named, key=lambda one: len(one.name), default="DIR")
        commands.append(f"one file: stoker convert {file} TARGET --images {images}")
    return commands


def _yolo(root: Path, folders: list[Path]) -> list[str]:
    for file, _ in _data_files(root):
        return [f"all splits: stoker convert {file} TARGET"]
    splits = [one for one in folders if (one / "images").is_dir() and (one / "labels").is_dir()]
    if not splits and any((root / name).is_file() for name in detection.YAML_NAMES):
        return [f"a folder of images with labels beside it: {root}/images/x.jpg and {root}/labels/x.txt"]
    return [f"a split: stoker convert {split} TARGET" for split in splits]


def _masks(root: Path) -> list[str]:
    """The commands for images and their masks; of one split, where the folders hold several."""
    commands = []
    pairs = [(root / images, root / name) for images, names in _MASKS.items() for name in names]
    for images, masks in (pair for pair in pairs if all(one.is_dir() for one in pair)):
        groups = group_by_split(one.name for one in _folders(images) if (masks / one.name).is_dir())
        splits = [name for names in groups.values() for name in names]
        first = splits[0] if splits else "."
        options = {"masks": f"--masks {masks / first}"}
        if masks.name == "gtFine":  # Cityscapes' folder has instance masks beside class masks
            options = {
                "objects": f"--instances {masks / first}",
                "classes": f"--masks {masks / first} --mask-map cityscapes",
            }
        elif masks.name == "annotations" and any(
            detection.is_of_ade20k(str(one)) for one in _entries(images / first)
        ):
            options["masks"] += " --mask-map ade20k"
        others = f" (and in the same way, each with another TARGET: {', '.join(splits[1:])})"
        several = len(splits) > 1
        for kind, option in options.items():
            command = f"with {kind}: stoker convert {images / first} TARGET {option}"
            commands.append(f"one split {command}{others}" if several else command)
    return commands
