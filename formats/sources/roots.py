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
from contextlib import suppress
from pathlib import Path

from stoker.errors import SourceError
from stoker.urls import is_url

from ..containers.shard_names import is_pattern
from ..dataset.manifest import datasets_in
from ..splits import Door, call, group_by_split, join
from . import detection
from .layouts import (
    FORMATS,
    MASK_ENDS,
    MASKS,
    METADATA,
    SAMPLED,
    TABLE,
    TEXTS,
    Tree,
    find_layout,
    inside,
    kind_of_file,
    readable_layout,
)
from .source import Source

_MOST_FOLDERS = 50  # of a root; a folder of classes may have thousands
_MOST = 1_000  # files in a folder that are looked at
_DEEPEST = 8
_NAMED = 4  # commands in a hint
_SAMPLED_IMAGES = 32
_OF_MASKS = re.compile(
    "mask|label|annot|truth|trimap|segment|gtfine|(?<![a-z])(gt|ann|seg)(?![a-z])", re.IGNORECASE
)
"""Words in the name of a folder of masks."""
_BESIDE = {
    "images": ("annotations", "masks"),
    "leftImg8bit": ("gtFine",),
    "JPEGImages": ("SegmentationClass",),
}
"""Names of a folder of images and of its masks, whose files may have other names: ADE20K, Cityscapes, VOC."""
_LAYERS = {
    "image", "images", "img", "imgs", "pic", "pics", "picture", "pictures", "photo", "photos", "jpg", "jpeg",
    "png", "jpegimages", "data", "dataset", "raw", "all", "files", "rgb",
}  # fmt: skip
"""Names of a folder that say that images are in it, and not of which class."""
_COCO = "Export them as COCO{}: stoker convert FILE.json TARGET --images {}"
_CURES = {
    MASKS: "Name the folder of the masks: stoker convert {0} TARGET --masks {0}",
    TEXTS: "Write a list of path, label and text: stoker convert LIST.jsonl TARGET --images {0}",
    METADATA: "Take it as a dataset of Hugging Face: stoker.convert(datasets.load_dataset('imagefolder', "
    "data_dir={0!r}, split='train'), TARGET)",
    "Open Images": "Convert the CSV itself: stoker convert FILE.csv TARGET --images {0}",
    "CVAT": _COCO.format(" (COCO 1.0 in CVAT)", "{0}"),
    "Label Studio": _COCO.format(" (COCO in Label Studio)", "{0}"),
    "CreateML": _COCO.format(" (COCO in Roboflow)", "{0}"),
    "VGG Image Annotator": _COCO.format(" (in VIA: Export Annotations, COCO format)", "{0}"),
    "Supervisely": _COCO.format(" (Supervisely's app Export to COCO)", "{0}"),
    "Datumaro": _COCO.format(" (datum convert -f coco)", "{0}"),
}


def check_is_one_dataset(source: Source, detected: str, door: Door = "convert") -> None:
    """Refuse a folder that is not one dataset, with the calls of ``door`` for what it holds."""
    options, path = source.options, os.fspath(source.path)
    if options.unlabelled or options.class_depth is not None or is_pattern(path):
        return
    root = Path(path)
    insist = f"if its folders are classes: {_with_depth(door, path)}"
    if detected in ("coco", "list"):
        _check_file(source)
    if not is_url(path) and not root.is_dir():
        return
    if detected in FORMATS.values():
        _check_splits_of_annotated(source, detected)
    folders = [] if is_url(path) else _folders(root)
    _check_datasets(root, len(folders), door)
    if detected != "folder":
        return
    tree = Tree(source)
    is_root = not is_url(path) and len(folders) <= _MOST_FOLDERS
    if is_root:
        _refuse(root, "Pascal VOC's datasets", _voc(folders), insist)
        _refuse(root, "YOLO's splits", _yolo(root, folders), insist)
    _check_annotations(tree, door, insist)
    if is_root:
        _refuse(root, "COCO's datasets", _coco(root, folders), insist)
        _refuse(root, "images and masks", _masks(tree, root), insist)
    _check_levels(tree, door, insist)


