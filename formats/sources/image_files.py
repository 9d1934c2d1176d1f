"""The image files of a source, which may be broken or hostile: finding, reading and checking them.

Files are found by a walk through a folder on a disk, by a listing of a URL, or by their names. Suffixes are a
hint only: the content decides when a file is converted. A file that could block is not opened, and a file is
read whole or not at all.
"""

from __future__ import annotations

import codecs
import errno
import os
import posixpath
import stat
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from stoker.errors import DecodeError, ImageTooLargeError, SourceError
from stoker.urls import is_url, split_url, without_credentials

from ..codecs.codec import CODECS, SIGNATURE_BYTES, ImageHeader, is_image_start
from ..codecs.header import DAMAGE_CHECKS, needed_package, read_header
from ..dataset.columns import Strings, take_strings
from ..files import (
    is_hidden,
    is_inside,
    is_of_machine,
    is_regular,
    is_unicode,
    leaves_folder,
    modified_ns,
    printable_name,
    read_at,
    reason_of,
    storage_error,
)
from ..remote.store import Store, StoredFile
from .listing import ListedFiles, Skip

_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# A protocol buffer message is shorter than 2 GiB.
_LONGEST = (1 << 31) - (1 << 16)
_BYTES_BETWEEN_PIECES = 4  # of a RecordIO file, after the magic number that starts a piece


class SkippedError(Exception):
    """The reason to leave a file out; ``args`` are the reason and the detail of a :class:`.listing.Skip`."""


RESUMES = "Make the storage and the file readable, and run the same again: a conversion resumes."


def unreadable(error: OSError, path: str, *, listed: bool = False) -> tuple[str, str]:
    """Return why a file that cannot be read is left out; raise StorageError if its storage has failed.

    That is also so if a file is gone that was ``listed``.
    """
    of_the_file = isinstance(error, PermissionError) or not is_of_machine(reason_of(error))
    if error.errno and of_the_file and not listed:
        return "unreadable", error.strerror or ""
    raise storage_error(error.strerror or str(error), path, hint=RESUMES) from error


@contextmanager
def _opened(root: str, key: str, *, follow_links: bool = True, listed: bool = False) -> Iterator[int]:
    """Open a file; an error of the operating system is :func:`unreadable`."""
    path = os.path.join(root, key)  # noqa: PTH118 - a path object would take longer than reading
    # A folder of the path may have become a link since it was listed; an absolute path is its user's choice.
    if not follow_links and not key.startswith("/") and os.path.realpath(path) != path:
        raise SkippedError("link", "")
    try:
        descriptor = os.open(path, _OPEN_FLAGS | (0 if follow_links else os.O_NOFOLLOW))
        try:
            yield descriptor
        finally:
            os.close(descriptor)
    except OSError as error:
        is_link = error.errno == errno.ELOOP and not follow_links
        reason = ("link", "") if is_link else unreadable(error, path, listed=listed)
        raise SkippedError(*reason) from error


def looks_like_image(root: str, key: str, *, follow_links: bool = True) -> bool:
    """Whether the first bytes of a file are those of an image; False where it cannot be read."""
    try:
        with _opened(root, key, follow_links=follow_links) as descriptor:
            return is_regular(os.fstat(descriptor)) and _starts_image(descriptor)
    except SkippedError:
        return False


def _starts_image(descriptor: int) -> bool:
    return is_image_start(os.pread(descriptor, SIGNATURE_BYTES, 0))


def is_text(root: str, key: str) -> bool:
    """Whether the first bytes of a file are text in UTF-8; False where it cannot be read."""
    try:
        with _opened(root, key) as descriptor:
            start = os.pread(descriptor, _TEXT_BYTES, 0)
        codecs.getincrementaldecoder("utf-8")().decode(start, final=len(start) < _TEXT_BYTES)
    except (SkippedError, UnicodeDecodeError):
        return False
    return b"\0" not in start


def checked_start(data: bytes) -> bytes:
    """Return the bytes of a file that starts as an image does; SkippedError for another one."""
    if not is_image_start(data[:SIGNATURE_BYTES]):
        raise SkippedError("not an image", "")
    return data


def _check_size(found: int, listed: int) -> None:
    if found != listed:
        raise SkippedError("changed since it was listed", f"{listed} bytes, then {found}")


