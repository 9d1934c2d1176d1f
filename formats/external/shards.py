"""Shards of others, on a disk or at URLs, from where each is copied for as long as it is read."""

from __future__ import annotations

import fnmatch
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.errors import ConfigError, SourceError, StokerError

from ..concurrency.bounded_map import bounded_map
from ..containers.base import container as container_of
from ..files.publishing import remove
from ..files.reading import check_named, open_regular, read_at
from ..remote.store import Store, is_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["ExternalShard", "find_shards"]

_LMDB_FILE = "data.mdb"
_LMDB_MAGIC = b"\xde\xc0\xef\xbe"
_MAGIC_AT = 16  # in the first meta page
_CONNECTIONS = 8
_REQUEST_BYTES = 8 << 20


@dataclass(frozen=True)
class ExternalShard:
    """A shard.

    Attributes:
        source: Its resolved path, or its URL: of a file, or of the folder that is an LMDB environment.
        file: Path or URL of its data file.
        size: Bytes of that.
    """

    source: str
    file: str
    size: int

    @contextmanager
    def here(self, temporary: Path) -> Iterator[Path]:
        """Its data file, or a copy of it in a folder, until the end; errors name where the shard lies.

        Raises:
            StorageError: It cannot be read.
        """
        if not is_url(self.file):
            yield Path(self.file)
            return
        copy = temporary / "shard"
        try:
            self._copy(copy)
            yield copy
        except StokerError as error:
            if error.path != str(copy):
                raise
            raise type(error)(
                error.message,
                path=self.file,
                shard=error.shard,
                record=error.record,
                key=error.key,
                hint=error.hint,
            ) from error
        finally:
            remove(copy)

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

    def place(self, into: str | os.PathLike[str]) -> str:
        """Where it lies, as a dataset in the folder ``into`` says it.

        That is relative where both may move together: at a URL in the folder, on a disk beside it or in it.

        Raises:
            SourceError: The dataset is at a URL, and the shard is not in its folder.
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
            return self.source
        home = Path(into).resolve()
        inside = Path(self.source).is_relative_to(home.parent)
        return os.path.relpath(self.source, home) if inside else self.source


def find_shards(
    paths: Iterable[str | os.PathLike[str]], container: str = "auto"
) -> tuple[str, list[ExternalShard]]:
    """The container of some shards, and the shards, before the first of them is read.

    Raises:
        ConfigError: There are none.
        SourceError: One is not there, named twice, or none of this container; or only some are at URLs.
        StorageError: A URL cannot be read.
    """
    sources = [source for path in paths for source in _sources(path)]
    if not sources:
        raise ConfigError("there are no shards to index")
    if len(set(map(is_url, sources))) > 1:
        raise SourceError(
            "some shards are at URLs and some on a disk",
            path=next(filter(is_url, sources)),
            hint="make a dataset of each, and mix them: stoker.mix",
        )
    kind = _detect(sources[0]) if container == "auto" else container
    container_of(kind)  # refuses what is none
    times = Counter(sources)
    for source in sources:
        if times[source] > 1:
            raise SourceError("the shard is named more than once", path=source)
    return kind, [(_stored if is_url(source) else _local)(source, kind) for source in sources]


def _sources(path: str | os.PathLike[str]) -> list[str]:
    """A resolved path, or URL; or the URLs of all files whose names a pattern fits, as a shell has it."""
    check_named(shard=path)
    if not is_url(path):
        return [str(Path(path).resolve())]
    folder, _, pattern = os.fspath(path).rstrip("/").rpartition("/")
    if "*" not in pattern:
        return [f"{folder}/{pattern}"]
    names = [file.name for file in Store(folder).files() if "/" not in file.name]
    if not (fitting := fnmatch.filter(names, pattern)):
        raise SourceError("no file fits the pattern", path=path)
    return [f"{folder}/{name}" for name in fitting]


def _detect(source: str) -> str:
    """LMDB is a folder, or a file that has its magic number in the first meta page."""
    if is_url(source):
        folder, _, name = source.rpartition("/")
        if Store(source).size(_LMDB_FILE) is not None:
            return "lmdb"
        head = Store(folder).read_if_there(name, most=_MAGIC_AT + len(_LMDB_MAGIC)) or b""
    else:
        if not Path(source).is_file():
            return "lmdb"
        with open_regular(source) as (descriptor, _):
            head = read_at(descriptor, 0, _MAGIC_AT + len(_LMDB_MAGIC))
    return "lmdb" if head[_MAGIC_AT : _MAGIC_AT + len(_LMDB_MAGIC)] == _LMDB_MAGIC else "tfrecord"


def _local(source: str, kind: str) -> ExternalShard:
    path = Path(source)
    file = container_of(kind).data_file(path)
    if not path.exists():
        raise SourceError("there is no such shard", path=source)
    if not file.is_file():
        hint = "name the shards themselves, of one kind: TFRecord files, or folders of LMDB"
        raise SourceError(f"this is no shard of {kind}", path=source, hint=hint)
    return ExternalShard(source, str(file), file.stat().st_size)


def _stored(source: str, kind: str) -> ExternalShard:
    file = source
    if kind == "lmdb" and not source.endswith(".mdb"):
        file = f"{source}/{_LMDB_FILE}"
    folder, _, name = file.rpartition("/")
    size = Store(folder).size(name)
    if size is None:
        raise SourceError(f"there is no such shard of {kind}", path=file)
    return ExternalShard(source, file, size)
