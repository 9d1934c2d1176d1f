"""JAX: global arrays over four devices of one process, and of two processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.processes.ports import free_ports

pytest.importorskip("jax")

PROGRAM = Path(__file__).parents[1] / "programs" / "jax_ranks.py"
GLOBAL_BATCH = 12


def start(shards: Path, devices: int, *launcher: str) -> subprocess.Popen[str]:
    flags = f"--xla_force_host_platform_device_count={devices}"
    return subprocess.Popen(
        [sys.executable, PROGRAM, shards, str(GLOBAL_BATCH), *launcher],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(*processes: subprocess.Popen[str]) -> list[Any]:
    try:
        outputs = [process.communicate(timeout=600) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, errors
    return [json.loads(output.splitlines()[-1]) for output, _ in outputs]


@pytest.fixture(scope="module")
def alone(thumbnails: Path) -> Any:
    return finish(start(thumbnails, 1))[0]


def test_a_batch_is_spread_over_four_devices(thumbnails: Path, alone: Any) -> None:
    (found,) = finish(start(thumbnails, 4))
    assert (alone["devices"], found["devices"]) == (1, 4)
    assert found["rows"] == alone["rows"]
    # Devices sum their parts first: rounding of float32.
    assert found["losses"] == pytest.approx(alone["losses"], rel=1e-5)
    assert len(found["losses"]) == 5


def test_two_processes_form_the_global_batch(thumbnails: Path, alone: Any) -> None:
    coordinator = f"127.0.0.1:{free_ports(1)[0]}"
    found = finish(*(start(thumbnails, 2, coordinator, "2", str(number)) for number in range(2)))
    assert [one["devices"] for one in found] == [4, 4]
    for step, expected in enumerate(alone["rows"]):
        assert [one["rows"][step] for one in found] == [expected[0::2], expected[1::2]]
    for one in found:
        assert one["losses"] == pytest.approx(alone["losses"], rel=1e-5)