def read_source_file(root: str, key: str, size: int, *, follow_links: bool = True) -> bytes:
    """Read a file under ``root``, a resolved folder or a URL, that had ``size`` bytes when it was listed."""
    if size > _LONGEST:
        raise SkippedError("larger than 2 GiB", "")
    if is_url(root):
        data = _store(root).read_if_there(key, most=size + 1)  # one more byte shows that the file has grown
        if data is None:
            raise storage_error("No such file or directory", f"{root}/{key}", hint=RESUMES)
        _check_size(len(data), size)
        return checked_start(data)
    with _opened(root, key, follow_links=follow_links, listed=True) as descriptor:
        # The start of a large file shows whether the rest need be read.
        if size > 1 << 20 and not _starts_image(descriptor):
            raise SkippedError("not an image", "")
        return checked_start(_read(descriptor, size, 0, size))


def read_byte_range(file: str, file_size: int, offset: int, size: int, pieces: int = 1) -> bytes:
    """Read ``size`` bytes at an offset of a file or URL that had ``file_size`` bytes when it was listed.

    In a RecordIO file they may lie in several pieces.
    """
    if size > _LONGEST:
        raise SkippedError("larger than 2 GiB", "")
    stored = size + (pieces - 1) * _BYTES_BETWEEN_PIECES
    if is_url(file):
        folder, name = split_url(file)
        data = _store(folder).read_range(name, offset, offset + stored)
    else:
        with _opened("", file, listed=True) as descriptor:
            data = _read(descriptor, file_size, offset, stored)
    if pieces > 1:
        from ..containers.recordio import join_pieces

        data = join_pieces(data)
    return data


def _read(descriptor: int, file_size: int, offset: int, length: int) -> bytes:
    status = os.fstat(descriptor)
    if not is_regular(status):
        raise SkippedError("not a regular file", "")
    _check_size(status.st_size, file_size)
    data = read_at(descriptor, offset, length)
    if len(data) < length:
        raise SkippedError("changed since it was listed", "it became shorter while it was read")
    return data


@lru_cache(maxsize=16)
def _store(url: str) -> Store:
    return Store(url)


def check_image(data: bytes, max_pixels: int) -> ImageHeader:
    """Read the header of an image, and check that the file is whole where the codec allows it."""
    # No pixel is decoded: JPEG and WebP must have their end, and the chunks of PNG their checksums.
    try:
        header = read_header(data)
    except ImageTooLargeError as error:
        raise SkippedError(
            "too many pixels", f"{error.message}: cut it into tiles or make it smaller"
        ) from error
    except DecodeError as error:
        if (package := needed_package(error)) is not None:
            raise SkippedError(package, "") from error
        raise SkippedError("broken image", error.message) from error
    if header.height * header.width > max_pixels:
        raise SkippedError("too many pixels", f"{header.width} x {header.height}, more than {max_pixels}")
    check = DAMAGE_CHECKS.get(header.codec)
    if check is not None and (damage := check(data)):
        raise SkippedError("broken image", damage)
    return header


IMAGE_SUFFIXES = tuple(suffix for codec in CODECS.values() for suffix in codec.suffixes)
"""Suffixes of the images that Stoker reads, in lower case."""
EMPTY = "empty folder"
LISTED_TWICE = "listed twice"
OUTSIDE = "absolute path outside the source"
_OTHER_IMAGES = (
    ".jxl", ".psd", ".tga", ".svg", ".exr", ".hdr", ".dcm", ".ico", ".pcx", ".dng", ".cr2", ".cr3", ".nef",
    ".arw", ".raf", ".orf", ".rw2",
)  # fmt: skip
_TEXT_BYTES = 4096  # of a file that are tried as text
_SORTED = 10_000  # entries of a folder that are sorted at a time
_MOST_LINKS = 4  # to folders in linked folders: folders that link to each other have countless paths


def has_image_suffix(key: str) -> bool:
    """Whether a file has the name of an image in a format that Stoker reads."""
    return key.lower().endswith(IMAGE_SUFFIXES)


def is_array_name(key: str) -> bool:
    """Whether a file has the name of a NumPy array; it is an image where no file has the name of one."""
    return key.lower().endswith(".npy")


def may_be_image(skip: Skip) -> bool:
    """Whether a file that was left out may be an image, so that a strict conversion must stop."""
    if skip.reason == "not an image":
        return has_image_suffix(skip.key)
    return skip.reason not in ("hidden", EMPTY)


def _not_an_image(key: str) -> Skip:
    known = key.lower().endswith(_OTHER_IMAGES)
    return Skip(printable_name(key), "image of a format that is not read" if known else "not an image")


class FoundFile(NamedTuple):
    """A file: its path in the source, bytes, and time in nanoseconds since 1970."""

    key: str
    size: int
    modified: int


