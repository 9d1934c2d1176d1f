"""The cost of captions: conversions and loaders of photographs with five captions each, and without.

    python -m stoker.benchmarks.images.captions [--source DIR] [--rounds 5] [--json FILE]

The photographs have the size and quality of ImageNet's; a caption has 5 to 20 words. The loader crops to 224,
and hands out one caption of each image as 77 token ids. All take turns; CPU seconds show the cost on a busy
machine.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop
from stoker.benchmarks.arguments import make_parser, write_json
from stoker.benchmarks.comparison.photographs import photographs_in
from stoker.benchmarks.costs import Cost, costs_in_turns, imagenet_like, median
from stoker.benchmarks.report.machine import allowed_cores, describe

CAPTIONS = 5
WORDS = 5000


def write_list(photographs: Path, target: Path) -> None:
    """Write a list in JSON Lines of the photographs, with the name of their folder and captions."""
    draw = np.random.default_rng(0)
    lines = []
    for path in photographs_in(photographs):
        counts = draw.integers(5, 21, CAPTIONS).tolist()
        captions = [" ".join(f"w{word}" for word in draw.integers(0, WORDS, count)) for count in counts]
        name = str(path.relative_to(photographs))
        lines.append(json.dumps({"path": name, "label": path.parent.name, "captions": captions}))
    target.write_text("\n".join(lines))


def measure(photographs: Path, work: Path, rounds: int) -> dict[str, Cost]:
    """Return the cost of a sample, by what is done with it and whether it has captions."""
    write_list(photographs, work / "list.jsonl")
    samples, threads = len(photographs_in(photographs)), len(allowed_cores())
    converted: dict[str, list[Cost]] = {"converted": [], "converted with captions": []}
    for turn in range(rounds + 1):
        for name, found in converted.items():
            options: dict[str, Any] = {"caption_column": "captions"} if "captions" in name else {}
            began, before = perf_counter(), process_time()
            stoker.convert(work / "list.jsonl", work / f"{name}-{turn}", images=photographs, **options)
            found.append(Cost((perf_counter() - began) / samples, (process_time() - before) / samples))
    loaders = {
        f"loaded{name}": stoker.ImageLoader(
            work / f"converted with captions-{rounds}",
            batch_size=64,
            transforms=[RandomResizedCrop(224), RandomHorizontalFlip(), Normalize()],
            shuffle=True,
            columns=columns,
            caption=stoker.Tokens(max_length=77) if name else None,
            num_threads=threads,
        )
        for name, columns in (("", ("image",)), (" with captions", ("image", "caption")))
    }
    costs = {name: median(found[1:]) for name, found in converted.items()}
    return costs | costs_in_turns(loaders, rounds)


def main() -> None:
    """Run from the command line."""
    args = make_parser(__doc__, "source", "scratch", "json", rounds=5, copies=512).parse_args()
    with imagenet_like(args, "captions") as work:
        costs = measure(work / "copies", work, args.rounds)
    for name, cost in costs.items():
        print(f"{name:<24}{1 / cost.seconds:8,.0f} images/s{1000 * cost.cpu_seconds:8.3f} CPU ms an image")
    figures = {name: asdict(cost) for name, cost in costs.items()}
    write_json(args.json, {"machine": describe(allowed_cores()), **figures})


if __name__ == "__main__":
    main()
