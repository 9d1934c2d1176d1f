"""What epochs draw, on any number of ranks, and states in the middle of them."""

from __future__ import annotations

import json
from contextlib import ExitStack
from itertools import islice
from typing import Any

import numpy as np
from helpers.loaders import image_arguments

import stoker
from stoker import BlockShuffle, ClassBalanced, Repeated, Weighted
from stoker.augment import CenterCrop

from .results import Local
from .sources import Sandbox

EPOCHS = 3
OPTIONS: dict[str, Any] = {
    "transforms": [CenterCrop(4)],
    "num_threads": 1,
    "rank": 0,
    "world_size": 1,
    "engine": "native",
}


def make_loader(dataset: Any, **options: Any) -> stoker.ImageLoader:
    """Returns a loader of rows."""
    options = {"batch_size": 8, "columns": ("row",), **OPTIONS, **options}
    return stoker.ImageLoader(dataset, **image_arguments(**options))


def drawn(dataset: Any, epochs: int = EPOCHS, **options: Any) -> list[Any]:
    """Returns the batches of some epochs."""
    with make_loader(dataset, **options) as loader:
        return [[list(batch) for batch in loader] for _ in range(epochs)]


def orders(sandbox: Sandbox) -> dict[str, Any]:
    """Orders of all samples."""
    results: dict[str, Any] = {"sequential": drawn(sandbox.small)}
    for seed in (0, 7, 2**40):
        results[f"shuffle/{seed}"] = drawn(sandbox.small, shuffle=True, seed=seed)
    for block, window in ((4, 3), (1, 2), (64, 16), (5, 100)):
        shuffle = BlockShuffle(block=block, window=window)
        results[f"blocks/{block}-{window}"] = drawn(sandbox.small, shuffle=shuffle, seed=3)
    chosen = stoker.open(sandbox.small).select("label != 1")
    return {**results, "selected": drawn(chosen, shuffle=True)}


def ranks(sandbox: Sandbox) -> dict[str, Any]:
    """Shares of several ranks, and short last batches."""
    results: dict[str, Any] = {}
    for last_batch in ("partial", "drop", "pad"):
        for world_size in (1, 2, 3):
            columns = ("row", "mask") if last_batch == "pad" else ("row", "label")
            options = {"last_batch": last_batch, "columns": columns, "world_size": world_size}
            shares = [
                drawn(sandbox.small, 2, shuffle=True, rank=rank, **options) for rank in range(world_size)
            ]
            results[f"{last_batch}/{world_size}"] = shares
    return results