class FileTable:
    """Files in the order in which they were added.

    A file takes the bytes of its name and 24 more; Python objects would take hundreds of bytes.
    """

    def __init__(self) -> None:
        self._names = Strings()
        self._sizes = array("q")
        self._modified = array("q")

    def add(self, key: str, size: int, modified: int) -> None:
        self._names.add(key.encode())
        self._sizes.append(size)
        self._modified.append(modified)

    def sorted(
        self, root: Path | str, *, follow_links: bool = True
    ) -> tuple[ListedFiles, npt.NDArray[np.int64] | slice]:
        """The files sorted by key, and their numbers, (N,) int64, in the order in which they were added."""
        # In place of the numbers there is a slice if the files were added in order. Keys are sorted by their
        # bytes, which in UTF-8 is the order of Python's strings; equal keys keep their order. The table is
        # empty afterwards, so that files take memory once.
        names, self._names = self._names.to_arrow(), Strings()
        sizes, self._sizes = np.frombuffer(self._sizes, np.int64), array("q")
        modified, self._modified = np.frombuffer(self._modified, np.int64), array("q")
        order: npt.NDArray[np.int64] | slice = slice(None)
        if len(names) and not pc.all(pc.less_equal(names[:-1], names[1:])).as_py():
            order = np.frombuffer(pc.sort_indices(names).buffers()[1], np.int64)  # to_numpy() imports pandas
            names = take_strings(names, order)
            sizes = sizes[order]  # one after the other, so that one column at a time is there twice
            modified = modified[order]
        return ListedFiles(root, names, sizes, modified, follow_links=follow_links), order


class FileEntry(NamedTuple):
    """A file, or anything else that is not a folder."""

    key: str  # Its path in the source
    entry: os.DirEntry[str]


class SkippedFolder(NamedTuple):
    """A folder that is left out, so that a class may be missing."""

    skip: Skip  # The folder and the reason
    files: tuple[Skip, ...] = ()  # The files in it, where they can be listed

    @property
    def skips(self) -> tuple[Skip, ...]:
        """The files in it; the folder itself where they are not known; nothing for an empty folder."""
        return () if self.skip.reason == EMPTY else self.files or (self.skip,)


class _Folder(NamedTuple):
    """A folder to walk."""

    key: str
    path: str  # on the disk, without links
    links: tuple[str, ...] = ()  # paths of the folders that hold the links that lead to it


Walked = FileEntry | Skip | SkippedFolder


def walk_folder(root: str, *, follow_links: bool) -> Iterator[Walked]:
    """Everything under ``root``, a resolved folder, in the order of keys; links may lead anywhere."""
    # A link to a folder that holds the link is not followed, so the walk ends. A name that starts with a dot
    # is hidden. A folder of more than :data:`_SORTED` entries is sorted only in part, so that memory stays
    # small.
    walked = [_entries(_Folder("", root), follow_links)]
    while walked:
        entry = next(walked[-1], None)
        if entry is None:
            walked.pop()
        elif isinstance(entry, _Folder):
            walked.append(_entries(entry, follow_links))
        else:
            yield entry


def _entries(folder: _Folder, follow_links: bool) -> Iterator[_Folder | Walked]:
    """The entries of a folder, in the order of the keys of the files in them."""
    empty = True
    try:
        with os.scandir(folder.path) as entries:
            while part := list(islice(entries, _SORTED)):
                items = [_walked(entry, folder, follow_links) for entry in part]
                empty = empty and all(is_hidden(entry.name) for entry in part)
                part.clear()
                items.sort(key=_order, reverse=True)
                while items:
                    yield items.pop()  # an entry whose status was asked takes several hundred bytes
    except OSError as error:
        if not folder.key:
            raise SourceError(f"the folder cannot be read: {error.strerror}", path=folder.path) from error
        yield SkippedFolder(Skip(folder.key, *unreadable(error, folder.path)))
        return
    if empty and folder.key:
        yield SkippedFolder(Skip(folder.key, EMPTY))


def _order(entry: _Folder | Walked) -> str:
    """The key, with the character that follows it in the keys of files."""
    if isinstance(entry, SkippedFolder):
        return entry.skip.key
    return f"{entry.key}/" if isinstance(entry, _Folder) else entry.key


