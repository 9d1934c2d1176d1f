"""Processes that train on global arrays of JAX."""

from __future__ import annotations

from pathlib import Path

from helpers.processes.warm_python import Run, WarmPython

PROGRAM = Path(__file__).parents[2] / "framework" / "programs" / "jax_ranks.py"
GLOBAL_BATCH = 12


def start(python: WarmPython, shards: Path, devices: int, *launcher: str) -> Run:
    """Starts ``programs/jax_ranks.py`` on the given number of devices."""
    flags = f"--xla_force_host_platform_device_count={devices}"
    variables = {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    return python.start(PROGRAM, shards, GLOBAL_BATCH, *launcher, environment=variables)
