"""Folders on any storage that fsspec knows: s3, gs, http, sftp, memory and more.

A thin layer over fsspec: calls are retried where another try may succeed, and errors name the URL. fsspec
finds the credentials: in its configuration files, the environment, or the settings of the storage's own
tools.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import random
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from datetime import datetime
from functools import cache, partial
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote

from stoker.errors import MissingDependencyError, SourceError, StorageError, install_hint
from stoker.log import EventLog
from stoker.urls import is_url, join_url, split_query, split_url, without_credentials

from ..files import temporary_folder
from ..threads import thread_map

T = TypeVar("T")

_LOG = EventLog("storage")
_SLOW = 10.0  # seconds: a request of 8 MiB at 7 Mbit/s
_TRIES = 6
_PATIENT_TRIES = 10  # their pauses take 51 seconds in all, in which a server can restart
_FIRST_PAUSE = 0.1  # seconds; each pause is twice the one before, plus or minus a half
_PERMANENT = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, NotImplementedError)
# HTTP statuses of a server that is too busy: another try may succeed, as with no other 4xx.
_TRANSIENT_STATUSES = frozenset({408, 425, 429})
# The server, or the network to it, is gone. s3fs raises EBUSY where the server wants fewer requests.
_LOST = "EBUSY ECONNABORTED ECONNREFUSED ECONNRESET EHOSTUNREACH ENETDOWN ENETUNREACH EPIPE"
_NETWORK_ERRORS = frozenset(getattr(errno, name) for name in _LOST.split())

_MISSING = (404, 410)  # HTTP statuses of a file that does not exist
_CONCURRENT = 32
_DEEPEST = 64  # levels of folders; a server with one page for all addresses has folders without end
# Protocols whose files take no ``cache_type``. Other files read 5 MiB too much without it.
_OTHER_CACHES = frozenset({"file", "local", "memory", "blockcache", "cached"})
_WEB = ("http://", "https://")
_VALIDATORS = ("ETag", "etag", "Last-Modified", "Content-MD5", "Digest", "generation", "blob_id", "sha")
"""Names in fsspec's ``info``, besides times, of what changes with the content of a file."""
_CONNECT_SECONDS = 15.0
_SILENT_SECONDS = 30.0
_LEAST_RATE = 1 << 10  # bytes a second, after _SILENT_SECONDS
_MOST_WHOLE = 1 << 28  # bytes of a file in memory whose size is not known
_MOST_PAGE = 1 << 26  # bytes of a page of links
_MOST_UNSTATED = 1 << 36  # bytes of a download whose size the server does not state
_POLL = 0.2  # seconds between two checks whether a read has been stopped
_counted = [0]


def retries() -> int:
    """Return how often this process has tried a request again."""
    return _counted[0]


class StoppedError(Exception):
    """The caller has been stopped and needs no result."""


class BodyCutShortError(OSError):
    """The answer has fewer bytes than requested."""


class StoredFile(NamedTuple):
    """A file of a listing."""

    name: str  # Path relative to the store's folder, with ``/``
    size: int  # Bytes
    modified: int  # Time of the last change, nanoseconds since 1970; 0 if the storage does not state it


