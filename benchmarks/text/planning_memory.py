"""The memory that a rank takes to plan epochs of ten million texts.

    python -m stoker.benchmarks.text.planning_memory            # about two minutes, and 1 GB

Every rank plans all batches of an epoch, so the figures are those of each rank. A separate process plans
each case as a loader does: the next epoch is planned while the running one still uses its plan.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from time import process_time

import numpy as np

from stoker.benchmarks.arguments import make_parser
from stoker.benchmarks.comparison.usage import peak_rss
from stoker.benchmarks.text.figures import DRAWN
from stoker.bucketing import BatchPlan
from stoker.pipeline.order.epoch_order import FullShuffle
from stoker.pipeline.text.planning.planner import TextPlanner

SAMPLES = 10_000_000
EPOCHS = 3
CASES = {"32 buckets": DRAWN, "packed rows of 2,048": replace(DRAWN, buckets=None, pack=2048, batch_size=8)}


def held() -> float:
    """Return the resident memory of this process in GB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e9


def measure(name: str) -> None:
    """Plan three epochs in this process, and print its memory."""
    start = held()
    drawn = np.random.default_rng(0).lognormal(5, 1, SAMPLES)
    lengths = drawn.astype(np.int64).clip(1, 2048)[:, None]
    del drawn
    planner = TextPlanner(CASES[name], lengths, FullShuffle(SAMPLES), 8)
    running: BatchPlan | None = None
    seconds = []
    for epoch in range(EPOCHS):
        began = process_time()
        following = planner.plan(epoch)  # while the running epoch uses its plan
        seconds.append(process_time() - began)
        running = following
        del following
    assert running is not None, "three epochs were planned"
    most = peak_rss(os.getpid()) / 1e9
    print(f"{name:<22}{start:10.2f}{held():16.2f}{most:10.2f}{min(seconds):12.1f} to {max(seconds):.1f}")


def main() -> None:
    """Print the memory of all cases."""
    parser = make_parser(__doc__)
    parser.add_argument("--case", choices=CASES, help="plan in this process, one case alone")
    case = parser.parse_args().case
    if case:
        measure(case)
        return
    print("10 million log-normal lengths up to 2,048, 8 ranks: GB of the process of a rank, and CPU seconds")
    print(f"{'':<22}{'at start':>10}{'in training':>16}{'peak':>10}{'an epoch':>17}", flush=True)
    for name in CASES:
        subprocess.run(
            [sys.executable, "-m", "stoker.benchmarks.text.planning_memory", "--case", name], check=True
        )


if __name__ == "__main__":
    main()
