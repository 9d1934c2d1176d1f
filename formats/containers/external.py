"""Names of archives and other shards as users write them: lists in braces, patterns, and folders."""

from __future__ import annotations

import fnmatch
import glob
import itertools
import os
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from stoker._native import crc32c
from stoker.errors import ConfigError, CorruptRecordError, DecodeError, SourceError, StokerError, with_details
from stoker.urls import is_url, without_credentials

from ..files import check_named, remove
from ..remote.store import Store
from ..threads import bounded_map, thread_map
from .base import Container, Read, Record
from .image_record import ExternalSample, FeatureNames, LeftOutError
from .registry import (
    CONTAINERS,
    DEFAULT_CONTAINER,
    detect_container,
    external,
    find_container,
    is_local_shard,
    read_local_start,
)

_RANGE = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})(?:\.\.(\d{1,18}))?")
_MOST = 1_000_000  # names of one list
_CHECK = "check the spelling of the folder and of the pattern"
_CHECK_LISTS = "check the limits of the lists in braces"


def expand(path: str | os.PathLike[str]) -> list[str]:
    """Return the resolved paths, or the URLs, of the shards that a user names.

    A name may have lists in braces (``train-{000..099}.tar``, ``{a,b}.tar``) and patterns (``*.tar``; at a
    URL in its last part alone). A folder stands for the files in it that have the suffix of a container.
    """
    check_named(shard=path)
    text = os.fspath(path)
    if is_url(text):
        return [url for name in expand_braces(text) for url in _at_url(name)]
    if os.path.lexists(text):
        return _on_disk(text)
    return [file for name in expand_braces(text) for file in _on_disk(name)]


def expand_braces(text: str) -> list[str]:
    """Return the names that a list in braces stands for, as a shell does.

    ``{000..099}`` counts, with leading zeros if the limits have them; ``{a,b}`` lists; other braces stay.
    """
    names = list(itertools.islice(_braces(text), _MOST + 1))
    if len(names) > _MOST:
        raise ConfigError(f"the name stands for more than {_MOST:,} shards", path=text, hint=_CHECK_LISTS)
    return names


def is_pattern(path: str | os.PathLike[str]) -> bool:
    """Return whether a path that does not exist, or a URL, has a list in braces or a pattern."""
    text = os.fspath(path)
    if not is_url(text) and os.path.lexists(text):
        return False
    return "{" in text or ("*" in text if is_url(text) else glob.has_magic(text))


def _braces(text: str) -> Iterator[str]:
    start = text.find("{")
    end = _closing(text, start)
    if end is None:
        yield text
        return
    before, inside, after = text[:start], text[start + 1 : end], text[end + 1 :]
    if (match := _RANGE.fullmatch(inside)) is not None:
        choices: Iterator[str] = _count(*match.groups())
    elif len(parts := _split(inside)) > 1:
        choices = (choice for part in parts for choice in _braces(part))
    else:
        choices = (f"{{{choice}}}" for choice in _braces(inside))
    for choice in choices:
        for rest in _braces(after):
            yield f"{before}{choice}{rest}"


def _closing(text: str, start: int) -> int | None:
    """Return the index of the brace that closes the one at ``start``; None if there is none."""
    depth = 0
    for at in range(start, len(text)) if start >= 0 else ():
        depth += (text[at] == "{") - (text[at] == "}")
        if not depth:
            return at
    return None


