"""Datasets of external shards: an index and a manifest beside files that stay as they are."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from stoker.arguments import check_progress
from stoker.errors import DatasetError

from ..containers.messages.image_record import FeatureNames
from ..dataset.manifest import MANIFEST_NAME, Manifest
from ..dataset.versions.publishing import publish_index
from ..files.reading import check_named
from ..remote.store import Store, is_url
from .indexer import Indexer
from .shards import ExternalShard, find_shards

__all__ = ["FeatureNames", "index"]


def index(
    paths: Iterable[str | os.PathLike[str]],
    into: str | os.PathLike[str],
    *,
    container: str = "auto",
    names: FeatureNames | Mapping[str, Any] | None = None,
    classes: Sequence[str] | None = None,
    checksums: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Manifest:
    """Make a dataset of existing shards without rewriting them.

    Every record is read once and its checksums are verified. From a tar archive at a URL, only headers and
    small members are fetched, unless ``checksums`` is set. An image whose header cannot be read is left out
    and counted in ``Manifest.skipped``. The sidecars of the container, such as DALI's ``.idx`` files of
    TFRecord shards, are written beside the index.
    """
    check_progress(progress)
    check_named(into=into)
    chosen, shards = find_shards(paths, container)
    if not isinstance(names, FeatureNames):
        names = replace(chosen.feature_names or FeatureNames(), **(names or {}))
    indexer = Indexer(chosen, names, classes, progress, checksums=checksums)
    locations = [shard.location(into) for shard in shards]
    if is_url(into):
        return _index_to_url(indexer, shards, locations, Store(into))
    return publish_index(Path(into), partial(indexer.run, shards, locations))


def _index_to_url(
    indexer: Indexer, shards: list[ExternalShard], locations: list[str], store: Store
) -> Manifest:
    if store.size(MANIFEST_NAME) is not None:
        hint = "name another URL, or remove its dataset.json"
        raise DatasetError("there is a dataset already", path=store.url, hint=hint)
    with tempfile.TemporaryDirectory(prefix="stoker-index-") as temporary:
        manifest = indexer.run(shards, locations, Path(temporary))
        for file in sorted(Path(temporary).iterdir()):
            store.upload(file, file.name)
        store.write(MANIFEST_NAME, manifest.to_json().encode())
        return manifest
