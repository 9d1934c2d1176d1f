"""External shards on a disk or at URLs; a shard at a URL is copied to a disk while it is read."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from stoker.errors import ConfigError, SourceError, StokerError, with_details
from stoker.urls import without_credentials

from ..concurrency.bounded_map import bounded_map
from ..containers.base import Container
from ..containers.registry import (
    CONTAINERS,
    DEFAULT_CONTAINER,
    detect_container,
    external,
    find_container,
    is_local_shard,
    read_local_start,
)
from ..files.publishing import remove
from ..remote.store import Store, is_url
from ..sources.archives.names import expand

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
