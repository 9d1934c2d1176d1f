"""From a saved state to the pipeline and the position with which a loader continues; loaders call it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from stoker.errors import CheckpointError, ConfigError, DatasetError
from stoker.formats.dataset.versions import split_version

from .execution.pipeline import Pipeline
from .execution.state import EpochParts, State, convert_stream_state, resumed_history
from .order.exclusions import Exclusions
from .order.sampling import open_cached, version_of

# The end of a MixedOrder in the identity of a state.
_WEIGHTS = re.compile(r"quotas=\(([\d, ]*)\)(?:, parts=(\[\[.*\]\]))?\)")


@dataclass
class Resumed:
    """What a loader continues with."""

    pipeline: Any
    dataset_argument: Any
    options: dict[str, Any]  # Changed arguments of the loader
    position: State
    parts: EpochParts
    exclusions: Exclusions | None


def resume(loader: Any, make: Callable[..., Any], saved: Any, allow: Collection[str]) -> Resumed:
    """Return what ``loader`` continues with from a saved state; ``make`` makes its pipeline."""
    # The state may belong to another version of the dataset, to other weights of a mixture, or to the buckets
    # of an earlier release: then the pipeline is another one.
    if isinstance(allow, str) or set(allow) - {"weights"}:
        raise ConfigError(f"allow can name only 'weights', found {allow!r}", hint='Give allow=("weights",).')
    if not isinstance(saved, Mapping) or not isinstance(saved.get("identity"), Mapping):
        raise CheckpointError(
            "this is not a state of a Stoker loader", hint="Pass what state_dict() returned."
        )
    state = {name: value for name, value in saved.items() if name not in ("dataset_version", "global_batch")}
    made = [loader.pipeline]
    options: dict[str, Any] = {}
    dataset_argument = loader.dataset_argument
    try:
        if dataset := _other_version(loader, saved):
            made.append(make(dataset))
        if mixture := _resumed_mixture(made[-1], state, allow):
            dataset_argument = mixture
            made.append(make(mixture))
            state["identity"] = {**state["identity"], "order": repr(made[-1].order)}
        if options := made[-1].former_options(state["identity"]):
            made.append(make(made[-1].source, **options))
        position, parts, exclusions = _position(made[-1], state, loader.process.world_size)
    except BaseException:
        for pipeline in made[1:]:
            pipeline.close()
        raise
    for pipeline in made[1:-1]:
        pipeline.close()
    return Resumed(made[-1], dataset_argument, options, position, parts, exclusions)


def _position(
    pipeline: Pipeline, state: dict[str, Any], world_size: int
) -> tuple[State, EpochParts, Exclusions | None]:
    """The position of a state, the parts of its epoch on other ranks, and its exclusions."""
    exclusions = None
    if "excluded" in state:
        exclusions = Exclusions.from_json(state.pop("excluded"), len(pipeline.source), pipeline.point_numbers)
    if not pipeline.counts_steps:
        plain = convert_stream_state(pipeline.order.n, state)
        position = State.from_dict(plain, pipeline.identity, pipeline.largest_position)
        return position, EpochParts(), exclusions
    if not {"world_size", "history"} <= state.keys():
        raise CheckpointError(
            f"the state is not one of a {pipeline.described}", hint="Pass what state_dict() returned."
        )
    planned, begun = pipeline.rebatched(state)
    plain = {name: value for name, value in planned.items() if name not in ("world_size", "history")}
    position = State.from_dict(plain, pipeline.identity, pipeline.largest_position)
    history, is_new = resumed_history(planned, position.position, begun.world_size if begun else world_size)
    if is_new:
        position = replace(position, position=0)
    begun = begun if position.position or history else None
    return position, EpochParts(position.epoch, history, begun), exclusions


def _other_version(loader: Any, saved: Mapping[str, Any]) -> Any:
    """The version of the dataset that a state belongs to; None if the loader has it, or it is not found."""
    source, named = loader.pipeline.source, saved.get("dataset_version")
    wanted = saved["identity"].get("dataset")
    if not isinstance(wanted, str) or wanted == source.fingerprint:
        return None
    given = loader.dataset_argument
    if not isinstance(given, (str, os.PathLike)) or split_version(given)[1] is not None:
        return _refuse_version(named or 1, version_of(source))
    last, reading = source.manifest.dataset_version, loader.arguments.get("reading")
    for number in [named] if type(named) is int else range(max(last, 1), 0, -1):
        try:
            dataset = open_cached(given, reading and reading.cache, number)
        except DatasetError:  # a version that is not here
            continue
        if dataset.fingerprint == wanted:
            return dataset
    return None  # the check of the identity names the difference


def _refuse_version(named: Any, current: Any) -> None:
    if named != current:
        raise CheckpointError(
            f"the state is of version {named} of the dataset, and the loader has version {current}",
            hint=f"To go on with version {named}, open it: stoker.open(path, version={named}). To train "
            "on with this one, leave the state and begin its next epoch: loader.set_epoch(epoch).",
        )


def _resumed_mixture(pipeline: Pipeline, state: Mapping[str, Any], allow: Collection[str]) -> Any:
    """The mixture with the weights that a state needs; None if the loader's is that mixture."""
    source, order = pipeline.source, cast("Any", pipeline.order)
    loader_order, saved_order = repr(order), state["identity"].get("order")
    if not hasattr(source, "quotas") or not isinstance(saved_order, str) or saved_order == loader_order:
        return None
    if _WEIGHTS.sub("", saved_order) != _WEIGHTS.sub("", loader_order):
        return None  # more than the weights differs; the check of the identity names it
    datasets, point = len(source.datasets), pipeline.first_draw(state)
    saved, current = (_weight_parts(text, datasets) for text in (saved_order, loader_order))
    before, now = saved.parts[-1].length, current.parts[-1].length
    if before != now:
        raise CheckpointError(
            f"an epoch of the mixture had {before} samples and has {now}",
            hint="Give stoker.mix the earlier number: samples=.",
        )
    is_last = saved.parts[-1].begin <= point and saved.parts[-1].quotas == current.parts[-1].quotas
    if is_last and len(current.parts) == 1:
        parts = saved
    elif "weights" in allow:
        while not hasattr(order, "rounds"):  # the order of the mixture is within
            order = order.order
        parts = saved.then(point, current, order.quota_schedule)
    else:
        raise CheckpointError(
            f"the weights of the mixture were {saved.to_json()} and are {current.to_json()}",
            hint='To change them from here on: load_state_dict(state, allow=("weights",)).',
        )
    return replace(source, moving=parts, quotas=np.array(parts.parts[-1].quotas, np.int64))  # type: ignore[type-var]


def _weight_parts(order: str, datasets: int) -> Any:
    from .order.moving_weights import MovingWeights, WeightPart

    match = _WEIGHTS.search(order)
    assert match is not None, "the order of a mixture"
    if match[2]:
        return MovingWeights.from_json(json.loads(match[2]), datasets)
    quotas = tuple(int(number) for number in match[1].split(",") if number.strip())
    return MovingWeights((WeightPart(0, quotas),))
