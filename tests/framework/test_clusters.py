"""The training for clusters: it goes on after a stop, from Slurm's script, and as the worker of Ray Train."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import stoker

CLUSTERS = Path(__file__).parents[2] / "examples" / "clusters"
pytest.importorskip("torch", reason="needs pip install torch")


def load(name: str) -> ModuleType:
    spec = spec_from_file_location(name, CLUSTERS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def shards(tmp_path: Path, make_jpeg: Callable[..., bytes]) -> Path:
    with stoker.Writer(tmp_path / "shards", classes=[*"abcdefghijkl"]) as writer:
        for number in range(48):
            writer.write(make_jpeg(number), label=number % 12, key=f"k{number}")
    return tmp_path / "shards"


def options(shards: Path, checkpoint: Path, *more: object) -> list[str]:
    given = (
        "--data",
        shards,
        "--checkpoint",
        checkpoint,
        "--epochs",
        2,
        "--size",
        16,
        "--save-every",
        100,
        *more,
    )
    return [str(one) for one in given]


def test_a_training_goes_on_after_a_stop(
    shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = load("train")
    parse = train.arguments().parse_args
    whole = train.main(parse(options(shards, tmp_path / "whole.pt")))
    for steps in (2, 2):  # in the middle of the first epoch, and of the second
        train.main(parse(options(shards, tmp_path / "stopped.pt", "--stop-after", steps)))
    monkeypatch.setitem(sys.modules, "train", train)
    worker: Any = load("ray_train")
    worker.loop({"options": options(shards, tmp_path / "stopped.pt", "--stop-after", 1)})
    assert train.main(parse(options(shards, tmp_path / "stopped.pt"))) == whole


def test_the_script_of_slurm_stages_and_trains(shards: Path, tmp_path: Path) -> None:
    stubs = tmp_path / "bin"
    stubs.mkdir()
    srun = 'while [[ $1 == --* ]]; do shift; done\nSLURM_PROCID=0 SLURM_NTASKS=1 SLURM_LOCALID=0 exec "$@"'
    commands = {
        "srun": srun,
        "scontrol": "echo 127.0.0.1",
        "stoker": f'exec {sys.executable} -m stoker "$@"',
        "python": f'echo "$RANK $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR $*" > {tmp_path}/called',
    }
    for name, text in commands.items():
        (stubs / name).write_text(f"#!/bin/bash\n{text}\n")
        (stubs / name).chmod(0o755)
    given = {"SOURCE": str(shards), "LOCAL": str(tmp_path / "local"), "EXAMPLES": str(CLUSTERS), "USER": "me"}
    given |= {"SLURM_NNODES": "1", "SLURM_JOB_NODELIST": "here", "MASTER_PORT": "0"}
    environment = {**os.environ, **given, "PATH": f"{stubs}:{os.environ['PATH']}"}
    more = options(shards, tmp_path / "c.pt")[2:]
    done = subprocess.run(
        ["bash", str(CLUSTERS / "slurm.sbatch"), *more],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *ranks, script = (called := (tmp_path / "called").read_text().split())[:5]
    assert (ranks, Path(script)) == (["0", "1", "0", "127.0.0.1"], CLUSTERS / "train.py")
    train = load("train")
    given_options = train.arguments().parse_args(called[5:])
    assert Path(given_options.data) == tmp_path / "local"
    assert train.main(given_options) > 0
    assert (tmp_path / "c.pt").exists()


def test_the_job_of_kubernetes_runs_commands_that_exist() -> None:
    service, job = yaml.safe_load_all((CLUSTERS / "kubernetes.yaml").read_text())
    spec = job["spec"]["template"]["spec"]
    assert (service["kind"], job["kind"], spec["subdomain"]) == (
        "Service",
        "Job",
        service["metadata"]["name"],
    )
    assert spec["initContainers"][0]["command"][:2] == ["stoker", "stage"]
    (container,) = spec["containers"]
    words = container["args"][0].split()
    script = words.index("examples/clusters/train.py")
    assert (CLUSTERS.parents[1] / words[script]).exists()
    given = load("train").arguments().parse_args(words[script + 1 :])
    assert given.data == spec["initContainers"][0]["command"][3]
    assert {one["name"] for one in container["env"]} == {"WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
