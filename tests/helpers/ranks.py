"""Processes that train on global arrays of JAX."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.warm_python import Run, WarmPython

JAX_PROGRAM = Path(__file__).parents[1] / "framework" / "programs" / "jax_ranks.py"
GLOBAL_BATCH = 12


def start(python: WarmPython, shards: Path, devices: int, *launcher: str) -> Run:
    """Starts ``programs/jax_ranks.py`` on the given number of devices."""
    flags = f"--xla_force_host_platform_device_count={devices}"
    variables = {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    return python.start(JAX_PROGRAM, shards, GLOBAL_BATCH, *launcher, environment=variables)


TORCH_PROGRAM = Path(__file__).parents[1] / "framework" / "programs" / "ddp.py"


def train(shards: Path, ranks: int, folder: Path, *checkpoint: str | Path) -> Any:
    """Returns what ``programs/ddp.py`` finds on so many ranks."""
    result = folder / f"{ranks}.json"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    done = subprocess.run(
        [*launcher, TORCH_PROGRAM, shards, str(GLOBAL_BATCH), result, *checkpoint],
        env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(folder)},  # torchrun leaves its folder there
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(result.read_text())


def check(found: Any, alone: Any, ranks: int, begin: int = 0) -> None:
    """Compares a run, from a step on, with that of one rank."""
    assert len(found["losses"]) == 10 - begin  # 61 samples, 5 global batches of 12 an epoch, two epochs
    for step, (of_all, (expected,)) in enumerate(zip(found["steps"], alone["steps"][begin:], strict=True)):
        # Rank r holds every ranks-th sample of the global batch, from the r-th on.
        assert of_all == [expected[rank::ranks] for rank in range(ranks)], step
    # The mean of the ranks' means is summed in another order: rounding of float32, grown over ten steps.
    assert found["losses"] == pytest.approx(alone["losses"][begin:], rel=2e-5)
