"""TensorFlow: two workers of MultiWorkerMirroredStrategy share the samples of an epoch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.processes.ports import free_ports

pytest.importorskip("tensorflow")

PROGRAM = Path(__file__).parents[1] / "programs" / "tensorflow_workers.py"


def test_workers_share_the_samples_of_an_epoch(thumbnails: Path) -> None:
    workers = [f"127.0.0.1:{port}" for port in free_ports(2)]
    running = []
    for index in range(2):
        config = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        environment = {**os.environ, "TF_CONFIG": json.dumps(config), "CUDA_VISIBLE_DEVICES": ""}
        command = [sys.executable, PROGRAM, thumbnails]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        running.append(subprocess.Popen(command, env=environment, text=True, **pipes))
    try:
        outputs = [process.communicate(timeout=300) for process in running]
    finally:
        for process in running:
            process.kill()
    for process, (_, errors) in zip(running, outputs, strict=True):
        assert process.returncode == 0, errors
    found = [json.loads(output.splitlines()[-1]) for output, _ in outputs]
    assert [f"rank {rank} of 2" in loader for rank, (loader, *_) in enumerate(found)] == [True, True]
    for epoch in (1, 2):
        rows = [row for worker in found for row in worker[epoch]]
        assert len(rows) == len(set(rows)) == 60, "every sample of the epoch's three steps once"
