"""The description of a loader: its dataset and arguments as JSON data, from which it can be made again."""

from __future__ import annotations

import base64
import os
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.augment.description import Description
from stoker.augment.recipe import from_dict
from stoker.formats.dataset.versions import split_version
from stoker.formats.remote.cached_dataset import CachedDataset
from stoker.urls import is_url

_MOST = 100_000  # numbers of an array that a description holds


class NotPortableError(Exception):
    """An argument has no form that JSON can hold."""


def portable(value: Any) -> Any:
    """Return an argument as JSON data: numbers, texts, lists, and objects for other types."""
    if isinstance(value, np.generic):
        value = value.item()
    elif isinstance(value, os.PathLike):
        value = os.fspath(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [portable(item) for item in value]
    return _as_object(value)


def _as_object(value: Any) -> dict[str, Any]:
    if isinstance(value, np.ndarray) and value.size <= _MOST and value.dtype.kind in "biuf":
        return {"array": value.tolist(), "dtype": value.dtype.name}
    if isinstance(value, Mapping):
        return {"mapping": [[portable(key), portable(item)] for key, item in value.items()]}
    if isinstance(value, Description):
        return {"transform": value.to_dict()}
    if is_dataclass(value) and type(value).__module__.startswith("stoker."):
        names = [field.name for field in fields(value) if field.init]
        arguments = {name: portable(getattr(value, name)) for name in names}
        return {"object": type(value).__name__, "arguments": arguments}
    raise NotPortableError(f"{type(value).__name__} {getattr(value, '__qualname__', '')}".strip())


def from_portable(value: Any, known: Iterable[type]) -> Any:
    """Return the argument that :func:`portable` has turned into ``value``; lists stay lists."""
    if isinstance(value, list):
        return [from_portable(item, known) for item in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return np.array(value["array"], value.get("dtype"))
    if "mapping" in value:
        return {from_portable(key, known): from_portable(item, known) for key, item in value["mapping"]}
    if "transform" in value:
        return from_dict(value["transform"])
    classes = {cls.__name__: cls for cls in known}
    if value.get("object") not in classes:
        raise ValueError(f"a description holds an unknown object: {value!r:.200}")
    arguments = {name: from_portable(item, known) for name, item in value.get("arguments", {}).items()}
    return classes[value["object"]](**arguments)


VERSION = 1

ELSEWHERE = {
    *("rank", "world_size", "mesh", "replicate", "device", "dali", "engine", "output", "num_threads"),
    *("prefetch", "read_ahead", "pin_memory", "mapped", "context", "context_slices", "workers"),
}
"""Arguments that decide where and how fast batches are made, but not their content."""


def describe(
    kind: str,
    dataset_argument: Any,
    source: Any,
    options: Mapping[str, Any],
    *,
    world_size: int,
    state: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the description of a loader as a dict of JSON data."""
    arguments, missing = {}, []
    for name, value in options.items():
        if name in ELSEWHERE:
            continue
        try:
            arguments[name] = portable(value)
        except NotPortableError as error:
            missing.append(f"{name}: {error}")
    try:
        dataset = describe_dataset(dataset_argument, source)
    except NotPortableError as error:
        dataset = {}
        missing.append(f"dataset: {error}")
    return {
        "version": VERSION,
        "loader": kind,
        "dataset": dataset,
        "arguments": arguments,
        "world_size": world_size,
        "missing": missing,
        "state": dict(state),
    }


def describe_dataset(dataset_argument: Any, source: Any) -> dict[str, Any]:
    """Return the description of a dataset or mixture; :func:`describe` explains the arguments."""
    if hasattr(source, "quotas"):  # a mixture
        parts = [describe_dataset(dataset, dataset) for dataset in source.datasets]
        moving = source.moving and source.moving.to_json()
        return {"mixture": parts, "weights": source.quotas.tolist(), "moving": moving}
    version = source.manifest.dataset_version
    if isinstance(dataset_argument, (str, os.PathLike)):
        path = os.fspath(dataset_argument)
        known = split_version(path)[1] is not None
        description = {"path": path if is_url(path) else str(Path(path).absolute())}
        return description if known else {**description, "version": version}
    if isinstance(source, CachedDataset):
        raise NotPortableError("a remote dataset that was opened before; give the loader its URL and cache=")
    if source.choice.numbering is not None or source.choice.objects is not None:
        raise NotPortableError("a selection that renumbers classes or leaves objects out")
    description = {"path": str(Path(source.path).absolute()), "version": version}
    return description if source.choice.rows is None else {**description, "rows": pack_rows(source.rows)}


def pack_rows(rows: npt.NDArray[np.int64]) -> str:
    """Return rows of an index, (N,) int64, as text: their differences, compressed."""
    steps = np.diff(rows, prepend=np.int64(0)).astype("<i8")
    return base64.b64encode(zlib.compress(steps.tobytes(), 9)).decode("ascii")


def unpack_rows(text: str) -> npt.NDArray[np.int64]:
    """Return the rows, (N,) int64, of :func:`pack_rows`."""
    steps = np.frombuffer(zlib.decompress(base64.b64decode(text)), "<i8")
    return np.cumsum(steps, dtype=np.int64)
