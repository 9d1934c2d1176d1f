"""A summary of the results in a few lines: ways to decode, rates of loaders, overlap, and verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from .context import best_decoding

Results = Mapping[str, Mapping[str, Any]]


def summary(steps: Results) -> list[str]:
    """Lines of text about the results."""
    return [
        *_smoke(steps),
        f"decodes: {best_decoding(steps)}",
        *_rates(steps),
        *_overlap(steps),
        *_verdicts(steps),
    ]


def _found(steps: Results, prefix: str) -> dict[str, dict[str, Any]]:
    """What steps whose names begin with ``prefix`` found, by the rest of their names."""
    return {
        name.removeprefix(prefix).strip(): dict(step["found"])
        for name, step in steps.items()
        if name.startswith(prefix) and "found" in step
    }


def _smoke(steps: Results) -> list[str]:
    outcomes = {
        name.removeprefix("smoke "): "passed" if step.get("found", {}).get("passed") else step["outcome"]
        for name, step in steps.items()
        if name.startswith("smoke ")
    }
    return [f"smoke: {', '.join(f'{name} {outcome}' for name, outcome in outcomes.items())}"]


def _rates(steps: Results) -> list[str]:
    rounds: dict[str, list[dict[str, Any]]] = {}
    for found in _found(steps, "round ").values():
        if "images_per_second" in found:
            rounds.setdefault(f"{found['dataset']} {found['loader']}", []).append(found)
    lines = []
    for name, rows in rounds.items():
        rates = [row["images_per_second"] for row in rows]
        line = f"{name:<28} {median(rates):>9,.0f} images/s ({min(rates):,.0f} to {max(rates):,.0f})"
        for key, title in (
            ("cpu_seconds_per_1000", "CPU s/1000"),
            ("jpeg_percent", "JPEG %"),
            ("sm_percent", "SM %"),
            ("memory_gib", "GiB"),
        ):
            values = [row[key] for row in rows if key in row]
            line += f", {title} {median(values):g}" if values else ""
        lines.append(line)
    return lines


def _overlap(steps: Results) -> list[str]:
    return [
        f"overlap {name}: step {found['step']:,.0f}, loader {found['loader_alone']:,.0f}, both "
        f"{found['both']:,.0f} images/s, {found['share_of_the_smaller']:.3f} of the smaller"
        for name, found in _found(steps, "overlap ").items()
        if "share_of_the_smaller" in found
    ]


def _verdicts(steps: Results) -> list[str]:
    lines = []
    for name in ("tests", "corrupt", "fork", "switch", "long run"):
        if name in steps:
            found = steps[name].get("found", {})
            verdict = found.get("verdict", found.get("reason", "no verdict"))
            lines.append(f"{name}: {steps[name]['outcome']}, {verdict}")
    return lines