class Store:
    """A folder at a URL, or of the local file system."""

    def __init__(self, url: str | os.PathLike[str], stop: threading.Event | None = None) -> None:
        base, query = split_query(url)
        self.url = base.rstrip("/") + query
        self._stop = stop or threading.Event()
        self._has_answered = False
        self._fs, root = _file_system(self.url)
        self._root = str(root).rstrip("/")
        protocol = self._fs.protocol
        self._protocols = (protocol,) if isinstance(protocol, str) else tuple(protocol)
        self._is_web = self.url.startswith(_WEB)
        self._receives = self._is_web and hasattr(self._fs, "set_session")  # as fsspec's own file system

    def __repr__(self) -> str:
        return f"Store({without_credentials(self.url)!r})"

    @property
    def place(self) -> str:
        """The same text for every spelling of the URL: of a local folder, its path."""
        if {"file", "local"}.intersection(self._protocols):
            return os.path.realpath(self._root)
        return f"{self._protocols[0]}://{self._root}"

    def at(self, name: str) -> str:
        return join_url(self.url, name)

    def child(self, name: str) -> Store:
        return Store(self.at(name), self._stop) if name else self

    def read(self, name: str) -> bytes:
        content = self.read_if_there(name)
        if content is None:
            raise self._missing(name)
        return content

    def read_if_there(self, name: str, most: int | None = None) -> bytes | None:
        """Return the content of a file, or its first ``most`` bytes; None if there is no such file."""
        # Without ``most``, object stores need another request, for the size of the file.
        limits = {} if most is None else {"start": 0, "end": most}
        try:
            return self._try(name, "read", lambda: self._cat(name, **limits))
        except FileNotFoundError:
            return None

    def download(self, name: str, file: Path) -> None:
        most = (self.size(name) if self._receives else 0) or _MOST_UNSTATED

        def fetch() -> None:
            if not self._receives:
                self._fs.get_file(self._readable(name), os.fspath(file))
                return
            with file.open("wb") as target:
                if self._receive(name, target.write, most) > most:
                    raise NotImplementedError(f"more than {most:,} bytes came")

        self._existing(name, "read", fetch)

    def read_range(self, name: str, start: int, stop: int) -> bytes:

        def read() -> bytes:
            data = self._cat(name, start=start, end=stop)
            if len(data) > stop - start:
                raise NotImplementedError("the server does not answer range requests")
            if len(data) < stop - start:
                raise BodyCutShortError(f"{len(data)} bytes came where {stop - start} were asked for")
            return data

        return self._existing(name, f"read (bytes {start} to {stop})", read)

    def _cat(self, name: str, **limits: int) -> bytes:
        if self._receives:
            parts = list[bytes]()
            most = limits["end"] - limits["start"] if limits else _MOST_WHOLE
            if self._receive(name, parts.append, most, **limits) > most and not limits:
                raise NotImplementedError(f"more than {most:,} bytes came")
            return b"".join(parts)
        if self._fs.async_impl:
            loop = self._fs.loop  # first: after a fork it is an error, and the coroutine must not be left
            return bytes(_run_until_stopped(loop, self._fs._cat_file(self._path(name), **limits), self._stop))
        if limits and not _OTHER_CACHES.intersection(self._protocols):
            return bytes(self._fs.cat_file(self._readable(name), cache_type="none", **limits))
        return bytes(self._fs.cat_file(self._readable(name), **limits))

    def _receive(self, name: str, take: Callable[[bytes], object], most: int, **limits: int) -> int:
        """Pass on an answer of a web server until there are more than ``most`` bytes; return their number."""
        loop = self._fs.loop
        receiving = _receive(self._fs, self._path(name), take, most, **limits)
        return int(_run_until_stopped(loop, receiving, self._stop))

    def is_folder(self) -> bool:
        def ask() -> bool:
            try:
                return bool(self._fs.isdir(self._root))
            except Exception as error:
                if getattr(error, "status", None) == 403 and self._is_web:
                    return False  # a signature is often for one file; reading it says more
                raise

        return self._try("", "looked for", ask)

    def files(self, names: Iterable[str] | None = None) -> list[StoredFile]:
        """Return all files in the folder and in folders in it, sorted by name."""
        # A web server need not list its folders: it is asked for ``names``, if they are given.
        if self._is_web:
            names = crawl(self._links, self._root) if names is None else names
            found = look_up(partial(self._info, is_listed=True), names)
        else:
            self._fs.invalidate_cache()  # other machines, such as Ray's, may have written since
            listed = self._try("", "listed", lambda: self._fs.find(self._root, detail=True))
            found = {path.removeprefix(self._root).lstrip("/"): info for path, info in listed.items()}
        return sorted(
            StoredFile(name, int(info.get("size") or 0), _modified(info))
            for name, info in found.items()
            if name and info.get("type", "file") == "file"
        )

    def status(self, name: str) -> tuple[int, int] | None:
        """Return the bytes of a file, and a number that differs for other content; 0 if none is stated."""
        info = self._info(name)
        if not info or info.get("type", "file") != "file":
            return None
        return int(info.get("size") or 0), _state(info)

    def size(self, name: str) -> int | None:
        status = self.status(name)
        return status[0] if status else None

    def _links(self, page: str) -> list[str]:
        try:
            return list(self._try("", "listed", lambda: self._fs.ls(page, detail=False)))
        except FileNotFoundError as error:
            raise self._missing(page.removeprefix(f"{self._root}/")) from error

    def _info(self, name: str, *, is_listed: bool = False) -> dict[str, Any] | None:
        def ask() -> dict[str, Any] | None:
            try:
                info = dict(self._fs.info(self._path(name)))
            except (FileNotFoundError, NotADirectoryError) as error:
                # fsspec says this of every failure of a web server.
                cause = error.__cause__ if is_listed else None
                if isinstance(cause, Exception) and getattr(cause, "status", None) not in _MISSING:
                    raise cause from None
                return None
            if is_listed and info.get("size") is None:
                raise NotImplementedError("the server does not state the size of the file")
            return info

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
            message, hint = (
                "cannot be written: there is no such bucket or folder",
                "Make it, or correct the address.",
            )
            raise StorageError(message, path=self.at(name), hint=hint) from error

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
        return StorageError("does not exist", path=self.at(name), hint="Check the address.")

    def _readable(self, name: str) -> str:
        """Return the path of a file; NotImplementedError for one that could block, such as a FIFO."""
        path = self._path(name)
        if "file" in self._protocols and self._fs.info(path)["type"] == "other":
            raise NotImplementedError("not a regular file")
        return path

    def _path(self, name: str) -> str:
        if name and split_query(self._root)[1]:
            name = quote(name, safe="/%")
        return join_url(self._root, name) if name else self._root

    def _existing(self, name: str, what: str, action: Callable[[], T]) -> T:
        try:
            return self._try(name, what, action)
        except FileNotFoundError as error:
            raise self._missing(name) from error

    def _try(self, name: str, what: str, action: Callable[[], T]) -> T:
        path = self.at(name) if name else self.url
        try:
            return self._retried(action, f"{path}: being {what}")
        except (FileNotFoundError, StoppedError):
            raise
        except Exception as error:  # each storage raises other errors
            raise StorageError(
                f"cannot be {what}: {str(error) or type(error).__name__}", path=path, hint=hint_for(error)
            ) from (error if without_credentials(self.url) == self.url else None)

    def _retried(self, action: Callable[[], T], what: str) -> T:
        """Return the result of ``action``, or raise the error of its last try; the log names it ``what``."""
        pause = _FIRST_PAUSE
        for tries in count(1):
            if self._stop.is_set():
                raise StoppedError
            began = perf_counter()
            try:
                result = action()
            except StoppedError:
                raise
            except Exception as error:  # each storage raises other errors
                most = self._most_tries(error)
                if not _is_transient(error) or tries >= most:
                    raise
                reason = str(error) or type(error).__name__
                _counted[0] += 1
                _LOG.warning("retry", f"{what} failed ({reason}); try {tries + 1} of {most} follows")
            else:
                self._has_answered = True
                if (seconds := perf_counter() - began) > _SLOW:
                    _LOG.warning("slow", f"{what} took {seconds:.0f} s")
                return result
            self._stop.wait(pause * (0.5 + random.random()))  # noqa: S311 - so that many readers do not retry at once
            pause *= 2
        raise AssertionError("the last try returns or raises")

    def _most_tries(self, error: Exception) -> int:
        """Return the number of tries: more if the server itself reports the error, or has answered before."""
        is_reported = isinstance(getattr(error, "status", None), int)
        is_lost = self._has_answered and getattr(error, "errno", None) in _NETWORK_ERRORS
        return _PATIENT_TRIES if is_reported or is_lost else _TRIES


