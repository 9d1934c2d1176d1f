"""The tests of source formats, which the registry asks in turn: does a source have this format?

They look at names, or at the start of one file, and load no reader. ``source.path`` may be a file, a folder
or a URL, and ``source.folder`` is the folder, which reads disks and URLs alike.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path, PurePosixPath

from stoker.urls import is_url, split_query, split_url

from ..containers.container import find_container, is_local_shard
from ..containers.shard_names import expand, is_pattern, names_tfrecord
from ..dataset.manifest import MANIFEST_NAME
from ..dataset.versions import split_version
from ..files import is_hidden, read_regular
from ..remote.store import Store
from .image_files import has_image_suffix
from .json_stream import unpacked
from .layouts import LABELME, VOC, YOLO, readable_layout
from .source import NAMES_FILES, Source, SourceFolder, split_at_folder

_TARS = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.xz", ".tar.bz2")  # reading names the remedy
_LISTS = (".csv", ".tsv", ".json", ".jsonl")
_HEAD_BYTES = 4096
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SIDES = ("XMin", "YMin", "XMax", "YMax")

PARQUET = ".parquet"
SAVED_STATE, SAVED_SPLITS = "state.json", "dataset_dict.json"
"""Files that Hugging Face's ``save_to_disk`` writes into the folder of a dataset, and of several."""
BOX_COLUMNS = {"ImageID", "LabelName", *SIDES}
MASK_COLUMNS = {"ImageID", "LabelName", "MaskPath", *(f"Box{side}" for side in SIDES)}
"""Columns of the CSVs of Open Images, of boxes and of segmentations."""
ANNOTATIONS, IMAGE_SETS = "Annotations", "ImageSets"
"""Folders of Pascal VOC."""
YAML_NAMES = ("data.yaml", "dataset.yaml", "data.yml")
"""Names of the file of YOLO that names classes and splits."""
DATA_FILES = (*YAML_NAMES, "obj.data")
"""The same, and darknet's."""
_OF_COCO = re.compile(rb'"(images|annotations|categories|licenses)"\s*:\s*\[')


def _text(source: Source) -> str:
    return split_query(source.path)[0].rstrip("/")


def _is_folder_at_url(source: Source) -> bool:
    """Whether the URL of a source may be a folder, by its name."""
    text = _text(source)
    named = is_pattern(text) or names_tfrecord(text) or PurePosixPath(text).suffix
    return is_url(text) and not named


def _is_named(source: Source, suffixes: tuple[str, ...]) -> bool:
    """Whether a source is a file, or a pattern of files, with one of these suffixes."""
    text = _text(source)
    return text.endswith(suffixes) and (is_url(text) or is_pattern(text) or not Path(text).is_dir())


def _is_folder_of(source: Source, suffix: str, beside: tuple[str, ...] = ()) -> bool:
    """Whether a source is a folder of files with a suffix, without images, or with only files ``beside``."""

    def may_be_there(name: str) -> bool:
        return name.endswith((suffix, *beside)) if beside else not has_image_suffix(name)

    names = []
    if is_url(source.path):
        names = source.folder.names("") if _is_folder_at_url(source) else []
    elif Path(source.path).is_dir():
        with os.scandir(source.path) as entries:
            for entry in entries:
                if not is_hidden(entry.name):
                    if entry.is_dir() or not may_be_there(entry.name):
                        return False
                    names.append(entry.name)
    return any(one.endswith(suffix) and "/" not in one for one in names) and all(map(may_be_there, names))


def is_dataset_of_stoker(source: Source) -> bool:
    """Whether a source is a dataset, or a version of one such as ``shards/train@2``."""
    path, _ = split_version(source.path)
    if is_url(path):
        return _is_folder_at_url(Source(path)) and Store(path).size(MANIFEST_NAME) is not None
    return source.dataset is not None or Path(path, MANIFEST_NAME).exists()


