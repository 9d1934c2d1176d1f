"""The comparison of Stoker with other loaders on one dataset, which ``stoker bench`` runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import stoker
from stoker.augment import load_recipe, recipe_names
from stoker.benchmarks.comparison.runner import ComparisonPlan, compare
from stoker.benchmarks.peers import installed_rivals
from stoker.benchmarks.peers.base import PeerSettings
from stoker.errors import ConfigError
from stoker.pipeline.engines.registry import numbered_device, this_machine

from ..measuring import allowed_cores, write_json
from .results import Comparison, to_json
from .sources import open_source

_RECIPE = "coco-hflip"  # the default of torchvision's references for detection


def run_bench(
    dataset_path: str | os.PathLike[str],
    against: Sequence[str] = ("torch", "tfdata", "dali"),
    json_out: str | os.PathLike[str] | None = None,
    *,
    rounds: int = 5,
    batch_size: int | None = None,
    num_threads: int | None = None,
    engines: Sequence[str] = ("stoker",),
    size: int | None = None,
    seed: int = 0,
    min_seconds: float = 2.0,
    workload: str = "",
    device: str = "cpu",
    transforms: str | None = None,
    min_visible: float = 0.0,
    min_size: float = 0.0,
    report: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Compare loaders on one dataset: random resized crop, flip, normalise, float32 NCHW; or a recipe.

    Each loader runs in its own process, pinned to the same cores, in interleaved turns. Where a loader is not
    installed or cannot do this work, the result gives the reason.
    """
    if json_out is not None and not Path(json_out).parent.is_dir():
        raise ConfigError("the folder of the JSON file does not exist", path=Path(json_out).parent)
    device = numbered_device(device, this_machine(device), 0) or "cpu"
    names = [one for name in against for one in (installed_rivals() if name == "all" else (name,))]
    cores = allowed_cores()
    threads = len(cores) if num_threads is None else num_threads
    tasks = stoker.open(dataset_path).tasks
    recipe = transforms or (_RECIPE if "boxes" in tasks and "label" not in tasks else "")
    settings = PeerSettings(batch_size or (16 if recipe else 64), size or 224, threads, seed, device)
    if recipe:
        load_recipe(recipe)
        if size is not None:
            raise ConfigError(f"the recipe {recipe!r} has a size of its own", hint="leave --size out")
        absolute = recipe if recipe in recipe_names() else str(Path(recipe).resolve())
        settings = replace(settings, recipe=absolute, min_visible=min_visible, min_size=min_size)
    elif min_visible or min_size:
        raise ConfigError(
            "min_visible and min_size are for boxes, and the work is a random crop of images with labels",
            hint="name a recipe, such as --transforms coco-ssd, for a dataset with boxes",
        )
    plan = ComparisonPlan(
        peers=(*engines, *(name for name in names if name not in engines)),
        settings=settings,
        cores=tuple(cores[:threads]),
        rounds=rounds,
        min_seconds=min_seconds,
        workload=workload or Path(dataset_path).name,
    )
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as scratch:
        result = compare(open_source(dataset_path, Path(scratch), boxes=bool(recipe)), plan, report)
    write_json(None if json_out is None else Path(json_out), [to_json(result)])
    return result