def _is_transient(error: Exception) -> bool:
    status = getattr(error, "status", None)
    if isinstance(status, int) and 400 <= status < 500:
        return status in _TRANSIENT_STATUSES
    return not isinstance(error, _PERMANENT)


# Hints, with the HTTP statuses, numbers of ``errno`` (all below 200) and ends of names of classes that they
# explain.
_HINTS: dict[str, tuple[int | str, ...]] = {
    "Check the credentials that fsspec finds for this storage, and what they allow.": (
        (401, 403, "PermissionError", "CredentialsError")
    ),
    "The server asks for fewer requests: try again later, or with fewer threads and ranks.": (
        (429, 503, errno.EBUSY)
    ),
    "The server reports an internal error: try again later.": tuple(range(500, 600)),
    "Read the files from another server or storage, or copy them to a disk first.": ("NotImplementedError",),
    "If it happens again, the file has changed, and is shorter than the manifest of the dataset says: "
    "open the dataset again, or make it again.": (416, "BodyCutShortError"),
    "The connection was cut while an answer arrived: check the network and proxies between.": (
        *(errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE),
        *("ClientPayloadError", "IncompleteRead", "IncompleteReadError"),
    ),
    "The server did not answer in time: check the network, or the time limits in fsspec's configuration.": (
        ("TimeoutError",)
    ),
    "Check the address, and whether the server runs and can be reached from this machine.": (
        *(errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH),
        *("ClientConnectorError", "EndpointConnectionError", "gaierror"),
    ),
}


