"""A source of images as the caller names it, and its folders, with one interface on a disk and at a URL."""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from stoker.errors import SourceError
from stoker.processes import cached_property
from stoker.urls import is_url, split_url

from ..dataset.dataset import Dataset
from ..files import leaves_folder, open_regular, read_at
from ..remote.store import Store, StoredFile
from ..threads import thread_map
from ..token_columns import CAPTION
from .image_files import (
    IMAGE_SUFFIXES,
    FileEntry,
    find_images,
    find_remote_images,
    unreadable,
    walk_folder,
)
from .listing import ListedFiles, Skip
from .options import SourceOptions

NAMES_FILE = "classes.txt"
"""The file with the names of classes beside images or masks, one on each line."""
NAMES_FILES = (NAMES_FILE, "obj.names", "_darknet.labels")
"""The same of YOLO, by LabelImg, darknet and Roboflow."""
_SUFFIXES = (*IMAGE_SUFFIXES, *map(str.upper, IMAGE_SUFFIXES))
_LONGEST = 16 << 20  # bytes of a file of annotations, or of names
_CONCURRENT = 32  # files that are read from a URL at the same time


@dataclass(frozen=True)
class Source:
    """A source of images, before its files are listed.

    It keeps the folders that are opened in it, so that detection and listing read each folder once.
    """

    path: str | os.PathLike[str]  # The source, or its URL
    options: SourceOptions = field(default_factory=SourceOptions)
    caption_column: str | None = None  # Name of the column or part with the captions of an image
    dataset: Dataset | None = None  # The opened dataset, if the source is one; ``path`` is its address
    _folders: dict[str, SourceFolder] = field(default_factory=dict, init=False, repr=False, compare=False)
    # What :func:`.layouts.find_layout` has found, once it has looked
    layouts: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def parts(self) -> Mapping[str, str | None]:
        """The use of columns of a table or parts of a sample, by name: image, label, key, or a new name."""
        options = self.options
        roles = {options.image_column: "image", "" if options.unlabelled else options.label_column: "label"}
        parts = {**{name: role for name, role in roles.items() if name is not None}, **(options.fields or {})}
        if self.caption_column is not None and self.caption_column not in parts.values():
            parts = {self.caption_column: CAPTION, **parts}
        return parts

    @property
    def caption_name(self) -> str | None:
        """The name in :attr:`parts` of the column with captions."""
        return self.caption_column and self.parts.get(self.caption_column, self.caption_column)

    @property
    def folder(self) -> SourceFolder:
        """The source as a folder, which need not exist."""
        return self.open(self.path)

    @property
    def folder_of_file(self) -> str:
        """Path or URL of the folder that holds the source, a file."""
        if is_url(self.path):
            return split_url(self.path)[0]
        return os.path.dirname(os.fspath(self.path)) or "."  # noqa: PTH120 - as text

    def open(self, path: str | os.PathLike[str]) -> SourceFolder:
        """The folder at a path or URL, which need not exist; always the same one."""
        key = os.fspath(path)
        if key not in self._folders:
            self._folders[key] = open_folder(path, follow_links=self.options.follow_links)
        return self._folders[key]