def is_shards(source: Source) -> bool:
    """Whether a source is TFRecords or LMDB folders: on a disk by their start, at a URL by name."""
    if is_url(source.path):
        if names_tfrecord(_text(source)) or is_pattern(source.path):
            return True
        return _is_folder_at_url(source) and any(map(names_tfrecord, source.folder.names("")))
    path = Path(expand(source.path)[0] if is_pattern(source.path) else source.path)
    if is_local_shard(path) or not path.is_dir():
        return is_local_shard(path)
    with os.scandir(path) as entries:
        shown = [entry for entry in entries if not entry.name.startswith(".")]
        return any(names_tfrecord(one.name) for one in shown) and not any(one.is_dir() for one in shown)


def is_table(source: Source) -> bool:
    """Whether a source is a table by its name, or a folder of tables without images."""
    text = _text(source)
    if text.endswith(PARQUET) or (text.startswith("hf://") and _is_folder_at_url(source)):
        return True
    if not is_url(text) and any((Path(text) / name).is_file() for name in (SAVED_STATE, SAVED_SPLITS)):
        return True
    return _is_folder_of(source, PARQUET) and not _is_folder_of(source, ".tar")  # whose metadata these are


def is_recordio(source: Source) -> bool:
    """Whether a source is a RecordIO file by its name, or a folder with nothing but such files."""
    return _is_named(source, (".rec",)) or _is_folder_of(source, ".rec", (".idx", ".lst"))


def is_mds(source: Source) -> bool:
    """Whether a source is an MDS shard by its name, or a folder with shards and ``index.json``."""
    is_compressed = ".mds." in _text(source).rpartition("/")[2]
    suffixes = tuple(find_container("mds").compressed_suffixes) if is_compressed else ()
    if _is_named(source, (".mds", *suffixes)):
        return True
    if is_url(source.path):
        return _is_folder_at_url(source) and any(".mds" in name for name in source.folder.names(""))
    try:
        described = json.loads(read_regular(Path(source.path, "index.json")))
    except (OSError, ValueError):
        return False
    return isinstance(described, dict) and "shards" in described


def is_webdataset(source: Source) -> bool:
    """Whether a source is a tar archive by its name, or a folder with archives and without images."""
    return _is_named(source, _TARS) or _is_folder_of(source, ".tar")


def is_voc(source: Source) -> bool:
    """Whether a source is a folder of VOC, or a list of images in its ImageSets."""
    return not has_list_suffix(source.path) and voc_folders(source) is not None


def voc_folders(source: Source) -> tuple[SourceFolder, str, str] | None:
    """A folder, and the names in it of the folders of the annotations and of the images, or empty."""
    root = source.folder
    parts = split_at_folder(source.path, IMAGE_SETS)
    if parts and not root.exists():
        root = source.open(parts[0])
    layout = readable_layout(source, VOC)
    if root.child(ANNOTATIONS).names(".xml") if root.child(ANNOTATIONS).exists() else ():
        beside = [name for name in ("JPEGImages", "images") if root.child(name).exists()]
        if not beside and layout and layout.annotations == ANNOTATIONS:
            beside = [layout.images]
        return root, ANNOTATIONS, beside[0] if beside else "JPEGImages"
    return layout and (root, layout.annotations, layout.images)


def is_open_images(source: Source) -> bool:
    """Whether a source is a CSV with the columns of Open Images' objects; at a URL, by its name."""
    path, _ = split_query(source.path)
    if not path.lower().endswith(".csv"):
        return False
    if is_url(path):
        return path.endswith(("annotations-bbox.csv", "annotations-object-segmentation.csv"))
    try:
        first, _, _ = read_regular(path, _HEAD_BYTES).decode("utf-8-sig", "replace").partition("\n")
        header = set(first.strip().split(","))
        return header >= BOX_COLUMNS or header >= MASK_COLUMNS
    except OSError:
        return False


