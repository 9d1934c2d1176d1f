"""Weights of a mixture after a resume: first those of the state, then those of the loader."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from stoker.errors import CheckpointError, ConfigError

from .order.mixture import Mixture
from .order.moving_weights import MovingWeights, WeightPart
from .order.orders import MixedOrder

# The end of a MixedOrder in the identity of a state.
_WEIGHTS = re.compile(r"quotas=\(([\d, ]*)\)(?:, parts=(\[\[.*\]\]))?\)")


def check_allowed(allow: Collection[str]) -> None:
    """Raise ConfigError if ``allow``, of ``load_state_dict``, names anything but the weights."""
    if isinstance(allow, str) or set(allow) - {"weights"}:
        raise ConfigError(f"allow can name only 'weights', found {allow!r}", hint='Give allow=("weights",).')


def resumed_mixture(
    source: Any, order: Any, state: Any, point: int, allow: Collection[str]
) -> Mixture | None:
    """Return the mixture that a loader needs to go on from a state; None if ``source`` is that mixture."""
    loader_order = repr(order)
    identity = state.get("identity") if isinstance(state, Mapping) else None
    saved_order = identity.get("order") if isinstance(identity, Mapping) else None
    if not isinstance(source, Mixture) or not isinstance(saved_order, str) or saved_order == loader_order:
        return None
    if _WEIGHTS.sub("", saved_order) != _WEIGHTS.sub("", loader_order):
        return None  # more than the weights differs; the comparison of states will name it
    datasets = len(source.datasets)
    saved, current = (_parts(text, datasets) for text in (saved_order, loader_order))
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
        while not isinstance(order, MixedOrder):
            order = order.order
        parts = saved.then(point, current, order.quota_schedule)
    else:
        raise CheckpointError(
            f"the weights of the mixture were {saved.to_json()} and are {current.to_json()}",
            hint='To change them from here on: load_state_dict(state, allow=("weights",)).',
        )
    return replace(source, moving=parts, quotas=np.array(parts.parts[-1].quotas, np.int64))


def _parts(order: str, datasets: int) -> MovingWeights:
    match = _WEIGHTS.search(order)
    assert match is not None, "the order of a mixture"
    if match[2]:
        return MovingWeights.from_json(json.loads(match[2]), datasets)
    quotas = tuple(int(number) for number in match[1].split(",") if number.strip())
    return MovingWeights((WeightPart(0, quotas),))