def _walked(entry: os.DirEntry[str], folder: _Folder, follow_links: bool) -> _Folder | Walked:
    """The entry of a folder, or the folder that it is or leads to."""
    key = f"{folder.key}/{entry.name}" if folder.key else entry.name
    path = f"{folder.path}/{entry.name}"
    if is_hidden(entry.name):
        return Skip(printable_name(key), "hidden")
    is_folder = entry.is_dir(follow_symlinks=False)
    if not is_unicode(entry.name):
        skip = Skip(printable_name(key), "name is not UTF-8")
        return _skipped_folder(path, skip) if is_folder else skip
    if is_folder:
        return _Folder(key, path, folder.links)
    return _link(entry, key, path, folder, follow_links) if entry.is_symlink() else FileEntry(key, entry)


def _link(
    entry: os.DirEntry[str], key: str, path: str, folder: _Folder, follow_links: bool
) -> _Folder | Walked:
    try:
        leads_to_folder = stat.S_ISDIR(entry.stat().st_mode)
    except OSError as error:
        gone = Skip(key, *unreadable(error, path))
        may_be_class = not folder.key and not has_image_suffix(key)
        return SkippedFolder(gone) if may_be_class else gone
    if not follow_links:
        return _skipped_folder(path, Skip(key, "link")) if leads_to_folder else Skip(key, "link")
    if not leads_to_folder:
        return FileEntry(key, entry)
    target, links = os.path.realpath(path), (*folder.links, folder.path)
    if any(holder == target or is_inside(holder, target) for holder in links):
        return Skip(key, "link to a folder that holds it")
    if len(links) > _MOST_LINKS:
        return SkippedFolder(Skip(key, "link behind too many links"))
    return _Folder(key, target, links)


def _skipped_folder(path: str, skip: Skip) -> SkippedFolder:
    try:
        names = sorted(name for name in os.listdir(path) if not is_hidden(name))  # noqa: PTH208 - a text
    except OSError:
        names = []
    return SkippedFolder(
        skip, tuple(Skip(f"{skip.key}/{printable_name(name)}", skip.reason) for name in names)
    )


def find_images(root: str, *, follow_links: bool = True) -> tuple[ListedFiles, list[Skip], list[Skip]]:
    """Files under ``root``, a resolved folder, that look like images, sorted; others; skipped folders."""
    walked = walk_folder(root, follow_links=follow_links)
    found = (_image(one, root, follow_links) if isinstance(one, FileEntry) else one for one in walked)
    return _gathered(Path(root), found, follow_links)


def find_remote_images(url: str, files: Iterable[StoredFile]) -> tuple[ListedFiles, list[Skip]]:
    """Files of a folder at a URL that have the names of images, sorted; and the others, as skips."""
    return _gathered(url, map(_stored_image, files), follow_links=True)[:2]


def _image(file: FileEntry, root: str, follow_links: bool) -> FoundFile | Skip:
    """A file that looks like an image, by its name or content; or why it is left out."""
    key = file.key
    try:
        status = file.entry.stat(follow_symlinks=follow_links)
    except OSError as error:
        return Skip(key, *unreadable(error, file.entry.path))
    if not is_regular(status):
        return Skip(key, "not a regular file")
    named = has_image_suffix(key) or is_array_name(key)  # such files need not be opened here
    if named or looks_like_image(root, key, follow_links=follow_links):
        return FoundFile(key, status.st_size, modified_ns(status))
    return _not_an_image(key)


def _stored_image(file: StoredFile) -> FoundFile | Skip:
    """A file with the name of an image: opening each would take a request."""
    if any(map(is_hidden, file.name.split("/"))):
        return Skip(printable_name(file.name), "hidden")
    named = has_image_suffix(file.name) or is_array_name(file.name)
    return FoundFile(*file) if named else _not_an_image(file.name)


def _gathered(
    root: Path | str, found: Iterable[FoundFile | Skip | SkippedFolder], follow_links: bool
) -> tuple[ListedFiles, list[Skip], list[Skip]]:
    """The images, sorted; other files, and folders. Arrays are images if no file has the name of one."""
    table, is_array, has_images = FileTable(), bytearray(), False
    skipped: list[Skip] = []
    folders: list[Skip] = []
    for one in found:
        if isinstance(one, SkippedFolder):
            folders.append(one.skip)
            skipped += one.skips
        elif isinstance(one, Skip):
            skipped.append(one)
        else:
            table.add(*one)
            is_array.append(is_array_name(one.key))
            has_images = has_images or has_image_suffix(one.key)
    files, order = table.sorted(root, follow_links=follow_links)
    if has_images and any(is_array):
        arrays = np.frombuffer(is_array, bool)[order]
        skipped += map(_not_an_image, take_strings(files.keys, np.flatnonzero(arrays)).to_pylist())
        files = files.take(np.flatnonzero(~arrays))
    return files, sorted(skipped), folders