def _split(text: str) -> list[str]:
    """Split at the commas that are in no inner braces."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "{") - (character == "}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _count(first: str, last: str, step: str | None) -> Iterator[str]:
    low, high = int(first), int(last)
    by = max(int(step or 1), 1) * (1 if low <= high else -1)
    padded = any(len(limit.lstrip("-")) > 1 and limit.lstrip("-")[0] == "0" for limit in (first, last))
    width = max(len(first), len(last)) if padded else 0
    return (f"{number:0{width}d}" for number in range(low, high + (1 if by > 0 else -1), by))


def _on_disk(name: str) -> list[str]:
    if not os.path.lexists(name) and glob.has_magic(name):
        if not (matching := sorted(glob.glob(name, recursive=True))):  # noqa: PTH207 - patterns may be absolute
            raise SourceError("no file matches the pattern", path=name, hint=_CHECK)
        return [str(Path(file).resolve()) for file in matching]
    path = Path(name).resolve()
    return [str(file) for file in _files_in(path)] or [str(path)]


def _files_in(folder: Path) -> list[Path]:
    """Return the files in a folder that have the suffix of a container, in the order of their names.

    Without any, those with another suffix after it: they are compressed, as the error about one says.
    """
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:  # one at a time: it may be a folder of a million images
        names = [one.name for one in entries if _has_suffix(one.name) or _has_suffix(Path(one.name).stem)]
    files = sorted(file for file in (folder / name for name in names) if file.is_file())
    return [file for file in files if _has_suffix(file.name)] or files


def _has_suffix(name: str) -> bool:
    suffixes = tuple(row.suffix for row in CONTAINERS.values() if row.suffix)
    return name.endswith(suffixes) and not name.startswith(".")


def _at_url(url: str) -> list[str]:
    folder, _, pattern = url.rstrip("/").rpartition("/")
    if "*" in pattern:
        names = [file.name for file in Store(folder).files() if "/" not in file.name]
        if not (matching := fnmatch.filter(names, pattern)):
            raise SourceError("no file matches the pattern", path=url, hint=_CHECK)
        return [f"{folder}/{name}" for name in matching]
    if _has_suffix(pattern) or Store(folder).size(pattern) is not None:
        return [f"{folder}/{pattern}"]
    if not Store(f"{folder}/{pattern}").is_folder():
        return [f"{folder}/{pattern}"]
    inside = (file.name for file in Store(f"{folder}/{pattern}").files())
    found = [name for name in inside if "/" not in name and _has_suffix(name)]
    return [f"{folder}/{pattern}/{name}" for name in sorted(found)] or [f"{folder}/{pattern}"]


_CONNECTIONS = 8
_CONCURRENT = 32  # requests for the sizes of shards
_REQUEST_BYTES = 8 << 20


@dataclass(frozen=True)
class ExternalShard:
    """A shard that another program wrote."""

    source: str  # Its resolved path or its URL, of a file or of a folder with a data file
    file: str  # Path or URL of its data file
    size: int  # Bytes of the data file
    beside: str = ""  # Name of the file in its folder that it is compared with; empty for none

    @contextmanager
    def local_file(self, temporary: Path) -> Iterator[Path]:
        """Yield the data file, or a copy of it in a folder that lasts for the block.

        Errors within the block that name the copy name the URL instead.
        """
        if not is_url(self.file):
            yield Path(self.file)
            return
        folder, _, name = self.file.rpartition("/")
        copy = temporary / name  # of the same name, which hints show
        beside = temporary / self.beside
        try:
            self._copy(copy)
            if self.beside and (described := Store(folder).read_if_there(self.beside)) is not None:
                beside.write_bytes(described)
            yield copy
        except StokerError as error:
            if error.path != str(copy):
                raise
            raise with_details(error, path=self.file) from error
        finally:
            remove(copy)
            if self.beside:
                remove(beside)

    def _copy(self, target: Path) -> None:
        folder, _, name = self.file.rpartition("/")
        store = Store(folder)
        spans = ((a, min(a + _REQUEST_BYTES, self.size)) for a in range(0, self.size, _REQUEST_BYTES))
        with (
            ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="stoker-fetch") as pool,
            target.open("xb") as file,
        ):
            tasks = ((span, partial(store.read_range, name, *span)) for span in spans)
            for _, data in bounded_map(pool, tasks, 2 * _CONNECTIONS):
                file.write(data)

    def location(self, into: str | os.PathLike[str]) -> str:
        """Return the path or URL of the shard for the manifest of a dataset in the folder ``into``.

        The path is relative if both may move together: at a URL in the folder, on a disk in it or beside it.
        A URL has no credentials: fsspec's configuration must have them.
        """
        if is_url(into):
            folder = os.fspath(into).rstrip("/")
            if not self.source.startswith(f"{folder}/"):
                raise SourceError(
                    f"a dataset at a URL has its shards in its folder, and this one is not in {folder}",
                    path=self.source,
                    hint="index into a local folder, or into one above all shards",
                )
            return self.source.removeprefix(f"{folder}/")
        if is_url(self.source):
            return without_credentials(self.source)
        home = Path(into).resolve()
        inside = Path(self.source).is_relative_to(home.parent)
        return os.path.relpath(self.source, home) if inside else self.source


def find_shards(
    paths: Iterable[str | os.PathLike[str]], container: str = "auto"
) -> tuple[Container, list[ExternalShard]]:
    """Return the container of some shards, and the shards; only the start of the first is read.

    Paths and URLs are as :func:`expand` takes them; ``auto`` detects the container from the first shard.
    """
    sources = [source for path in paths for source in expand(path)]
    if not sources:
        raise ConfigError("there are no shards to index")
    if len(set(map(is_url, sources))) > 1:
        raise SourceError(
            "some shards are at URLs and some on a disk",
            path=next(filter(is_url, sources)),
            hint="make a dataset of each, and mix them: stoker.mix",
        )
    chosen = _detect(sources[0]) if container == "auto" else find_container(container)
    counts = Counter(sources)
    for source in sources:
        if counts[source] > 1:
            raise SourceError("the shard is named more than once", path=source)
    if not is_url(sources[0]):
        return chosen, [_local(source, chosen) for source in sources]
    with ThreadPoolExecutor(_CONCURRENT, thread_name_prefix="stoker-ask") as pool:
        return chosen, list(pool.map(partial(_remote, container=chosen), sources))


def _detect(source: str) -> Container:
    """Return the container that recognizes a shard.

    A file that no container recognizes is taken for one of the container with its suffix, or else of the
    default container. The reader of that container then names the damage.
    """
    if (container := detect_container(partial(_read_start, source))) is not None:
        return container
    for name, row in CONTAINERS.items():
        # Also for a compressed shard, such as x.mds.br.
        if row.suffix in Path(source).suffixes and (is_url(source) or Path(source).is_file()):
            return find_container(name)
    if is_url(source) or Path(source).is_file() or not Path(source).exists():
        return find_container(DEFAULT_CONTAINER)
    raise _no_shard(source, *external())


def _read_start(source: str, name: str, most: int) -> bytes | None:
    """Return the first bytes of a file of a shard, see :data:`stoker.formats.containers.base.ReadStart`."""
    if is_url(source):
        folder, _, file = f"{source}/{name}".rstrip("/").rpartition("/")
        store = Store(folder)
        size = store.size(file)
        return None if size is None else store.read_range(file, 0, min(most, size))
    return read_local_start(Path(source), name, most)


def _local(source: str, container: Container) -> ExternalShard:
    path = Path(source)
    file = container.data_file(path)
    if not path.exists():
        raise SourceError("there is no such shard", path=source)
    if not file.is_file():
        raise _no_shard(source, container.name)
    return ExternalShard(source, str(file), file.stat().st_size, container.beside)


def _no_shard(source: str, *containers: str) -> SourceError:
    if Path(source).is_dir() and (shards := sorted(filter(is_local_shard, Path(source).iterdir()))):
        return SourceError(
            f"this folder is no shard, but holds {len(shards):,}, such as {shards[0].name}",
            path=source,
            hint=f"name the shards themselves: {source}/*{shards[0].suffix}",
        )
    containers_read = " or ".join(CONTAINERS[name].plural for name in external())
    return SourceError(
        f"this is no shard of {' or '.join(containers)}",
        path=source,
        hint=f"name the shards themselves, all of one container: {containers_read}",
    )


def _remote(source: str, container: Container) -> ExternalShard:
    file = container.data_url(source)
    folder, _, name = file.rpartition("/")
    size = Store(folder).size(name)
    if size is None:
        raise SourceError(f"there is no such shard of {container.name}", path=file)
    return ExternalShard(source, file, size, container.beside)


_LEAST = 8 << 10  # bytes of a request: a header, small members, and the header of an image
_KEPT = 4
_MOST_window = 1 << 20  # 32 archives that are read at once keep four windows each


class Window:
    """Reads an archive, and keeps the bytes of its last windows.

    They are needed again: members of a sample are read when the next header shows the sample's end.
    """

    def __init__(self, read: Read, size: int, least: int, most: int | None = None) -> None:
        self._read = read
        self._size = size
        self._least = self._window = least
        self._most = most or least
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=_KEPT)
        self._end = 0

    def __call__(self, offset: int, length: int) -> bytes:
        """Return bytes of the archive; fewer at its end."""
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


def window_at_url(url: str, size: int) -> Window:
    """Return a window on a file at a URL that fetches few bytes in vain; a read may raise StorageError."""
    folder, _, name = url.rpartition("/")
    return Window(partial(_fetch, Store(folder), name), size, _LEAST, _MOST_window)


def _fetch(store: Store, name: str, offset: int, length: int) -> bytes:
    return store.read_range(name, offset, offset + length)


_CONNECTIONS_parsed_records = 32  # shards that are read at once, each by one request after the other


class ParsedRecord(NamedTuple):
    """A record of a shard."""

    record: Record  # The record
    sample: ExternalSample | None  # The sample in it; None if it is left out
    crc: int | None = None  # CRC32C of its image; None where the image was not read
    reason: str = ""  # Why it is left out


def parse_records(
    records: Iterable[Record], container: Container, names: FeatureNames, path: str | Path, shard: str
) -> Iterator[ParsedRecord]:
    """Yield the records that the container's ``scan`` found in a shard, with their samples."""
    for record in records:
        with errors_about(record, path, shard):
            parsed = _parsed(record, container, names)
        yield parsed