def hint_for(error: Exception) -> str:
    """Return what to do about an error that a storage's package raised."""
    numbers = {getattr(error, "status", None), getattr(error, "errno", None)}
    classes = [base.__name__ for base in type(error).__mro__]
    for hint, signs in _HINTS.items():
        endings = tuple(sign for sign in signs if isinstance(sign, str))
        if numbers.intersection(signs) or any(name.endswith(endings) for name in classes if endings):
            return hint
    return "Check the address, whether it can be reached from this machine, and that you have access to it."


def crawl(list_links: Callable[[str], list[str]], root: str) -> list[str]:
    """Return the names of the files that the pages of a folder, and of folders in it, link to."""
    # ``list_links`` returns the URLs that a page links to.
    names: dict[str, None] = {}
    folders = [""]
    while folders:
        folder = folders.pop()  # the newest first, so that endless nesting shows soon
        page = f"{root}/{folder}"
        if folder.count("/") > _DEEPEST:
            raise StorageError(
                f"folders are nested more than {_DEEPEST} levels deep",
                path=page,
                hint="Check whether the server has one page for all addresses, or name the images in a list.",
            )
        for link in list_links(page):
            name = folder + _within(page, link)
            if name != folder and name not in names:
                names[name] = None
                if name.endswith("/"):
                    folders.append(name)
    return [unquote(name) for name in names if not name.endswith("/")]


def _within(page: str, link: str) -> str:
    parts = [part for part in link.removeprefix(page).split("/") if part != "."]
    leads_away = not link.startswith(page) or ".." in parts or "" in parts[:-1] or {"?", "#"} & set(link)
    return "" if leads_away else "/".join(parts)


def look_up(ask: Callable[[str], dict[str, Any] | None], names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the answers of ``ask`` about files, by name, without files that do not exist."""
    answers = thread_map(ask, names, "ask", _CONCURRENT, 4 * _CONCURRENT)
    return {name: answer for name, answer in answers if answer is not None}


def _file_system(url: str) -> Any:
    try:
        import fsspec.core
    except ImportError as error:
        raise MissingDependencyError(
            f"{url} needs the package fsspec", path=url, hint=install_hint("fsspec", "aiohttp")
        ) from error
    try:
        options: dict[str, Any] = {}
        if url.startswith(_WEB):  # a signature is sent as it is
            options = {"client_kwargs": _web_session(), "encoded": bool(split_query(url)[1])}
        return fsspec.core.url_to_fs(url, **options)
    except ImportError as error:
        message, hint = (
            f"a package for this storage is missing: {error}",
            "Install the package that the error names.",
        )
        raise MissingDependencyError(message, path=url, hint=hint) from error
    except ValueError as error:
        raise StorageError(f"no such storage: {error}", path=url) from error


@cache
def _web_session() -> dict[str, Any]:
    """Arguments of sessions of aiohttp; those of fsspec's configuration come first."""
    from aiohttp import ClientResponse, ClientTimeout
    from fsspec.config import conf

    theirs = conf.get("http", {}).get("client_kwargs", {})
    return {
        "timeout": ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=_SILENT_SECONDS),
        "auto_decompress": False,
        "response_class": type("LimitedResponse", (ClientResponse,), {"read": _read_page}),
        **theirs,
        # A server has ranges of the identity alone (RFC 9110, 14.2), and aiohttp asks for gzip by itself.
        "headers": {"Accept-Encoding": "identity", **theirs.get("headers", {})},
    }


async def _read_page(answer: Any) -> bytes:
    """Read the whole body of an answer of aiohttp, which must fit into memory."""
    parts, size = list[bytes](), 0
    async for part in answer.content.iter_any():
        parts.append(part)
        if (size := size + len(part)) > _MOST_PAGE:
            raise NotImplementedError(f"the page has more than {_MOST_PAGE:,} bytes")
    answer._body = b"".join(parts)  # of which text() makes a text
    return bytes(answer._body)