def _check_file(source: Source) -> None:
    """Refuse a file with the annotations of another tool, or with boxes, which is no list of labels."""
    options, kind = source.options, kind_of_file(source)
    if kind is None or options.path_column is not None or options.label_column is not None:
        return
    hint = f"Name the folder of these files: stoker convert {source.folder_of_file} TARGET."
    reading = "one file of several" if kind in FORMATS else "which is not read"
    if kind not in FORMATS:
        cure = _CURES.get(kind, _COCO.format("", "{0}")).format(options.images or source.folder_of_file)
        hint = f"{cure}; if it is a list of path and label: source_format='list'."
    raise SourceError(f"the file holds {_named(kind)}, {reading}", path=source.path, hint=hint)


def _check_splits_of_annotated(source: Source, detected: str) -> None:
    """Refuse splits of images with annotations that are read, as they would become one dataset."""
    kind = next(kind for kind, name in FORMATS.items() if name == detected)
    layout = readable_layout(source, kind)
    if layout is None and is_url(source.path):
        return
    images, annotations = (layout.images, layout.annotations) if layout else ("images", "labels")
    if detected == "voc" and (folders := detection.voc_folders(source)):
        _, annotations, images = folders
    tree, commands, path = Tree(source), list[str](), images
    while not (groups := group_by_split(tree.folders(path))) and not tree.images(path):
        if len(tree.folders(path)) != 1:
            return
        path = inside(path, tree.folders(path)[0])
    names = [name for of_split in groups.values() for name in of_split]
    for name in names:
        folder, more = inside(path, name), ""
        if annotations not in (images, "labels"):
            more = f" --images {tree.named(folder)}"
            folder = inside(annotations, folder.removeprefix(images).lstrip("/"))
        if detected != "yolo" and name != names[0]:
            more += f" --classes TARGET/{names[0]}"
        commands.append(call("convert", tree.named(folder), name, more))
    if not is_url(source.path):
        files = (file for file, folders in _data_files(Path(source.path)) if len(set(folders)) > 1)
        commands = [*(call("convert", str(file)) for file in files), *commands]
    if commands:
        raise SourceError(
            f"the folder holds several splits of {kind}, which would become one dataset",
            path=source.path,
            hint=f"Take each by itself: {'; '.join(commands)}; to make one dataset of them: "
            f"source_format={detected!r}.",
        )


def check_splits(path: str | os.PathLike[str], door: Door) -> None:
    """Refuse a folder of splits whose files are no images, such as datasets and shards."""
    tree = Tree(Source(path))
    _check_split_folders(tree, "", door, "each is a dataset of its own")


def _check_datasets(root: Path, folders: int, door: Door) -> None:
    if folders and len(datasets := datasets_in(root)) == folders:
        calls = "; ".join(call(door, f"{root}/{name}", name) for name in datasets)
        message = f"the folder holds the datasets {join(datasets)}, which would become one dataset"
        raise SourceError(message, path=root, hint=f"Take each by itself: {calls}.")


def _with_depth(door: Door, path: str, depth: int = 1) -> str:
    if door == "open":
        return f"stoker.open({path!r}, class_depth={depth})"
    return f"--class-depth {depth}" if door == "index" else f"class_depth={depth}"


def _refuse(root: Path, kind: str, commands: list[str], insist: str) -> None:
    if commands:
        raise SourceError(
            f"the folder is the root of {kind}, not a folder of classes",
            path=root,
            hint=f"Convert {'; or '.join(commands[:_NAMED])}; {insist}.",
        )


def _check_levels(tree: Tree, door: Door, insist: str) -> None:
    """Refuse splits, classes in one folder, and images in a folder ``images`` of each class."""
    path = ""
    while path.count("/") < _DEEPEST:
        _check_split_folders(tree, path, door, insist)
        folders = tree.folders(path)
        if len(folders) != 1 or tree.images(path):
            break
        path = inside(path, folders[0])
    sampled = [inside(path, name) for name in tree.folders(path)[:SAMPLED]]
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
        by_first = f"Name classes by the first folder alone: {_with_depth(door, tree.named(path))}"
        if len(names_in) == 1 and names_in[0].lower() in _LAYERS:
            raise SourceError(
                f"the folders of the classes hold their images in a folder {names_in[0]}",
                path=tree.root,
                hint=f"{by_first}.",
            )
        if len(names_in) > 1:  # as of folds, patients, or splits in another language
            raise SourceError(
                f"the folders {join([one.rpartition('/')[2] for one in sampled[:2]])} hold the same folders "
                f"{join(names_in[:2])}, and either may name the classes",
                path=tree.root,
                hint=f"{by_first}; by both: {_with_depth(door, tree.named(path), 2)}; by the second alone: "
                "write a list of path and label.",
            )
    if path:
        _check_wrapper(tree, path, door, insist)