def _parsed(record: Record, container: Container, names: FeatureNames) -> ParsedRecord:
    try:
        sample = container.parse_image(record, names)
    except DecodeError:
        return ParsedRecord(record, None, reason="image whose header cannot be read")
    except LeftOutError as error:
        return ParsedRecord(record, None, reason=str(error))
    return ParsedRecord(record, sample, _checksum(record, sample))


def _checksum(record: Record, sample: ExternalSample) -> int | None:
    if record.read is not None:
        return sample.crc
    offset, length = sample.payload
    return crc32c(record.view[offset : offset + length])


@contextmanager
def errors_about(record: Record, path: str | Path, shard: str) -> Iterator[None]:
    """Raise the errors of the block with the names of the record and its shard."""
    try:
        yield
    except (CorruptRecordError, SourceError) as error:
        key = record.key.decode(errors="backslashreplace") or None
        raise with_details(error, path=path, shard=shard, record=record.number, key=key) from error


def parsed_at_urls(
    container: Container, names: FeatureNames, shards: Sequence[ExternalShard], shard_names: Sequence[str]
) -> Iterator[list[ParsedRecord]]:
    """Yield the records of each shard at a URL, without reading images; several shards are read at once."""
    read = partial(_read_at_url, container, names)
    named_shards = zip(shards, shard_names, strict=True)
    for _, parsed in thread_map(
        read, named_shards, "fetch", _CONNECTIONS_parsed_records, _CONNECTIONS_parsed_records
    ):
        yield parsed


def _read_at_url(
    container: Container, names: FeatureNames, named_shard: tuple[ExternalShard, str]
) -> list[ParsedRecord]:
    shard, name = named_shard
    if container.scan_at_url is None:
        raise TypeError(f"shards of {container.name} cannot be read by ranges")
    records = container.scan_at_url(window_at_url(shard.file, shard.size), shard.size, shard.file)
    return [
        parsed._replace(record=parsed.record._replace(parts=(), read=None))
        for parsed in parse_records(records, container, names, shard.file, name)
    ]
