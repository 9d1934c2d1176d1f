"""Processes that a launcher gives their ranks: together they receive every sample once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.warm_python import WarmPython

PROGRAM = Path(__file__).parents[1] / "programs" / "epoch_rows.py"
MPIRUN = shutil.which("mpirun", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


def check(found: list[Any], source: str) -> None:
    found.sort(key=lambda process: process["rank"])
    for rank, process in enumerate(found):
        ranks = {"source": source, "rank": rank, "world_size": len(found), "local_world_size": len(found)}
        assert process == {**ranks, "rows": process["rows"]}
        assert len(process["rows"]) == len(found[0]["rows"])
    assert sorted(row for process in found for batch in process["rows"] for row in batch) == list(range(61))


def test_processes_with_the_environment_of_horovodrun_share_the_samples(
    thumbnails: Path, warm_python: WarmPython
) -> None:
    sizes = {"HOROVOD_SIZE": "2", "HOROVOD_LOCAL_SIZE": "2"}
    environments = [{**sizes, "HOROVOD_RANK": rank, "HOROVOD_LOCAL_RANK": rank} for rank in ("0", "1")]
    processes = [warm_python.start(PROGRAM, thumbnails, environment=variables) for variables in environments]
    check([json.loads(process.output()) for process in processes], "Horovod")


@pytest.mark.skipif(MPIRUN is None, reason="mpirun is neither in this environment (openmpi) nor on the path")
def test_processes_under_mpirun_share_the_samples(thumbnails: Path) -> None:
    launcher = [str(MPIRUN), "--allow-run-as-root", "--oversubscribe", "-np", "2"]
    done = subprocess.run(
        [*launcher, sys.executable, PROGRAM, thumbnails],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    check([json.loads(line) for line in done.stdout.splitlines()], "Open MPI")