class SourceFolder:
    """A folder with annotations or with images, on a disk, which need not exist."""

    def __init__(self, path: Path, follow_links: bool) -> None:
        self._path = path
        self.follow_links = follow_links
        self.root = os.path.realpath(path)  # of a folder at a URL, the URL

    def child(self, name: str) -> SourceFolder:
        return SourceFolder(self._path / name, self.follow_links)

    @property
    def parent(self) -> SourceFolder:
        return SourceFolder(self._path.absolute().parent, self.follow_links)

    def exists(self) -> bool:
        return self._path.is_dir()

    def has(self, name: str) -> bool:
        try:
            return (self._path / name).is_file()
        except OSError as error:
            unreadable(error, str(self._path / name))
            return False  # its name is too long
        except ValueError:  # a zero byte
            return False

    def image_of(self, images: str, stem: str, named: str) -> str:
        """The path of an image in the folder ``images``, by the path of its annotation without suffix."""
        # The stem decides, as in other readers: a copied or renamed annotation often keeps the old name.
        named = named.replace("\\", "/")
        inner, _, name = stem.rpartition("/")
        stems = [f"{name}{suffix}" for suffix in (PurePosixPath(named).suffix, *_SUFFIXES) if suffix]
        names = [one for one in (named, named.rpartition("/")[2]) if one and not leaves_folder(one)]
        folders = dict.fromkeys([posixpath.join(images, inner), images])
        paths = [posixpath.join(folder, one) for some in (stems, names) for folder in folders for one in some]
        return next(filter(self.has, paths), paths[0])

    def images(self) -> tuple[ListedFiles, list[Skip]]:
        """Files in it, and in folders in it, that look like images, sorted; and the others, as skips."""
        return find_images(self.root, follow_links=self.follow_links)[:2]

    def names(self, suffix: str) -> list[str]:
        """Paths of the files in it, and in folders in it, that end in ``suffix``, sorted."""
        found = walk_folder(self.root, follow_links=self.follow_links)
        return sorted(one.key for one in found if isinstance(one, FileEntry) and one.key.endswith(suffix))

    def read(self, names: Iterable[str]) -> Iterator[bytes | OSError | ValueError]:
        """Contents of files, in order; an error stands for a file that cannot be read."""
        return map(self._try, names)

    def _try(self, name: str) -> bytes | OSError | ValueError:
        try:
            return self._read(name)
        except OSError as error:
            unreadable(error, str(self._path / name), listed=isinstance(error, PermissionError))
            return error
        except ValueError as error:
            return error

    def find(self, name: str) -> bytes | None:
        return self._read(name) if self.has(name) else None

    def head(self, name: str, most: int) -> bytes:
        """The first bytes of a file, however large it is; empty where it cannot be read."""
        with suppress(OSError, ValueError), open_regular(f"{self.root}/{name}") as (descriptor, _):
            return read_at(descriptor, 0, most)
        return b""

    def lines(self, name: str) -> list[str] | None:
        """Lines of a file of names, in UTF-8; None where there is none."""
        try:
            content = self.find(name)
            # utf-8-sig: spreadsheets write a byte order mark.
            return None if content is None else content.decode("utf-8-sig").splitlines()
        except (OSError, ValueError) as error:
            raise SourceError(f"the names cannot be read: {error}", path=f"{self.root}/{name}") from error

    def _read(self, name: str) -> bytes:
        if leaves_folder(name):
            raise ValueError("path that leaves the source")
        path = f"{self.root}/{name}"
        if not self.follow_links and os.path.realpath(path) != os.path.normpath(path):
            raise ValueError("link")
        with open_regular(path) as (descriptor, size):
            if error := _size_error(size):
                raise error
            return read_at(descriptor, 0, size)


class _StoredFolder(SourceFolder):
    """A folder at a URL, whose files are listed once, when they are first needed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._children: dict[str, SourceFolder] = {}  # kept, so that each lists its files once
        self.root = store.url
        self.follow_links = True  # there are none

    def child(self, name: str) -> SourceFolder:
        if name not in self._children:
            self._children[name] = _StoredFolder(self._store.child(name))
        return self._children[name]

    @property
    def parent(self) -> SourceFolder:
        scheme, _, path = self.root.partition("://")
        return open_folder(f"{scheme}://{path.rpartition('/')[0] or path}")

    def exists(self) -> bool:
        return self._store.is_folder()

    def has(self, name: str) -> bool:
        return name in self._files

    def images(self) -> tuple[ListedFiles, list[Skip]]:
        return find_remote_images(self.root, self._files.values())

    def names(self, suffix: str) -> list[str]:
        return [name for name in self._files if name.endswith(suffix)]

    def read(self, names: Iterable[str]) -> Iterator[bytes | OSError | ValueError]:
        _ = self._files  # this thread lists them, before the pool's threads all would
        for _, content in thread_map(self._fetch, names, "fetch", _CONCURRENT, 4 * _CONCURRENT):
            yield content

    def find(self, name: str) -> bytes | None:
        return self._store.read_if_there(name)

    def head(self, name: str, most: int) -> bytes:
        return self._store.read_if_there(name, most) or b""

    def _fetch(self, name: str) -> bytes | OSError | ValueError:
        if (file := self._files.get(name)) is None:
            return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return _size_error(file.size) or self._store.read(name)

    @cached_property
    def _files(self) -> dict[str, StoredFile]:
        return {file.name: file for file in self._store.files()}


def open_folder(path: str | os.PathLike[str], *, follow_links: bool = True) -> SourceFolder:
    """The folder at a path or URL, which need not be there."""
    return _StoredFolder(Store(path)) if is_url(path) else SourceFolder(Path(path), follow_links)


def split_at_folder(path: str | os.PathLike[str], name: str) -> tuple[str, str] | None:
    """The parts of a path or URL before and after its last folder ``name``; None if it has none."""
    text = os.fspath(path).rstrip("/") if is_url(path) else os.path.abspath(path)  # noqa: PTH100 - as text
    before, separator, behind = f"{text}/".rpartition(f"/{name}/")
    is_host = is_url(path) and not before.partition("://")[2]
    return None if is_host or not separator else (before or "/", behind.rstrip("/"))


def _size_error(size: int) -> ValueError | None:
    return ValueError(f"{size} bytes, more than {_LONGEST}") if size > _LONGEST else None