def is_coco(source: Source) -> bool:
    """Whether a source is a ``.json`` file or a ``.json.gz``, on a disk or at a URL, that holds an object."""
    return _start_of_json(source)[:1] == b"{"


def holds_coco(source: Source) -> bool:
    """Whether the object in a ``.json`` or a ``.json.gz`` has the lists of COCO at its start."""
    return is_coco(source) and _OF_COCO.search(_start_of_json(source)) is not None


def _start_of_json(source: Source) -> bytes:
    path, _ = split_query(source.path)
    if not path.lower().endswith((".json", ".json.gz")):
        return b""
    head = b""
    if is_url(path):
        folder, name = split_url(source.path)
        head = Store(folder).read_if_there(name, most=_HEAD_BYTES) or b""
    else:
        with suppress(OSError):
            head = read_regular(path, _HEAD_BYTES)
    return unpacked(head).removeprefix(_BYTE_ORDER_MARK).lstrip()


def is_list(source: Source) -> bool:
    """Whether a source is a file, but not a YAML of YOLO; at a URL, whether it has the name of a list."""
    path = source.path
    if _is_image_set(source):
        return False
    if is_url(path):
        return has_list_suffix(path) or _text(source).lower().endswith(".txt")
    return not Path(path).is_dir() and not is_data_file(path)


def has_list_suffix(path: str | os.PathLike[str]) -> bool:
    """Whether a path or URL has the name of a list; a .txt may be something else."""
    return os.path.splitext(split_query(path)[0])[1].lower() in _LISTS  # noqa: PTH122 - it may be a URL


def is_yolo(source: Source) -> bool:
    """Whether a source is a folder with images and labels, such a folder of images, or a ``data.yaml``."""
    if is_data_file(source.path):
        return True
    folders = yolo_folders(source)
    return folders is not None and bool(label_files(folders[1]))


def is_data_file(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a ``data.yaml`` of YOLO or darknet's ``obj.data``, by its suffix; not by its name."""
    return split_query(path)[0].lower().endswith((".yaml", ".yml", ".data"))


def yolo_folders(source: Source) -> tuple[SourceFolder, SourceFolder] | None:
    """The folders of the images and of the labels; None where the source has none."""
    images, labels = source.folder.child("images"), source.folder.child("labels")
    if not (images.exists() and labels.exists()) and (parts := split_at_folder(source.path, "images")):
        images, labels = source.folder, source.open("/".join([parts[0], "labels", parts[1]]).rstrip("/"))
    if images.exists() and labels.exists():
        return images, labels
    layout = readable_layout(source, YOLO)
    return layout and (_inner(source, layout.images, images=True), _inner(source, layout.annotations))


def _inner(source: Source, name: str, *, images: bool = False) -> SourceFolder:
    if images and source.options.images is not None:
        return source.open(source.options.images)
    return source.folder.child(name) if name else source.folder


def label_files(labels: SourceFolder) -> list[str]:
    """Names of the files with labels in a folder of YOLO's labels."""
    return [name for name in labels.names(".txt") if name.rpartition("/")[2] not in NAMES_FILES]


def is_labelme(source: Source) -> bool:
    """Whether a source is a folder of images with the JSON of labelme."""
    return readable_layout(source, LABELME) is not None


def is_pairs(source: Source) -> bool:
    """Whether the caller has named a folder of class or instance masks, or a list in VOC's ImageSets."""
    return (source.options.masks or source.options.instances) is not None or _is_image_set(source)


def _is_image_set(source: Source) -> bool:
    """Whether a source is a list in ImageSets, of images with masks alone where :func:`is_voc` is not."""
    return _text(source).endswith(".txt") and split_at_folder(source.path, IMAGE_SETS) is not None


def is_of_ade20k(path: str) -> bool:
    """Whether the path of an image or a mask has a name that ADE20K gives to its files or its folder."""
    return path.rpartition("/")[2].startswith("ADE_") or "ADEChallengeData" in path  # such as ADE_train_1.png
