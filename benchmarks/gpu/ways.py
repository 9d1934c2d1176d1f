"""The ways to decode on a GPU: whole images or regions, and the share of the JPEG engines.

The smoke test tries some of them. Its answers decide which ways later steps use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Results = Mapping[str, Mapping[str, Any]]

SMOKE_LOADS = (0.0, 0.65, 1.0)
"""Shares that the smoke test tries: CUDA alone, both, the JPEG engines alone."""


def smoke_name(region: bool, load: float) -> str:
    """Name of the step that first decodes in this way."""
    return f"smoke {'region' if region else 'full'} {load:g}"


def has_passed(steps: Results, region: bool, load: float) -> bool:
    """Whether the smoke test of a way has passed. That of 0.65 stands for all shares between 0 and 1."""
    tried = load if load in (0.0, 1.0) else 0.65
    found = steps.get(smoke_name(region, tried), {}).get("found", {})
    return bool(found.get("passed"))


def exact_loads(steps: Results, region: bool) -> tuple[float, ...]:
    """The shares that passed with which an image has the same pixels in every batch."""
    return tuple(load for load in (0.0, 1.0) if has_passed(steps, region, load))


def best_decoding(steps: Results) -> dict[str, Any] | None:
    """The way to decode for later steps: the fastest so far that passed the smoke test."""
    rows: list[dict[str, Any]] = [
        row
        for step in steps.values()
        for row in step.get("found", {}).get("decode", [])
        if has_passed(steps, row["region"], row["load"])
    ]
    if rows:
        return max(rows, key=lambda row: float(row["images_per_second"]))
    passed = [
        (region, load) for region in (False, True) for load in SMOKE_LOADS if has_passed(steps, region, load)
    ]
    if not passed:
        return None
    region, load = min(passed)  # whole images, and the least share
    return {"region": region, "load": load}