def samplers(sandbox: Sandbox) -> dict[str, Any]:
    """Every sampler, alone and repeated."""
    weights = np.arange(61) % 5 / 2
    samplers_by_name = {
        "weighted": Weighted(weights),
        "weighted/column": Weighted("label", samples=100),
        "weighted/once": Weighted(weights, replacement=False),
        "weighted/some": Weighted(weights + 0.1, replacement=False, samples=20),
        "balanced": ClassBalanced(),
        "balanced/samples": ClassBalanced(np.arange(61) // 9, samples=40),
        "repeated": Repeated(3),
        "repeated/deit": Repeated(3, samples=61),
        "repeated/weighted": Repeated(2, of=Weighted(weights)),
    }
    results: dict[str, Any] = {}
    for name, sampler in samplers_by_name.items():
        shuffle = name in ("repeated", "repeated/deit")
        results[name] = drawn(sandbox.small, sampler=sampler, seed=4, shuffle=shuffle)
        options = {"sampler": sampler, "shuffle": shuffle, "world_size": 2, "rank": 1}
        results[f"{name}/stream"] = drawn(sandbox.small, steps_per_epoch=6, **options)
    return results


def mixtures(sandbox: Sandbox) -> dict[str, Any]:
    """Mixtures of two and three datasets with classes of their own."""
    other = sandbox.removed("sets/other")
    stoker.convert(
        sandbox.small_source,
        other,
        classes=("wasp", "cow", "bee", "ant"),
        storage=stoker.ImageStorage(shard_records=20),
    )
    parts = [(sandbox.small, 0.6), (stoker.open(other).select("label > 0"), 0.3), (sandbox.squares, 0.1)]
    results: dict[str, Any] = {}
    for name, mixture in (
        ("two", stoker.mix(parts[:2])),
        ("three", stoker.mix(parts, samples=50)),
        ("nothing of one", stoker.mix([parts[0], (other, 0)], samples=90)),
    ):
        columns = ("row", "dataset", "label", "key")
        results[f"{name}/classes"] = mixture.classes
        for shuffle in (False, True, BlockShuffle(block=4, window=2)):
            kind = type(shuffle).__name__ if shuffle not in (False, True) else str(shuffle)
            results[f"{name}/{kind}"] = drawn(mixture, columns=columns, shuffle=shuffle, seed=6)
        options = {"rank": 1, "world_size": 3, "shuffle": True, "steps_per_epoch": 4}
        results[f"{name}/stream"] = drawn(mixture, columns=columns, **options)
    return results


def streams(sandbox: Sandbox) -> dict[str, Any]:
    """Infinite streams, which go on from pass to pass."""
    results: dict[str, Any] = {}
    for steps in (3, 20):
        for world_size in (1, 2, 3):
            options = {"steps_per_epoch": steps, "world_size": world_size, "seed": 5}
            for shuffle in (False, True):
                shares = [
                    drawn(sandbox.small, rank=rank, shuffle=shuffle, **options) for rank in range(world_size)
                ]
                results[f"{steps}/{world_size}/{shuffle}"] = shares
    return results


def state(loader: Any) -> list[Any]:
    """Returns a state, and the part of it that does not depend on the bytes of the index."""
    whole = json.loads(json.dumps(loader.state_dict()))
    plain = json.loads(json.dumps(whole))
    plain["identity"].pop("dataset")
    return [Local(json.dumps(whole)), json.dumps(plain)]


def states(sandbox: Sandbox) -> dict[str, Any]:
    """States at several steps, and the batches of loaders that resume from them."""
    results: dict[str, Any] = {}
    mixture = stoker.mix([(sandbox.small, 0.7), (sandbox.squares, 0.3)])
    for name, dataset, options in (
        ("shuffled", sandbox.small, {"shuffle": True, "seed": 2}),
        ("blocks", sandbox.small, {"shuffle": BlockShuffle(block=4, window=2), "last_batch": "pad"}),
        ("weighted", sandbox.small, {"sampler": Weighted("label")}),
        ("balanced", sandbox.small, {"sampler": Repeated(2, of=ClassBalanced())}),
        ("mixture", mixture, {"shuffle": True}),
        ("stream", sandbox.small, {"shuffle": True, "steps_per_epoch": 9, "world_size": 2}),
    ):
        for epochs, steps in ((0, 0), (0, 3), (1, 5), (2, 0)):
            with ExitStack() as stack:
                loader = stack.enter_context(make_loader(dataset, **options))
                for _ in range(epochs):
                    list(loader)
                list(islice(loader, steps))
                saved = loader.state_dict()
                whole, plain = state(loader)
                results[f"{name}/{epochs}-{steps}/identity"] = whole
                results[f"{name}/{epochs}-{steps}"] = plain
                for world_size in (1, 3):
                    arguments = {**options, "world_size": world_size, "rank": world_size - 1}
                    if "steps_per_epoch" in arguments:
                        arguments["steps_per_epoch"] = 18 // world_size
                    restored = stack.enter_context(make_loader(dataset, **arguments))
                    restored.load_state_dict(saved)
                    rest = [[list(batch) for batch in restored] for _ in range(2)]
                    results[f"{name}/{epochs}-{steps}/on {world_size}"] = rest
                    results[f"{name}/{epochs}-{steps}/after {world_size}"] = state(restored)[1]
    return results


CONFIGURATIONS = (orders, ranks, samplers, mixtures, streams, states)
