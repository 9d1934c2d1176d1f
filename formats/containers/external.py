"""Shards of other programs: their files on a disk or at URLs, and the samples in their records.

``formats/in_place/shards.py`` makes an index of them, and ``formats/sources/archives.py`` converts them.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from stoker._native import crc32c
from stoker.errors import ConfigError, CorruptRecordError, DecodeError, SourceError, StokerError, with_details
from stoker.urls import is_url, join_url, split_query, split_url, without_credentials

from ..codecs.codec import ImageHeader
from ..codecs.header import needed_package, read_header, read_partial_header
from ..files import open_regular, read_at, read_regular
from ..remote.store import Store
from ..splits import Door, check_one_split
from ..threads import bounded_map
from .compression import decompress
from .container import (
    CONTAINERS,
    DEFAULT_CONTAINER,
    Container,
    Read,
    Record,
    detect_container,
    external,
    find_container,
    is_local_shard,
    read_local_start,
)
from .image_record import ExternalSample, FeatureNames, LeftOutError
from .protobuf import Span
from .shard_names import check_named_files, expand

_CONNECTIONS = 8
_CONCURRENT = 32  # requests for the sizes of shards
_REQUEST_BYTES = 8 << 20
_WINDOW_AT_URL = 8 << 10  # bytes of a request: a header, small members, and the header of an image
_MOST_WINDOW_AT_URL = 1 << 20  # 32 archives that are read at once keep four windows each
_LOCAL_WINDOW = 2048  # the header of an image often follows two members of a few bytes
_KEPT_WINDOWS = 4


@dataclass(frozen=True)
class ExternalShard:
    """A shard that another program wrote."""

    source: str  # Its resolved path or its URL, of a file or of a folder with a data file
    file: str  # Path or URL of its data file
    size: int  # Bytes of the data file
    modified: int  # Time of its last change, nanoseconds since 1970; at a URL the number of Store.status
    container: Container

    def location(self, into: str | os.PathLike[str]) -> str:
        """Return the path or URL of the shard for the manifest of a dataset in the folder ``into``."""
        # The path is relative if both may move together: at a URL in the folder, on a disk in it or beside
        # it. A URL has no credentials: fsspec's configuration must have them.
        if is_url(into):
            folder = os.fspath(into).rstrip("/")
            if not self.source.startswith(f"{folder}/"):
                raise SourceError(
                    f"a dataset at a URL has its shards in its folder, and this one is not in {folder}",
                    path=self.source,
                    hint="Index into a local folder, or into one above all shards.",
                )
            return self.source.removeprefix(f"{folder}/")
        if is_url(self.source):
            return without_credentials(self.source)
        home = Path(into).resolve()
        inside = Path(self.source).is_relative_to(home.parent)
        return os.path.relpath(self.source, home) if inside else self.source

    @property
    def name(self) -> str:
        """The last part of its path or URL."""
        return split_url(self.source)[1]

    @property
    def is_compressed(self) -> bool:
        """Whether the name is that of a shard that is compressed as a whole."""
        return split_query(self.file)[0].endswith(self.container.compressed_suffixes)

    @contextmanager
    def local_file(self, folder: Path | None = None, *, plain: bool = False) -> Iterator[Path]:
        """Yield the data file, or a copy of it that lasts for the block, in a new folder in ``folder``."""
        # With ``plain``, a compressed shard is decompressed. Errors in the block name the shard, not the
        # copy.
        decompress_it = plain and self.is_compressed
        if not is_url(self.file) and not decompress_it:
            yield Path(self.file)
            return
        home, name = split_url(self.file)
        with tempfile.TemporaryDirectory(prefix="stoker-shard-", dir=folder) as temporary:
            file = Path(temporary, name)  # of the same name, which hints show
            try:
                if is_url(self.file):
                    self._copy(file)
                if self.container.beside and (described := self._beside(home)) is not None:
                    file.with_name(self.container.beside).write_bytes(described)
                if decompress_it:
                    file = decompress(file if is_url(self.file) else Path(self.file), Path(temporary))
                yield file
            except StokerError as error:
                if not str(error.path).startswith(temporary):
                    raise
                raise with_details(error, path=self.file, shard=self.name) from error

    def _copy(self, target: Path) -> None:
        store, name = _store_of(self.file)
        spans = ((a, min(a + _REQUEST_BYTES, self.size)) for a in range(0, self.size, _REQUEST_BYTES))
        with (
            ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="stoker-fetch") as pool,
            target.open("xb") as file,
        ):
            tasks = ((span, partial(store.read_range, name, *span)) for span in spans)
            for _, data in bounded_map(pool, tasks, 2 * _CONNECTIONS):
                file.write(data)

    def _beside(self, folder: str) -> bytes | None:
        if is_url(folder):
            return Store(folder).read_if_there(self.container.beside)
        file = Path(folder, self.container.beside)
        return read_regular(file) if file.is_file() else None

    def records(self) -> Iterator[Record]:
        """Yield the records; payloads are not read if the container allows it."""
        if self.container.scan_headers is not None:
            with self._window() as read:
                yield from self.container.scan_headers(read, self.size, self.file)
        else:
            with self.local_file(plain=True) as file:
                yield from self.container.scan(file)

    @contextmanager
    def _window(self) -> Iterator[Read]:
        if is_url(self.file):
            store, name = _store_of(self.file)

            def fetch(offset: int, length: int) -> bytes:
                return store.read_range(name, offset, offset + length)

            yield Window(fetch, self.size, _WINDOW_AT_URL, _MOST_WINDOW_AT_URL)
        else:
            with open_regular(self.file) as (descriptor, size):
                yield Window(partial(read_at, descriptor), size, _LOCAL_WINDOW, _LOCAL_WINDOW)


def _store_of(url: str) -> tuple[Store, str]:
    folder, name = split_url(url)
    return Store(folder), name


def find_shards(
    paths: Iterable[str | os.PathLike[str]], container: str = "auto", *, door: Door = "index"
) -> tuple[Container, list[ExternalShard]]:
    """Return the container of some shards, and the shards; only the start of the first is read."""
    # Paths and URLs are as :func:`expand` takes them; ``auto`` detects the container from the first shard.
    # Shards of several splits are refused, with calls of ``door`` for each.
    paths = list(paths)
    sources = [source for path in paths for source in expand(path)]
    check_named_files(paths)
    if not sources:
        raise ConfigError("there are no shards to index")
    if len(set(map(is_url, sources))) > 1:
        raise SourceError(
            "some shards are at URLs and some on a disk",
            path=next(filter(is_url, sources)),
            hint="Make a dataset of each, and mix them: stoker.mix.",
        )
    chosen = _detect(sources[0]) if container == "auto" else find_container(container)
    counts = Counter(sources)
    for source in sources:
        if counts[source] > 1:
            raise SourceError("the shard is named more than once", path=source)
    check_one_split(paths, sources, door)
    if not is_url(sources[0]):
        return chosen, [_local_shard(source, chosen) for source in sources]
    with ThreadPoolExecutor(_CONCURRENT, thread_name_prefix="stoker-ask") as pool:
        return chosen, list(pool.map(partial(_remote_shard, container=chosen), sources))


def _detect(source: str) -> Container:
    # A file that no container recognizes is taken for one of the container with its suffix, or else of the
    # default container. The reader of that container then names the damage.
    if (container := detect_container(partial(_read_start, source))) is not None:
        return container
    for name, row in CONTAINERS.items():
        # Also for a compressed shard, such as x.mds.br.
        if row.suffix in Path(split_query(source)[0]).suffixes and (is_url(source) or Path(source).is_file()):
            return find_container(name)
    if is_url(source) or Path(source).is_file() or not Path(source).exists():
        return find_container(DEFAULT_CONTAINER)
    raise _not_a_shard(source, *external())


def _read_start(source: str, name: str, most: int) -> bytes | None:
    if not is_url(source):
        return read_local_start(Path(source), name, most)
    store, file = _store_of(join_url(source, name) if name else source)
    size = store.size(file)
    return None if size is None else store.read_range(file, 0, min(most, size))


def _local_shard(source: str, container: Container) -> ExternalShard:
    file = container.data_file(Path(source))
    try:
        status = file.stat()
    except FileNotFoundError as error:
        if Path(source).exists():
            raise _not_a_shard(source, container.name) from error
        raise SourceError("there is no such shard", path=source) from error
    except OSError as error:
        raise SourceError(f"the shard cannot be read: {error.strerror}", path=source) from error
    if not file.is_file():
        raise _not_a_shard(source, container.name)
    return ExternalShard(source, str(file), status.st_size, status.st_mtime_ns, container)


def _not_a_shard(source: str, *containers: str) -> SourceError:
    if Path(source).is_dir() and (shards := sorted(filter(is_local_shard, Path(source).iterdir()))):
        return SourceError(
            f"this folder is not a shard, but holds {len(shards):,}, such as {shards[0].name}",
            path=source,
            hint=f"Name the shards themselves: {source}/*{shards[0].suffix}",
        )
    containers_read = " or ".join(CONTAINERS[name].plural for name in external())
    return SourceError(
        f"this is not a shard of {' or '.join(containers)}",
        path=source,
        hint=f"Name the shards themselves, all of one container: {containers_read}.",
    )


def _remote_shard(source: str, container: Container) -> ExternalShard:
    file = container.data_url(source)
    store, name = _store_of(file)
    if (status := store.status(name)) is None:
        raise SourceError(
            f"there is no such shard of {container.name}", path=file, hint="Check the spelling of its name."
        )
    return ExternalShard(source, file, *status, container)


class Window:
    """Reads a file in windows, so that reads of a few bytes become fewer reads of more.

    The bytes of the last windows are kept: members of a sample are read when the next header shows the
    sample's end.
    """

    def __init__(self, read: Read, size: int, least: int, most: int) -> None:
        self._read = read
        self._size = size
        self._least = self._window = least
        self._most = most
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=_KEPT_WINDOWS)
        self._end = 0

    def __call__(self, offset: int, length: int) -> bytes:
        """Return bytes of the file; fewer at its end."""
        length = max(min(length, self._size - offset), 0)
        for start, data in self._kept:
            at = offset - start
            if at >= 0 and at + length <= len(data):
                return data[at : at + length]
        if not length:
            return b""
        skipped = offset - self._end
        self._window = min(2 * self._window, self._most) if 0 <= skipped < self._least else self._least
        data = self._read(offset, min(max(length, self._window), self._size - offset))
        self._kept.appendleft((offset, data))
        self._end = offset + len(data)
        return data[:length]


class ParsedRecord(NamedTuple):
    """A record of a shard, and the sample in it."""

    record: Record | None  # None if the shard cannot be read further
    sample: ExternalSample | None = None  # None if the record has none
    reason: str = ""  # Why it is left out
    header: ImageHeader | None = None  # Header of the image, if headers are read
    crc: int | None = None  # CRC32C of the image, if headers are read and all of the image was read for that
    error: StokerError | None = None  # Why the record, or the rest of the shard, cannot be used


def parse_records(
    records: Iterable[Record],
    container: Container,
    names: FeatureNames,
    shard: str,
    path: str | Path,
    *,
    headers: bool,
) -> Iterator[ParsedRecord]:
    """Yield the records of a shard with their samples; errors name the shard, its path and the record."""
    # With ``headers``, a record whose image has no header that can be read is left out.
    header = crc = None
    remaining = iter(records)
    while True:
        sample = None
        try:
            record = next(remaining)
        except StopIteration:
            return
        except (CorruptRecordError, SourceError) as error:
            yield ParsedRecord(None, error=with_details(error, path=path, shard=shard))
            return
        try:
            sample = container.parse_image(record, names)
            if headers:
                header, crc = image_header(record, sample)
            parsed = ParsedRecord(record, sample, "", header, crc)
        except DecodeError as error:
            reason = needed_package(error) or "image whose header cannot be read"
            parsed = ParsedRecord(record, sample, reason)
        except LeftOutError as error:
            parsed = ParsedRecord(record, reason=str(error))
        except (CorruptRecordError, SourceError) as error:
            parsed = ParsedRecord(record, error=error_about(error, record, shard, path))
        yield parsed


def image_header(record: Record, sample: ExternalSample) -> tuple[ImageHeader, int | None]:
    """Return the header of the image in a record, and the CRC32C of the image if all of it was read."""
    if record.read is None:
        image = sample.payload.of(record.view)
        return sample.header or read_header(image), crc32c(image)
    if sample.header is not None:
        return sample.header, None
    offset, length = sample.payload
    header, whole = read_partial_header(
        lambda start, most: record.bytes_of(Span(offset + start, most)), length
    )
    return header, None if whole is None else crc32c(whole)


def error_about(error: StokerError, record: Record, shard: str, path: str | Path) -> StokerError:
    """Return an error with the names of the record and its shard."""
    key = record.key.decode(errors="backslashreplace") or None
    return with_details(error, path=path, shard=shard, record=record.number, key=key)
