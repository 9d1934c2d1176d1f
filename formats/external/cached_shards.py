"""External shards as ``stoker.open`` takes them: their index is kept in the user's cache.

An index is used again while the shards have the sizes and the times of last change that they had; where a
storage states no time, their sizes alone decide.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stoker.progress_line import progress_line
from stoker.urls import without_credentials

from ..caching.index_cache import cached_index
from ..containers.registry import CONTAINERS, is_local_shard
from ..remote.store import Store, is_url
from ..sources.archives.names import expand, is_pattern
from .external_index import index
from .shards import ExternalShard, find_shards

_CONCURRENT = 32  # requests for the times of shards


def names_shards(path: str | os.PathLike[str]) -> bool:
    """Return whether a path or URL is that of external shards.

    On a disk the start of the first shard decides. At a URL the name decides: it must be that of an archive,
    a list in braces or a pattern.
    """
    if is_url(path):
        suffixes = tuple(row.suffix for row in CONTAINERS.values() if row.suffix)
        return is_pattern(path) or os.fspath(path).endswith(suffixes)
    return is_local_shard(Path(expand(path)[0]))


def index_shards_in_cache(path: str | os.PathLike[str]) -> Path:
    """Return the folder of the index of shards; it is made if the cache does not have it.

    Raises: As :func:`.external_index.index`.
    """
    url = without_credentials(os.fspath(path)) if is_url(path) else None
    origin = url or os.path.abspath(path)  # noqa: PTH100 - it may be a pattern
    container, shards = find_shards([path])
    with ThreadPoolExecutor(_CONCURRENT, thread_name_prefix="stoker-ask") as pool:
        times = pool.map(_modified, shards)
        facts = [(shard.source, shard.size, time) for shard, time in zip(shards, times, strict=True)]
    identity = [value for fact in facts for value in fact]
    sources = [shard.source for shard in shards]

    def make(folder: Path) -> None:
        with progress_line(f"indexing {origin}", "bytes") as show:
            index(sources, folder, container=container.name, progress=show)

    return cached_index(origin, [container.name, *identity], make)


def _modified(shard: ExternalShard) -> int:
    """Return the time of the last change of a shard, nanoseconds since 1970; 0 where it is not stated."""
    if not is_url(shard.file):
        return Path(shard.file).stat().st_mtime_ns
    folder, _, name = shard.file.rpartition("/")
    return Store(folder).modified(name)
