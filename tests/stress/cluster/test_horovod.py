"""The guide's recipe for Horovod: two ranks share the samples, and train to the weights of one rank."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs pip install torch")

FRAMEWORK = Path(__file__).parents[2] / "framework"
PROGRAM = FRAMEWORK / "programs" / "horovod_training.py"


def train(shards: Path, ranks: int, folder: Path) -> list[Any]:
    """Returns the results of the ranks, in their order.

    Horovod 0.28.1, its last release, compiles as C++14, and the headers of PyTorch 2.13 need C++17: its two
    CMakeLists.txt must be changed. If it is not installed, a stand-in provides the functions of the recipe.
    """
    shared = {**os.environ, "STAND_IN_STORE": str(folder / f"store-{ranks}")}
    command = [sys.executable, str(PROGRAM), str(shards), "12"]
    if find_spec("horovod"):
        launcher = [str(Path(sys.executable).with_name("horovodrun")), "--gloo", "-np", str(ranks)]
        done = subprocess.run([*launcher, *command], env=shared, capture_output=True, text=True, check=True)
        lines = [line[line.index("{") :] for line in done.stdout.splitlines() if '{"rank"' in line]
        return sorted((json.loads(line) for line in lines), key=lambda result: result["rank"])
    path = [str(FRAMEWORK / "standins"), *filter(None, [os.environ.get("PYTHONPATH")])]
    shared |= {
        "PYTHONPATH": os.pathsep.join(path),
        "HOROVOD_SIZE": str(ranks),
        "HOROVOD_LOCAL_SIZE": str(ranks),
    }
    names = ("HOROVOD_RANK", "HOROVOD_LOCAL_RANK")
    environments = [shared | dict.fromkeys(names, str(rank)) for rank in range(ranks)]
    processes = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for environment in environments
    ]
    return [json.loads(process.communicate(timeout=300)[0]) for process in processes]


def test_two_ranks_train_to_the_weights_of_one(thumbnails: Path, tmp_path: Path) -> None:
    (alone,), both = train(thumbnails, 1, tmp_path), train(thumbnails, 2, tmp_path)
    assert [(result["rank"], result["source"]) for result in both] == [(0, "Horovod"), (1, "Horovod")]
    for step, row in enumerate(alone["rows"]):
        assert [result["rows"][step] for result in both] == [row[0::2], row[1::2]]
    assert both[0]["weights"] == both[1]["weights"]
    assert both[0]["weights"] == pytest.approx(alone["weights"], abs=1e-6)
