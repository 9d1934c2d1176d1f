"""Ranks of TensorFlow and JAX, which connect at ports of this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.processes import free_ports
from helpers.ranks import start
from helpers.warm_python import WarmPython

TENSORFLOW = Path(__file__).parents[1] / "framework" / "programs" / "tensorflow_workers.py"


def test_two_processes_of_jax_form_the_global_batch(thumbnails: Path, warm_python: WarmPython) -> None:
    pytest.importorskip("jax")
    coordinator = f"127.0.0.1:{free_ports(1)[0]}"
    running = [start(warm_python, thumbnails, 1)]
    running += [start(warm_python, thumbnails, 2, coordinator, "2", str(number)) for number in range(2)]
    alone, *ranks = (json.loads(process.output().splitlines()[-1]) for process in running)
    assert [rank["devices"] for rank in ranks] == [4, 4]
    for step, expected in enumerate(alone["rows"]):
        assert [rank["rows"][step] for rank in ranks] == [expected[0::2], expected[1::2]]
    for rank in ranks:
        assert rank["losses"] == pytest.approx(alone["losses"], rel=1e-5)


def test_workers_of_tensorflow_share_the_samples_of_an_epoch(
    thumbnails: Path, warm_python: WarmPython
) -> None:
    pytest.importorskip("tensorflow")
    workers = [f"127.0.0.1:{port}" for port in free_ports(2)]
    running = []
    for index in range(2):
        config = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        variables = {"TF_CONFIG": json.dumps(config), "CUDA_VISIBLE_DEVICES": ""}
        running.append(warm_python.start(TENSORFLOW, thumbnails, environment=variables))
    outputs = [json.loads(process.output().splitlines()[-1]) for process in running]
    assert [f"rank {rank} of 2" in loader for rank, (loader, *_) in enumerate(outputs)] == [True, True]
    for epoch in (1, 2):
        rows = [row for worker in outputs for row in worker[epoch]]
        assert len(rows) == len(set(rows)) == 60, "every sample of the epoch's three steps once"
