"""Folders on any storage that fsspec knows: s3, gs, http, sftp, memory and more.

A thin layer over fsspec: calls are retried where another try may succeed, and errors name the URL. fsspec
finds the credentials: in its configuration files, the environment, or the settings of the storage's own
tools.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from stoker.errors import StorageError
from stoker.urls import without_credentials

from .file_system import StoredFile, file_system, modified, read_asynchronously
from .hints import BodyCutShortError, hint_for
from .retry import Retrier, StoppedError
from .web import crawl, look_up

T = TypeVar("T")

_OTHER_CACHES = frozenset({"file", "local", "memory", "blockcache", "cached"})
"""Protocols whose files take no ``cache_type``. Other files read 5 MiB too much without it."""


def is_url(path: object) -> bool:
    """Return whether a path is a URL such as ``s3://bucket/folder``."""
    return isinstance(path, (str, os.PathLike)) and "://" in str(os.fspath(path))


class Store:
    """A folder at a URL, or of the local file system."""

    def __init__(self, url: str | os.PathLike[str], stop: threading.Event | None = None) -> None:
        self.url = os.fspath(url).rstrip("/")
        self._stop = stop or threading.Event()
        self._retrier = Retrier(self._stop)
        self._fs, root = file_system(self.url)
        self._root = str(root).rstrip("/")
        protocol = self._fs.protocol
        self._protocols = (protocol,) if isinstance(protocol, str) else tuple(protocol)

    def __repr__(self) -> str:
        return f"Store({without_credentials(self.url)!r})"

    def at(self, name: str) -> str:
        """Return the URL of a file in the folder."""
        return f"{self.url}/{name}"

    def child(self, name: str) -> Store:
        """Return a folder in this one; this one for an empty name."""
        return Store(self.at(name), self._stop) if name else self

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        content = self.read_if_there(name)
        if content is None:
            raise self._missing(name)
        return content

    def read_if_there(self, name: str, most: int | None = None) -> bytes | None:
        """Return the content of a file, or its first ``most`` bytes; None if there is no such file.

        Without ``most``, object stores need another request, for the size of the file.
        """
        limits = {} if most is None else {"start": 0, "end": most}
        try:
            return self._try(name, "read", lambda: self._cat(name, **limits))
        except FileNotFoundError:
            return None

    def download(self, name: str, file: Path) -> None:
        """Copy a file to a local one."""
        try:
            self._try(name, "read", lambda: self._fs.get_file(self._readable(name), os.fspath(file)))
        except FileNotFoundError as error:
            raise self._missing(name) from error

    def read_range(self, name: str, start: int, stop: int) -> bytes:
        """Return bytes ``start`` to ``stop - 1`` of a file."""

        def read() -> bytes:
            data = self._cat(name, start=start, end=stop)
            if len(data) > stop - start:
                raise NotImplementedError("the server does not answer range requests")
            if len(data) < stop - start:
                raise BodyCutShortError(f"{len(data)} bytes came where {stop - start} were asked for")
            return data

        try:
            return self._try(name, f"read (bytes {start} to {stop})", read)
        except FileNotFoundError as error:
            raise self._missing(name) from error

    def _cat(self, name: str, **limits: int) -> bytes:
        if self._fs.async_impl:
            return read_asynchronously(self._fs, self._path(name), self._stop, **limits)
        if limits and not _OTHER_CACHES.intersection(self._protocols):
            return bytes(self._fs.cat_file(self._readable(name), cache_type="none", **limits))
        return bytes(self._fs.cat_file(self._readable(name), **limits))

    def is_folder(self) -> bool:
        """Return whether the folder holds anything; at a web server, whether the server lists it."""
        return bool(self._try("", "looked for", lambda: self._fs.isdir(self._root)))

    def files(self, names: Iterable[str] | None = None) -> list[StoredFile]:
        """Return all files in the folder and in folders in it, sorted by name.

        A web server need not list its folders: it is asked for ``names``, if they are given.
        """
        if self.url.startswith(("http://", "https://")):
            facts = look_up(self._info, crawl(self._links, self._root) if names is None else names)
        else:
            self._fs.invalidate_cache()  # other machines, such as Ray's, may have written since
            listed = self._try("", "listed", lambda: self._fs.find(self._root, detail=True))
            facts = {path.removeprefix(self._root).lstrip("/"): info for path, info in listed.items()}
        return sorted(
            StoredFile(name, int(info.get("size") or 0), modified(info))
            for name, info in facts.items()
            if name and info.get("type", "file") == "file"
        )

    def size(self, name: str) -> int | None:
        """Return the bytes of a file; None if there is no such file."""
        info = self._info(name)
        return int(info.get("size") or 0) if info and info.get("type", "file") == "file" else None

    def modified(self, name: str) -> int:
        """Return the time of a file's last change, nanoseconds since 1970; 0 if not stated."""
        return modified(self._info(name) or {})

    def _links(self, page: str) -> list[str]:
        try:
            return list(self._try("", "listed", lambda: self._fs.ls(page, detail=False)))
        except FileNotFoundError as error:
            raise self._missing(page.removeprefix(f"{self._root}/")) from error

    def _info(self, name: str) -> dict[str, Any] | None:
        """Return the facts that the storage states about a file; None if there is no such file."""

        def ask() -> dict[str, Any] | None:
            try:
                return dict(self._fs.info(self._path(name)))
            except (FileNotFoundError, NotADirectoryError):
                return None

        return self._try(name, "looked for", ask)

    def write(self, name: str, content: bytes) -> None:
        """Write a small file, which object stores show whole or not at all."""
        self._write(name, lambda path: self._fs.pipe_file(path, content))

    def upload(self, file: Path, name: str) -> None:
        """Copy a local file to the folder, and check that all of it has arrived."""

        def upload(path: str) -> None:
            self._fs.put_file(os.fspath(file), path)
            self._fs.invalidate_cache()
            if (arrived := self._fs.size(path)) != (size := file.stat().st_size):
                raise OSError(f"{arrived} bytes arrived of {size}")

        self._write(name, upload)

    def move(self, source: str, target: str) -> None:
        """Rename a file within the folder; storage that cannot rename copies and removes it."""
        origin = self._path(source)
        move = self._in_folder(target, lambda path: self._fs.mv(origin, path, recursive=False))
        try:
            self._try(source, f"moved to {target}", move)
        except FileNotFoundError as error:
            # The first try may have moved the file although its answer was lost.
            if not self._try(target, "looked for", lambda: self._fs.exists(self._path(target))):
                raise self._missing(source) from error

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all its files, if it exists."""

        def remove() -> None:
            self._fs.invalidate_cache()
            if self._fs.exists(self._path(name)):
                self._fs.rm(self._path(name), recursive=True)

        self._try(name, "removed", remove)

    def _write(self, name: str, write: Callable[[str], None]) -> None:
        try:
            self._try(name, "written", self._in_folder(name, write))
        except FileNotFoundError as error:
            raise StorageError(
                "cannot be written: there is no such bucket or folder",
                path=self.at(name),
                hint="make it, or correct the address",
            ) from error

    def _in_folder(self, name: str, write: Callable[[str], None]) -> Callable[[], None]:
        """Return a function that writes a file, and makes its folder if missing, but never a bucket."""
        path = self._path(name)
        folder = path.rpartition("/")[0]
        bucket = "/".join(folder.split("/")[: 2 if folder.startswith("/") else 1])

        def attempt() -> None:
            try:
                write(path)
            except FileNotFoundError:
                if not self._fs.exists(bucket):
                    raise
                self._fs.makedirs(folder, exist_ok=True)
                write(path)

        return attempt

    def _missing(self, name: str) -> StorageError:
        return StorageError("does not exist", path=self.at(name), hint="check the address")

    def _readable(self, name: str) -> str:
        """Return the path of a file; NotImplementedError for one that could block, such as a FIFO."""
        path = self._path(name)
        if "file" in self._protocols and self._fs.info(path)["type"] == "other":
            raise NotImplementedError("not a regular file")
        return path

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _try(self, name: str, what: str, action: Callable[[], T]) -> T:
        path = self.at(name) if name else self.url
        try:
            return self._retrier.call(action, f"{path}: being {what}")
        except (FileNotFoundError, StoppedError):
            raise
        except Exception as error:  # each storage raises other errors
            raise StorageError(
                f"cannot be {what}: {str(error) or type(error).__name__}", path=path, hint=hint_for(error)
            ) from (error if without_credentials(self.url) == self.url else None)
