"""The loader of a training, made again from a description or by a user's function, for a replay."""

from __future__ import annotations

import json
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stoker.bucketing import BucketBoundaries
from stoker.errors import CheckpointError, ConfigError

from ..cluster.batch_maker import described_dataset
from ..description import VERSION, from_portable
from ..images.captions import Tokens
from ..images.loader import ImageLoader
from ..images.patches import Patches
from ..images.planners import AspectBuckets
from ..images.sizes import RandomSizes
from ..order.orders import BlockShuffle
from ..order.sampling import ClassBalanced, Repeated, Weighted
from ..text.loader import TextLoader

AnyLoader = ImageLoader | TextLoader

_OBJECTS = (
    *(AspectBuckets, BlockShuffle, BucketBoundaries, ClassBalanced, Patches, RandomSizes, Repeated, Tokens),
    Weighted,
)
_LOADERS: dict[str, type[AnyLoader]] = {"ImageLoader": ImageLoader, "TextLoader": TextLoader}
_ADVICE = "--loader train.py:make_loader names a function of your program that makes the loader."
_WRITE = "Write json.dumps(loader.describe()) to it, or json.dumps(loader.state_dict())."


def read_json(path: str | Path) -> dict[str, Any]:
    """Return the object in a file of JSON."""
    try:
        content = json.loads(Path(path).read_text("utf-8"))
    except ValueError as error:
        raise ConfigError(f"not JSON: {error}", path=Path(path), hint=_WRITE) from error
    if not isinstance(content, dict):
        raise ConfigError("the file holds no state of a loader", path=Path(path), hint=_WRITE)
    return content


def make_loader(description: str | Mapping[str, Any], rank: int, world_size: int | None) -> AnyLoader:
    """Make the loader of a training for one of its ranks, with batches in NumPy and the column "row"."""
    if isinstance(description, str):
        users_loader = _call(description)
        kind = next(cls for cls in _LOADERS.values() if isinstance(users_loader, cls))
        dataset, options = users_loader._given_dataset, dict(users_loader._given_options)
        world_size = world_size or users_loader._ranks.world_size
        users_loader.close()
    else:
        kind, dataset, options = _described(description)
        world_size = world_size or description["world_size"]
    if not 0 <= rank < world_size:
        raise ConfigError(
            f"there is no rank {rank}: the training had {world_size} rank{'s' * (world_size > 1)}",
            hint="--ranks gives their number.",
        )
    options |= {"rank": rank, "world_size": world_size, "output": "numpy", "device": None}
    for name in ("mesh", "replicate", "context", "context_slices", "pin_memory", "engine", "dali"):
        options.pop(name, None)
    loader = kind(dataset, **options)
    if "row" in loader.columns:
        return loader
    options["columns"] = (*loader.columns, "row")
    loader.close()
    return kind(dataset, **options)


def _call(argument: str) -> AnyLoader:
    """The loader that a user's function returns."""
    path, _, name = argument.rpartition(":")
    if not path or not Path(path).is_file():
        raise ConfigError(f"--loader must be file.py:function or a file of JSON, found {argument!r}")
    function = runpy.run_path(path, run_name="stoker_replay").get(name)
    loader = function() if callable(function) else None
    if not isinstance(loader, (ImageLoader, TextLoader)):
        problem = f"returned {loader!r}" if callable(function) else "does not exist"
        raise ConfigError(
            f"{name} must return an ImageLoader or a TextLoader, and {problem}",
            path=Path(path),
            hint="Leave the training itself under if __name__ == '__main__'.",
        )
    return loader


def _described(description: Mapping[str, Any]) -> tuple[type[AnyLoader], Any, dict[str, Any]]:
    if description.get("version") != VERSION or description.get("loader") not in _LOADERS:
        raise ConfigError("this describes no loader", hint=f"loader.describe() makes descriptions. {_ADVICE}")
    if missing := description["missing"]:
        raise CheckpointError(
            f"the description lacks what JSON cannot hold: {'; '.join(missing)}", hint=_ADVICE
        )
    arguments = {name: from_portable(value, _OBJECTS) for name, value in description["arguments"].items()}
    return _LOADERS[description["loader"]], described_dataset(description["dataset"], arguments), arguments
