"""JAX: global arrays over four devices of one process. Those of two processes are tested in tests/stress."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.ranks import start
from helpers.warm_python import WarmPython

pytest.importorskip("jax")


def test_a_batch_is_spread_over_four_devices(thumbnails: Path, warm_python: WarmPython) -> None:
    running = [start(warm_python, thumbnails, devices) for devices in (1, 4)]
    alone, found = (json.loads(process.output().splitlines()[-1]) for process in running)
    assert (alone["devices"], found["devices"]) == (1, 4)
    assert found["rows"] == alone["rows"]
    # Devices sum their parts first: rounding of float32.
    assert found["losses"] == pytest.approx(alone["losses"], rel=1e-5)
    assert len(found["losses"]) == 5
