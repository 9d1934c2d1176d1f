"""The plan of packed rows of patches and captions: their fill against the bound, and the time that it takes.

    python -m stoker.benchmarks.images.packed_rows [--samples 1000000] [--json FILE]

Images have about ImageNet's sizes: areas are log-normal around 400 x 400 pixels, aspect ratios around 1.16.
Each becomes at most 256 patches of 16 x 16 pixels. Captions have log-normal lengths around 20 tokens, at most
77, as in captions of the web. The time is processor time of one epoch's plan, which each rank makes alone.
"""

from __future__ import annotations

from dataclasses import asdict
from time import process_time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from stoker.bucketing import pack
from stoker.bucketing.reports import report_rows
from stoker.pipeline.images.planners import patch_grids

from ..measuring import allowed_cores, describe, make_parser, write_json

_BUDGETS = ((1024, 160), (1024, 128), (1024, 100), (4096, 512), (4096, 400), (4096, 340))


def made_lengths(samples: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """(N, 2) int64, patches of each image and tokens of its caption."""
    rng = np.random.default_rng(0)
    side = np.exp(rng.normal(np.log(400), 0.3, samples))
    ratio = np.exp(rng.normal(0.15, 0.35, samples) / 2)
    sizes = np.stack([side / ratio, side * ratio], axis=1).astype(np.int64).clip(16)
    tokens = np.exp(rng.normal(np.log(20), 0.6, samples)).astype(np.int64).clip(3, 77)
    return np.stack([patch_grids(sizes, 256).prod(axis=1), tokens], axis=1)


def measure(lengths: np.ndarray[Any, np.dtype[np.int64]], budgets: tuple[int, int]) -> dict[str, Any]:
    """Results of an epoch of rows of so many patches and tokens."""
    began = process_time()
    plan = pack(lengths, budgets, seed=0)
    seconds = process_time() - began
    return {**asdict(report_rows(plan, pack(lengths, budgets, seed=0, epoch=1))), "cpu_seconds": seconds}


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, "json")
    parser.add_argument("--samples", type=int, default=1_000_000)
    args = parser.parse_args()
    lengths = made_lengths(args.samples)
    plans = [measure(lengths, budgets) for budgets in _BUDGETS]
    table = Table(
        "patches", "tokens", "rows", "over the bound %", "patches filled %", "tokens filled %", "CPU s"
    )
    for (patches, tokens), one in zip(_BUDGETS, plans, strict=True):
        more = 100 * one["rows"] / one["least"] - 100
        filled = (f"{field['filled']:.1f}" for field in one["fields"])
        table.add_row(
            f"{patches:,}",
            f"{tokens:,}",
            f"{one['rows']:,}",
            f"{more:.2f}",
            *filled,
            f"{one['cpu_seconds']:.1f}",
        )
    Console().print(table)
    write_json(args.json, {"machine": describe(allowed_cores()), "plans": plans})


if __name__ == "__main__":
    main()
