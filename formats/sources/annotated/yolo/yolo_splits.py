"""The splits of a YOLO dataset, whose images a ``data.yaml`` of Ultralytics or Roboflow names.

``train``, ``val`` and ``test`` are each a folder, a list of images as a .txt, or several of these. Paths
start at ``path``, which starts at the folder of the file. The rules are those of ``check_det_dataset`` of
Ultralytics: ``../train/images``, which Roboflow writes, means ``train/images`` if the former does not exist.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker.errors import SourceError

from ...folders.source_folder import SourceFolder, open_folder, split_at_folder
from ...listing import ListedFiles, Skip
from ...lists.file_list import find_files
from ...no_images import no_images_error
from .yolo_names import YoloNames, fail_yaml, load_yaml, parse_names, yaml_strings

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