def _check_split_folders(tree: Tree, path: str, door: Door, insist: str) -> None:
    groups = group_by_split(tree.folders(path))
    if not groups:
        return
    names = [name for of_split in groups.values() for name in of_split]
    calls = []
    for name in names:
        folder = inside(path, name)
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


def _check_wrapper(tree: Tree, path: str, door: Door, insist: str) -> None:
    """Refuse a folder whose images all lie in one folder, which is no class."""
    folders, name = tree.folders(path), path.rpartition("/")[2]
    if not any(tree.images(one) for one in tree.walk(path)):
        return
    calls = [
        call(door, tree.named(file), more=f" --images {tree.named(path)}" if door == "convert" else "")
        for file in tree.at("")[1]
        if detection.has_list_suffix(file) and not detection.is_coco(Source(tree.named(file)))
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


def _named(kind: str) -> str:
    return kind if kind in (MASKS, METADATA, TABLE, TEXTS) else f"annotations of {kind}"


def _check_annotations(tree: Tree, door: Door, insist: str) -> None:
    """Refuse images with annotations beside them, which a folder of classes would leave out."""
    if not (layout := find_layout(tree.source)):
        return
    if not tree.folders(""):
        flags = {"convert": "unlabelled=True", "index": "--unlabelled"}
        insist = f"without them: {flags.get(door) or _with_depth(door, tree.root)}"
    at = tree.named(layout.at)
    cure = _CURES.get(layout.kind, _COCO.format("", "{0}")).format(at)
    if layout.kind in FORMATS:
        _check_split_folders(tree, "", "convert", insist)
        cure = f"Take it by itself: stoker convert {at} TARGET"
    what = f"{_named(layout.kind)}, such as {layout.file}"
    message = f"the folder holds {what}, which a folder of classes leaves out"
    raise SourceError(message, path=tree.root, hint=f"{cure}; {insist}.")


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
    for file in (root / name for name in detection.DATA_FILES if (root / name).is_file()):
        with suppress(SourceError):  # a file of names alone
            found.append((file, list(read_data_file(file).splits.values())))
    return found


def _voc(folders: list[Path]) -> list[str]:
    commands = []
    for year in (one for one in folders if (one / "Annotations").is_dir() and (one / "JPEGImages").is_dir()):
        one = year / "ImageSets" / "Main" / "train.txt"
        commands += [f"one split: stoker convert {one} TARGET"] if one.is_file() else []
        commands.append(f"one year: stoker convert {year} TARGET")
    return commands


def _coco(root: Path, folders: list[Path]) -> list[str]:
    files = [
        file for folder in [root, *folders] for file in _entries(folder) if detection.holds_coco(Source(file))
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


def _have_same_names(tree: Tree, images: str, masks: str) -> bool:
    """Whether most images of a folder, or of the first folder in it, have a mask of their name."""
    if inner := tree.folders(images)[:1]:
        images, masks = inside(images, inner[0]), inside(masks, inner[0])
    stems = [Path(one).stem for one in tree.images(images)[:_SAMPLED_IMAGES]]
    suffixes = {Path(one).suffix for one in tree.images(masks)}
    ends = [end + suffix for end in ("", *MASK_ENDS) for suffix in suffixes]
    return 2 * sum(any(tree.has(masks, stem + end) for end in ends) for stem in stems) > len(stems)


def _masks(tree: Tree, root: Path) -> list[str]:
    """The commands for images and their masks; of one split, where the folders hold several."""
    commands = []
    of_masks = [one for one in tree.folders("") if _OF_MASKS.search(one)]
    of_images = [one for one in tree.folders("") if one not in of_masks]
    for images, masks in ((root / one, root / other) for one in of_images for other in of_masks):
        is_known = masks.name in _BESIDE.get(images.name, ())
        if not is_known and not _have_same_names(tree, images.name, masks.name):
            continue
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
