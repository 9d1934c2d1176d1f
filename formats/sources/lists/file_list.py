"""A list of images as a source: CSV, a JSON array, JSON Lines, or a .txt as Caffe and DIGITS take it.

Every entry has ``path`` and ``label``, or columns of other names that the user gives; its other values become
columns of the index: integers, floats, or text. A label is a number or a name; the sorted names are the
classes. Where images have several labels or none, entries have ``labels`` instead of ``label``: in JSON a
list of numbers or names, which ``label`` may hold, too; in CSV a text with ``|`` between the labels. A line
of a .txt is a path and a number.

A relative path starts at the folder of the list, or at the folder of images that the user names, and stays in
it. An absolute path is taken as it is. Both may be links.
"""

from __future__ import annotations

import os
import posixpath
import stat
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from stoker.urls import is_url, without_credentials

from ...files import is_regular, leaves_folder, printable_name
from ...remote.store import Store, local_copies
from ..file_table import FileTable
from ..listing import ListedFiles, Listing, Skip
from ..no_images import no_images_error
from ..source import Source
from .entry_columns import EntryColumns
from .list_entries import ListColumns, fail, has_cells, has_list_suffix, read_entries
from .missing_files import likely_cause


def is_list(source: Source) -> bool:
    """Whether a source is a file, but not a YAML of YOLO; at a URL, whether it has the name of a list."""
    path = source.path
    if is_url(path):
        return has_list_suffix(path) or os.fspath(path).lower().endswith(".txt")
    return not Path(path).is_dir() and not os.fspath(path).lower().endswith((".yaml", ".yml"))


def list_listed_images(source: Source) -> Listing:
    """List the images that a list on a disk or at a URL names.

    Raises: As :func:`list_file`, and StorageError where a URL cannot be read.
    """
    folder = os.fspath(source.path).rpartition("/")[0] if is_url(source.path) else None
    usual = ListColumns()
    columns = ListColumns(
        source.path_column or usual.path,
        source.label_column or usual.label,
        source.suffix or usual.suffix,
        needs_label=source.caption_column is None,
    )
    with local_copies([source.path]) as (file,):
        return list_file(file, source.images or folder, columns, follow_links=source.follow_links)


class NamedFiles(NamedTuple):
    """Files that a list names, sorted by key; ``entries``, (N,) int64, has their indexes in the list."""

    files: ListedFiles
    entries: npt.NDArray[np.int64]


def list_file(
    path: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    columns: ListColumns | None = None,
    *,
    follow_links: bool = True,
) -> Listing:
    """List the images that a file names; each of them once.

    Relative paths start in the folder or URL ``root``, by default the folder of the file.
    """
    file = Path(path)
    folder = resolve(file.parent if root is None else root)
    values = EntryColumns(cells=has_cells(file))
    entries = read_entries(file, columns or ListColumns())
    named, skipped = find_files(folder, values.gather(entries), follow_links=follow_links)
    if not len(named.files) and not skipped:
        fail(file, "the list has no entries")
    if not len(named.files):
        hint = None if is_url(folder) else likely_cause(folder, [skip.key for skip in skipped])
        raise no_images_error("the list names no image that can be read", file, skipped, hint)
    try:
        labels, classes = values.labels(named.entries) if values.has_labels() else (None, ())
        missing = set(values.class_names()) - set(classes) if classes and skipped else set()
    except ValueError as error:
        fail(file, str(error))
    return Listing(
        **vars(named.files),
        labels=labels,
        classes=classes,
        columns=values.others(named.entries),
        skipped=tuple(sorted(skipped)),
        missing_classes=tuple(Skip(name, "no image of it can be read") for name in sorted(missing)),
    )


def resolve(folder: str | os.PathLike[str]) -> str:
    """The real path of a folder; its URL as it is."""
    return os.fspath(folder).rstrip("/") if is_url(folder) else os.path.realpath(folder)


def find_files(
    root: str, paths: Iterable[str], *, follow_links: bool = True
) -> tuple[NamedFiles, list[Skip]]:
    """The files that a list names, each once; and the others, as skips.

    Relative paths start in ``root``, from :func:`resolve`, and stay there.
    """
    look: Callable[[str], tuple[str, int, int] | Skip] = partial(_look_at, root, follow_links)
    if is_url(root):
        paths = list(paths)
        look = _in_store(Store(root), paths)
    table, entries = FileTable(), array("q")
    skipped: list[Skip] = []
    for number, path in enumerate(paths):
        looked = look(path)
        if isinstance(looked, Skip):
            skipped.append(looked)
        else:
            table.add(*looked)
            entries.append(number)
    files, order = table.sorted(root, follow_links=follow_links)
    named = NamedFiles(files, np.frombuffer(entries, np.int64)[order])
    again = np.zeros(len(files), bool)
    again[1:] = pc.equal(files.keys[1:], files.keys[:-1]).to_numpy(zero_copy_only=False)
    if again.any():
        skipped += [Skip(key, "listed twice") for key in files.keys.filter(again).to_pylist()]
        named = NamedFiles(files.take(np.flatnonzero(~again)), named.entries[~again])
    return named, skipped


def _look_at(root: str, follow_links: bool, path: str) -> tuple[str, int, int] | Skip:
    """Key, bytes and time of a file; or a skip."""
    if is_url(path):
        return Skip(without_credentials(printable_name(path)), "URL in a list on a disk")
    key = os.path.normpath(path)
    if not key.startswith("/") and leaves_folder(key):
        return Skip(printable_name(key), "path that leaves the source")
    target = os.path.join(root, key)  # noqa: PTH118 - a path object would take longer
    try:
        key.encode()
        status = os.stat(target, follow_symlinks=follow_links)  # noqa: PTH116 - a path object would take longer
    except UnicodeEncodeError:
        return Skip(printable_name(key), "name is not UTF-8")
    except (OSError, ValueError) as error:
        return Skip(printable_name(key), "unreadable", getattr(error, "strerror", None) or str(error))
    is_link = not follow_links and (stat.S_ISLNK(status.st_mode) or _is_linked(target, key))
    if is_link or not is_regular(status):
        return Skip(printable_name(key), "link" if is_link else "not a regular file")
    return key, status.st_size, status.st_mtime_ns


def _is_linked(target: str, key: str) -> bool:
    """Whether a folder on a relative path is a link; those of an absolute path are its writer's choice."""
    return not key.startswith("/") and os.path.realpath(target) != target


def _in_store(store: Store, paths: Sequence[str]) -> Callable[[str], tuple[str, int, int] | Skip]:
    """A function like :func:`_look_at` for a URL, whose storage is asked once for all paths."""

    def key_of(path: str) -> str:
        """Name in the store; empty if the path leads out of it."""
        relative = path.removeprefix(f"{store.url}/")
        key = posixpath.normpath(relative)
        return "" if key.startswith(("/", "../")) or "://" in relative else key

    files = {file.name: file for file in store.files({key_of(path) for path in paths} - {""})}

    def look_at(path: str) -> tuple[str, int, int] | Skip:
        key = key_of(path)
        if not key:
            return Skip(without_credentials(printable_name(path)), "path that leaves the source")
        file = files.get(key)
        if file is None:
            return Skip(printable_name(key), "unreadable", "No such file or directory")
        return key, file.size, file.modified

    return look_at