class NamedFiles(NamedTuple):
    """Files that a list names, sorted by key; ``entries``, (N,) int64, has their indexes in the list."""

    files: ListedFiles
    entries: npt.NDArray[np.int64]
    # (M, 2) int64, of each file that is listed again: the indexes of the entry that is taken and of the other
    repeated: npt.NDArray[np.int64]


def resolve(folder: str | os.PathLike[str]) -> str:
    """The real path of a folder; its URL as it is."""
    return os.fspath(folder).rstrip("/") if is_url(folder) else os.path.realpath(folder)


def find_files(
    root: str, paths: Iterable[str], *, follow_links: bool = True, outside: bool = False
) -> tuple[NamedFiles, list[Skip]]:
    """The files that a list names, each once; and the others, as skips."""
    # Paths start in ``root``, from :func:`resolve`, and stay there, but absolute ones with ``outside``.
    look: Callable[[str], FoundFile | Skip] = partial(_named_file, root, follow_links, outside)
    if is_url(root):
        paths = list(paths)
        store = Store(root)
        stored = {file.name: file for file in store.files({_key_at(root, path) for path in paths} - {""})}
        look = partial(_stored_file, root, stored)
    table, entries = FileTable(), array("q")
    skipped: list[Skip] = []
    for number, path in enumerate(paths):
        looked = look(path)
        if isinstance(looked, Skip) and "\\" in path:  # of Windows, where no file has it in its name
            there = look(path.replace("\\", "/"))
            looked = looked if isinstance(there, Skip) else there
        if isinstance(looked, Skip):
            skipped.append(looked)
        else:
            table.add(*looked)
            entries.append(number)
    files, order = table.sorted(root, follow_links=follow_links)
    numbers = np.frombuffer(entries, np.int64)[order]
    again = np.zeros(len(files), bool)
    again[1:] = pc.equal(files.keys[1:], files.keys[:-1]).to_numpy(zero_copy_only=False)
    kept = np.maximum.accumulate(np.where(again, 0, np.arange(len(files))))
    repeated = np.stack([numbers[kept[again]], numbers[again]], 1)
    if again.any():
        skipped += [Skip(key, LISTED_TWICE) for key in files.keys.filter(again).to_pylist()]
        files, numbers = files.take(np.flatnonzero(~again)), numbers[~again]
    return NamedFiles(files, numbers, repeated), skipped


def _named_file(root: str, follow_links: bool, outside: bool, path: str) -> FoundFile | Skip:
    if is_url(path):
        return Skip(without_credentials(printable_name(path)), "URL in a list on a disk")
    key = os.path.normpath(path)
    is_relative = not key.startswith("/")
    if is_relative and leaves_folder(key):
        return Skip(printable_name(key), "path that leaves the source")
    target = os.path.join(root, key)  # noqa: PTH118 - a path object would take longer
    try:
        key.encode()
        status = os.stat(target, follow_symlinks=follow_links)  # noqa: PTH116 - a path object would take longer
    except UnicodeEncodeError:
        return Skip(printable_name(key), "name is not UTF-8")
    except (OSError, ValueError) as error:
        reason = unreadable(error, target) if isinstance(error, OSError) else ("unreadable", str(error))
        return Skip(printable_name(key), *reason)
    left_out = "" if is_regular(status) else "not a regular file"
    if not (is_relative or outside or is_inside(key, root) or is_inside(os.path.realpath(key), root)):
        left_out = OUTSIDE
    # With ``outside``, folders on an absolute path may be links: they are its writer's choice.
    elif not follow_links and (
        stat.S_ISLNK(status.st_mode) or ((is_relative or not outside) and os.path.realpath(target) != target)
    ):
        left_out = "link"
    if left_out:
        return Skip(printable_name(key), left_out)
    return FoundFile(key, status.st_size, modified_ns(status))


def _key_at(url: str, path: str) -> str:
    """Name of a file in the folder at a URL; empty if the path leads out of it."""
    relative = path.removeprefix(f"{url}/")
    key = posixpath.normpath(relative)
    return "" if key.startswith(("/", "../")) or "://" in relative else key


def _stored_file(url: str, files: dict[str, StoredFile], path: str) -> FoundFile | Skip:
    key = _key_at(url, path)
    if not key:
        return Skip(without_credentials(printable_name(path)), "path that leaves the source")
    if key not in files:
        return Skip(printable_name(key), "unreadable", "No such file or directory")
    return FoundFile(*files[key])
