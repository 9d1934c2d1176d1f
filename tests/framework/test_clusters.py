"""The training for clusters: it goes on after a stop, from Slurm's script, in Kubernetes and in Ray Train."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.warm_python import WarmPython

import stoker
from stoker.augment import CenterCrop

CLUSTERS = Path(__file__).parents[2] / "examples" / "clusters"
pytest.importorskip("torch", reason="needs pip install torch")


def write(folder: Path, samples: int, make_jpeg: Callable[..., bytes]) -> Path:
    with stoker.Writer(folder, classes=[*"abcdefghijkl"]) as writer:
        for number in range(samples):
            writer.write(make_jpeg(number), label=number % 12, key=f"k{number}")
    return folder


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """``load("train")``: a module of the folder, which can import the others."""
    monkeypatch.syspath_prepend(CLUSTERS)
    return import_module


@pytest.fixture
def shards(tmp_path: Path, make_jpeg: Callable[..., bytes]) -> Path:
    return write(tmp_path / "shards", 48, make_jpeg)


@pytest.fixture
def many(tmp_path: Path, make_jpeg: Callable[..., bytes]) -> Path:
    """A dataset with samples for five steps."""
    return write(tmp_path / "many", 80, make_jpeg)


def options(shards: Path, checkpoint: Path, *more: object) -> list[str]:
    arguments = ["--epochs", 2, "--size", 16, "--save-every", 100, *more]
    return ["--data", str(shards), "--checkpoint", str(checkpoint), *map(str, arguments)]


def test_a_training_goes_on_after_a_stop(shards: Path, tmp_path: Path, load: Callable[[str], Any]) -> None:
    train = load("train")
    parse = train.arguments().parse_args
    loss = train.main(parse(options(shards, tmp_path / "whole.pt")))
    for steps in (2, 2):  # in the middle of the first epoch, and of the second
        train.main(parse(options(shards, tmp_path / "stopped.pt", "--stop-after", steps)))
    load("ray_train").loop({"options": options(shards, tmp_path / "stopped.pt", "--stop-after", 1)})
    assert train.main(parse(options(shards, tmp_path / "stopped.pt"))) == loss


SRUN_STUB = """
ntasks=$SLURM_NTASKS
while [[ $1 == --* ]]; do [[ $1 == --ntasks=* ]] && ntasks=${1#*=}; shift; done
for ((task = 0; task < ntasks; ++task)); do
  SLURM_PROCID=$task SLURM_LOCALID=$task SLURM_NTASKS=$ntasks "$@"
done
"""
PYTHON_STUB = 'echo "$RANK $WORLD_SIZE ${LOCAL_RANK:-0} $MASTER_ADDR $MASTER_PORT $*" >> '
RECORDING_PROGRAM = """
import os, runpy, signal, sys
import stoker

steps = 0

class RecordingLoader(stoker.ImageLoader):
    def __init__(self, *given, **options):
        super().__init__(*given, **options, columns=("image", "label", "row"))

    def __iter__(self):
        global steps
        for images, labels, rows in super().__iter__():
            steps += 1
            if str(steps) == os.environ["KILLED_AT"]:
                os.kill(os.getpid(), signal.SIGTERM)
            try:
                yield images, labels
            finally:
                with open(os.environ["TRAINED"], "a") as file:
                    print(*rows.tolist(), file=file)

stoker.ImageLoader = RecordingLoader
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def commands(tmp_path: Path) -> Callable[..., list[list[str]]]:
    """``commands(line, **environment)``: the calls of "python" by a line of bash, a list for each process.

    A list has the rank, the number of ranks, the local rank, the address, the port, and the arguments.
    """
    stubs, called = tmp_path / "bin", tmp_path / "called"
    stubs.mkdir()
    programs = {
        "srun": SRUN_STUB,
        "scontrol": "echo 127.0.0.1",
        "stoker": f'exec {sys.executable} -m stoker "$@"',
        "python": f"{PYTHON_STUB}{called}",
    }
    for name, text in programs.items():
        (stubs / name).write_text(f"#!/bin/bash\n{text}\n")
        (stubs / name).chmod(0o755)

    def run(line: list[str], **variables: str) -> list[list[str]]:
        called.unlink(missing_ok=True)
        environment = {**os.environ, **variables, "PATH": f"{stubs}:{os.environ['PATH']}"}
        done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return [process.split() for process in called.read_text().splitlines()]

    return run


def train(python: WarmPython, called: list[str], trained: Path, killed_at: int) -> None:
    """Runs a training process, which appends its rows to a file; with a SIGTERM at the step ``killed_at``."""
    rank, world_size, local_rank, address, port, *arguments = called
    environment = {"RANK": rank, "WORLD_SIZE": world_size, "LOCAL_RANK": local_rank, "MASTER_PORT": port}
    environment |= {"MASTER_ADDR": address, "TRAINED": str(trained), "KILLED_AT": str(killed_at)}
    ended = python.run(RECORDING_PROGRAM, *arguments, environment=environment)
    assert ended.returncode == (143 if killed_at else 0), ended.stderr  # a cluster starts it again


def test_the_script_of_slurm_goes_on_after_preemptions(
    warm_torch: WarmPython, many: Path, tmp_path: Path, commands: Callable[..., list[list[str]]]
) -> None:
    """The script stages the dataset once. Each epoch has every sample once, in spite of two SIGTERMs."""
    variables = {"SOURCE": str(many), "LOCAL": str(tmp_path / "local"), "EXAMPLES": str(CLUSTERS)}
    variables |= {"USER": "me", "SLURM_NNODES": "1", "SLURM_JOB_NODELIST": "here", "SLURM_NTASKS": "1"}
    line = ["bash", str(CLUSTERS / "slurm.sbatch"), *options(many, tmp_path / "c.pt")[2:]]
    for killed_at in (2, 4, 0):  # in the middle of the first epoch, and of the second
        (called,) = commands(line, **variables, MASTER_PORT="0")  # the system chooses one
        assert called[:4] == ["0", "1", "0", "127.0.0.1"]
        assert (Path(called[5]), called[6:8]) == (CLUSTERS / "train.py", ["--data", variables["LOCAL"]])
        train(warm_torch, called, tmp_path / "trained", killed_at)
    loader = stoker.ImageLoader(
        many, batch_size=16, shuffle=True, last_batch="drop", columns=("row",), transforms=[CenterCrop(8)]
    )
    expected = [batch.row.tolist() for _ in range(2) for batch in loader]
    lines = (tmp_path / "trained").read_text().splitlines()
    assert [[int(row) for row in line.split()] for line in lines] == expected
    for epoch in (expected[:5], expected[5:]):
        assert sorted(row for batch in epoch for row in batch) == [*range(80)]


def test_the_job_of_kubernetes_stages_and_trains_a_rank_in_each_pod(
    shards: Path, tmp_path: Path, commands: Callable[..., list[list[str]]], load: Callable[[str], Any]
) -> None:
    service, job = yaml.safe_load_all((CLUSTERS / "kubernetes.yaml").read_text())
    spec = job["spec"]["template"]["spec"]
    assert (service["kind"], job["kind"]) == ("Service", "Job")
    assert spec["subdomain"] == service["metadata"]["name"]
    assert spec["initContainers"][0]["command"][:2] == ["stoker", "stage"]
    (container,) = spec["containers"]
    local = str(tmp_path / "local")
    stage = [sys.executable, "-m", *spec["initContainers"][0]["command"][:2], str(shards), local]
    subprocess.run(stage, check=True)
    assert len(stoker.open(local)) == 48
    values = {variable["name"]: variable["value"] for variable in container["env"]}
    called = [
        commands([*container["command"], *container["args"]], **values, JOB_COMPLETION_INDEX=str(pod))[0]
        for pod in range(job["spec"]["completions"])
    ]
    assert [process[:4] for process in called] == [[str(pod), "2", "0", "train-0.train"] for pod in (0, 1)]
    script, *arguments = called[0][5:]
    assert (CLUSTERS.parents[1] / script) == CLUSTERS / "train.py"
    assert load("train").arguments().parse_args(arguments).data == spec["initContainers"][0]["command"][3]
