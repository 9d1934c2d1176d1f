"""The environment variables of launchers, for tests of ranks."""

from __future__ import annotations

import json
from typing import Any

import pytest

TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
HOROVOD = {"HOROVOD_RANK": "2", "HOROVOD_SIZE": "3", "HOROVOD_LOCAL_RANK": "0", "HOROVOD_LOCAL_SIZE": "1"}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
MPICH = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
SLURM = {
    "SLURM_PROCID": "6",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_LOCALID": "2",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
}
OTHERS = ("GLOBAL_RANK", "TF_CONFIG")


def tf_config(task: str | None, index: Any = 0, **cluster: int) -> dict[str, str]:
    jobs = {job: [f"{job}-{i}:80" for i in range(n)] for job, n in cluster.items()}
    config: dict[str, Any] = {"cluster": jobs}
    if task is not None:
        config["task"] = {"type": task, "index": index}
    return {"TF_CONFIG": json.dumps(config)}


def set_all(monkeypatch: pytest.MonkeyPatch, *launchers: dict[str, str]) -> None:
    for launcher in launchers:
        for name, value in launcher.items():
            monkeypatch.setenv(name, value)
