"""The description of a loader: its dataset and arguments as JSON data, from which it can be made again."""

from __future__ import annotations

import base64
import os
import zlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import stoker
from stoker import bucketing
from stoker.augment.recipe import from_dict
from stoker.augment.transforms.base import Description
from stoker.formats.dataset.versions import split_version
from stoker.formats.remote.cached_dataset import CachedDataset
from stoker.urls import is_url, without_credentials

from .options import Ranks, Reading
from .order.sampling import open_cached

VERSION = 1
_MOST = 100_000  # numbers of an array that a description holds

ELSEWHERE = {"ranks", "device", "engine", "output", "num_threads", "prefetch", "batch_as"}
"""Arguments that decide where, how fast and in which form batches are made, but not their content."""


def content_arguments(loader: Any) -> dict[str, Any]:
    """The arguments of a loader that decide the content of its batches."""
    options = {name: value for name, value in loader.arguments.items() if name not in ELSEWHERE}
    if (reading := options.get("reading")) is not None:
        options["reading"] = replace(reading, workers=None)
    return options


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


def from_portable(value: Any) -> Any:
    """Return the argument that :func:`portable` has turned into ``value``; lists stay lists."""
    if isinstance(value, list):
        return [from_portable(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return np.array(value["array"], value.get("dtype"))
    if "mapping" in value:
        return {from_portable(key): from_portable(item) for key, item in value["mapping"]}
    if "transform" in value:
        return from_dict(value["transform"])
    name = str(value.get("object"))
    known = getattr(stoker, name, None) or getattr(bucketing, name, None)
    if not (isinstance(known, type) and is_dataclass(known)):
        raise ValueError(f"a description holds an unknown object: {value!r:.200}")
    return known(**{name: from_portable(item) for name, item in value.get("arguments", {}).items()})


def describe(loader: Any) -> dict[str, Any]:
    """Return the description of a loader as a dict of JSON data."""
    options = content_arguments(loader)
    if balance := getattr(loader.arguments.get("ranks"), "balance", None):  # decides which samples meet
        options["ranks"] = Ranks(balance=balance)
    arguments, missing = {}, []
    for name, value in options.items():
        try:
            arguments[name] = portable(value)
        except NotPortableError as error:  # noqa: PERF203 - a description has few arguments
            missing.append(f"{name}: {error}")
    try:
        dataset = describe_dataset(loader.dataset_argument, loader.dataset)
    except NotPortableError as error:
        dataset = {}
        missing.append(f"dataset: {error}")
    return {
        "version": VERSION,
        "loader": loader.pipeline.loader,
        "dataset": dataset,
        "arguments": arguments,
        "world_size": loader.process.world_size,
        "missing": missing,
        "state": loader.state_dict(),
    }


def describe_dataset(dataset_argument: Any, source: Any) -> dict[str, Any]:
    """Return the description of the dataset or mixture that a loader opened for its argument."""
    if hasattr(source, "quotas"):  # a mixture
        parts = [describe_dataset(dataset, dataset) for dataset in source.datasets]
        moving = source.moving and source.moving.to_json()
        return {"mixture": parts, "weights": source.quotas.tolist(), "moving": moving}
    version = source.manifest.dataset_version
    if isinstance(dataset_argument, (str, os.PathLike)):
        path = os.fspath(dataset_argument)
        known = split_version(path)[1] is not None
        description = {"path": without_credentials(path) if is_url(path) else str(Path(path).absolute())}
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


def described_dataset(description: Mapping[str, Any], arguments: dict[str, Any]) -> Any:
    """The dataset of a description. A plain path stays one: the loader applies its cache."""
    if "mixture" in description:
        from .order.mixture import mix
        from .order.moving_weights import MovingWeights

        parts = [described_dataset(part, {}) for part in description["mixture"]]
        weights, moving = description["weights"], description.get("moving")
        mixture = mix(list(zip(parts, weights, strict=True)), samples=sum(weights))
        return replace(mixture, moving=MovingWeights.from_json(moving, len(parts))) if moving else mixture
    if "version" not in description:
        return description["path"]
    reading: Reading | None = arguments.get("reading")
    cache = reading.cache if reading else None
    if reading:
        arguments["reading"] = replace(reading, cache=None)
    opened = open_cached(description["path"], cache, description["version"], arguments.get("classes"))
    return opened.select(unpack_rows(description["rows"])) if "rows" in description else opened
