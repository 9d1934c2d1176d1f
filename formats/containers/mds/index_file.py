"""``index.json`` beside MDS shards, which repeats the header of each shard, with hashes."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...files.reading import open_regular, read_at
from .header import BadShardError, MDSHeader, parse_columns

INDEX_FILE = "index.json"
_MOST_BYTES = 1 << 28
_CHUNK = 1 << 20


def check_index_file(path: Path, size: int, header: MDSHeader) -> None:
    """Compare a shard of ``size`` bytes, and its header, with ``index.json`` beside it, if there is one."""
    described = _described(path)
    if described is None:
        return
    raw = described["raw_data"]
    for what, stated, actual in (
        ("samples", described.get("samples"), header.samples),
        ("bytes", raw.get("bytes"), size),
    ):
        if stated != actual:
            raise BadShardError(f"{INDEX_FILE} says that it has {stated} {what}, and it has {actual}")
    if (columns := parse_columns(described)) != header.columns:
        raise BadShardError(
            f"{INDEX_FILE} says that its columns are {_text(columns)}, and they are {_text(header.columns)}"
        )
    hashes = raw.get("hashes") or {}
    for name in hashes if isinstance(hashes, dict) else ():
        if (
            name in hashlib.algorithms_guaranteed
            and not name.startswith("shake")
            and _hash(path, name) != hashes[name]
        ):
            raise BadShardError(f"the {name} of the file is not that of {INDEX_FILE}: the file is damaged")


def _text(columns: tuple[Any, ...]) -> str:
    return ", ".join(f"{column.name} ({column.encoding}, {column.size})" for column in columns)


def _described(path: Path) -> dict[str, Any] | None:
    """Return what ``index.json`` says of the shard; None without such a file."""
    file = path.with_name(INDEX_FILE)
    try:
        state = file.stat()
        shards = _shards(file, state.st_size, state.st_mtime_ns)
    except OSError:
        return None
    except (ValueError, RecursionError) as error:
        raise BadShardError(f"{INDEX_FILE} beside it is not JSON: {error}") from error
    if path.name not in shards:
        raise BadShardError(f"{INDEX_FILE} beside it does not name it")
    return shards[path.name]


@lru_cache(maxsize=2)
def _shards(file: Path, size: int, modified: int) -> dict[str, dict[str, Any]]:
    """Return what ``index.json`` of this state says of each shard, by the name of its file."""
    with open_regular(file) as (descriptor, _):
        document = json.loads(read_at(descriptor, 0, min(size, _MOST_BYTES)))
    shards = document.get("shards") if isinstance(document, dict) else None
    by_name = {}
    for shard in shards if isinstance(shards, list) else ():
        raw = shard.get("raw_data") if isinstance(shard, dict) else None
        if isinstance(raw, dict) and isinstance(raw.get("basename"), str):
            by_name[raw["basename"]] = shard
    return by_name


def _hash(path: Path, name: str) -> str:
    digest = hashlib.new(name, usedforsecurity=False)
    with open_regular(path) as (descriptor, size):
        for offset in range(0, size, _CHUNK):
            digest.update(read_at(descriptor, offset, _CHUNK))
    return digest.hexdigest()