async def _receive(
    fs: Any, url: str, take: Callable[[bytes], object], most: int, *, start: int = 0, end: int | None = None
) -> int:
    """Pass on the body of an answer, or of bytes ``start`` to ``end``, see :meth:`Store._receive`."""
    options = dict(fs.kwargs)
    if end is not None:
        options["headers"] = {**options.get("headers", {}), "Range": f"bytes={start}-{end - 1}"}
    session = await fs.set_session()
    async with session.get(fs.encode_url(url), **options) as answer:
        fs._raise_not_found_for_status(answer, url)
        if (encoding := answer.headers.get("Content-Encoding") or "identity") != "identity":
            raise NotImplementedError(f"the server compresses its answers ({encoding}), though asked not to")
        if start and answer.status != 206:
            raise NotImplementedError("the server does not answer range requests")
        size, began = 0, perf_counter()
        async for part in answer.content.iter_any():
            take(part)
            size, seconds = size + len(part), perf_counter() - began
            if size > most:
                answer.close()
                break
            if seconds > _SILENT_SECONDS and size < seconds * _LEAST_RATE:
                raise TimeoutError(f"{size:,} bytes came in {seconds:.0f} s")
    return size


def _modified(info: dict[str, Any]) -> int:
    """Return the time of a file's last change, nanoseconds since 1970; 0 if the storage does not state it."""
    for name in ("mtime", "LastModified", "last_modified", "updated", "created"):
        value = info.get(name)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1e6) * 1000
        if isinstance(value, (int, float)):
            return int(value * 1e6) * 1000
    return 0


def _state(info: dict[str, Any]) -> int:
    """Return the time of a file's last change, or a hash of it and of other validators (RFC 9110, 8.8)."""
    time = _modified(info)
    if not (validators := [str(info[name]) for name in _VALIDATORS if info.get(name)]):
        return time
    digest = hashlib.sha256("\n".join((*validators, str(time))).encode(errors="surrogateescape")).digest()
    return int.from_bytes(digest[:7], "little")


def _run_until_stopped(loop: Any, coroutine: Coroutine[Any, Any, Any], stop: threading.Event) -> Any:
    """Run a request of an asynchronous file system; the connection is closed when ``stop`` is set."""
    from asyncio import run_coroutine_threadsafe

    reading = run_coroutine_threadsafe(coroutine, loop)
    while not wait([reading], timeout=_POLL).done:
        if stop.is_set():
            reading.cancel()
            raise StoppedError
    return reading.result()


class RangeReader:
    """Reads ranges of files, which may lie in different folders, until ``stop`` is set."""

    def __init__(self, urls: Sequence[str], stop: threading.Event) -> None:
        self._parts = [split_url(url) for url in urls]
        self._stores = {folder: Store(folder, stop) for folder in {part[0] for part in self._parts}}

    def __call__(self, number: int, start: int, stop: int) -> bytes:
        folder, name = self._parts[number]
        return self._stores[folder].read_range(name, start, stop)


class RangeFile(io.RawIOBase):
    """A readable and seekable file of ``size`` bytes in a store; each read is one request."""

    def __init__(self, store: Store, name: str, size: int) -> None:
        super().__init__()
        self._store = store
        self._name = name
        self._size = size
        self._offset = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._offset

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._offset = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._offset, os.SEEK_END: self._size}[whence]
        return self._offset

    def read(self, size: int | None = -1) -> bytes:
        remaining = max(self._size - self._offset, 0)
        length = remaining if size is None or size < 0 else min(size, remaining)
        data = self._store.read_range(self._name, self._offset, self._offset + length) if length else b""
        self._offset += len(data)
        return data


@contextmanager
def local_copies(paths: Sequence[str | os.PathLike[str]]) -> Iterator[list[Path]]:
    """Yield the local paths of files; those at URLs are copied to a temporary folder, under their names."""
    # A copy has the time of the last change of the original, if the storage states it. A SourceError in the
    # block that names a copy names its URL instead.
    with temporary_folder("stoker-convert-") as temporary:
        urls = {}
        local = []
        for number, path in enumerate(paths):
            file = Path(path)
            if is_url(path):
                folder, name = split_url(path)
                file = Path(temporary, str(number), name)
                file.parent.mkdir()
                store = Store(folder)
                store.download(name, file)
                if (status := store.status(name)) and status[1]:
                    os.utime(file, ns=(status[1], status[1]))
                urls[file] = os.fspath(path)
            local.append(file)
        try:
            yield local
        except SourceError as error:
            url = urls.get(Path(error.path or ""))
            if url is None:
                raise
            raise SourceError(error.message, path=url, key=error.key, hint=error.hint) from error
