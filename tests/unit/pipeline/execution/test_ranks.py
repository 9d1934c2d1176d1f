"""Ranks of processes, as arguments, frameworks and launchers state them."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.cluster import HOROVOD, MPICH, OPEN_MPI, OTHERS, SLURM, TORCHRUN, set_all, tf_config
from helpers.warm_python import WarmPython

from stoker import ImageLoader
from stoker.errors import ConfigError
from stoker.pipeline.execution.ranks import Process, check_ranks, find_process
from stoker.pipeline.options import Ranks
from stoker.pipeline.order.orders import FullShuffle


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("HOROVOD_", "MPI_", "OMPI_", "PMI", "SLURM_")) or name in {*TORCHRUN, *OTHERS}:
            monkeypatch.delenv(name)
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    monkeypatch.delitem(sys.modules, "torch.cuda", raising=False)
    monkeypatch.delitem(sys.modules, "jax", raising=False)


WORKER = """
import json, sys
import stoker
from stoker.augment import Resize
from stoker.pipeline.execution.ranks import find_process

loader = stoker.ImageLoader(
    sys.argv[1], batch_size=3, transforms=[Resize((8, 8))], columns=("row",), shuffle=True
)
ranks = find_process()
print(json.dumps([ranks.source, ranks.local_rank, repr(loader), [batch.row.tolist() for batch in loader]]))
"""


def torch_distributed(initialized: bool) -> SimpleNamespace:
    """A stand-in for the module torch.distributed."""
    return SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: initialized,
        get_rank=lambda: 9,
        get_world_size=lambda: 10,
    )


def jax_distributed(initialized: bool) -> SimpleNamespace:
    """A stand-in for JAX."""
    return SimpleNamespace(
        distributed=SimpleNamespace(is_initialized=lambda: initialized),
        process_index=lambda: 2,
        process_count=lambda: 3,
    )


# The stand-in for a module, and what it says.
FRAMEWORKS = {
    "torch.distributed": (torch_distributed, 9, 10, "torch.distributed"),
    "jax": (jax_distributed, 2, 3, "JAX"),
}


@pytest.mark.parametrize("module", FRAMEWORKS)
def test_a_loader_made_before_the_processes_are_connected_is_refused(
    monkeypatch: pytest.MonkeyPatch, load: Callable[..., ImageLoader], module: str
) -> None:
    early, with_rank = load(), load(rank=0, world_size=1)
    make, rank, world_size, name = FRAMEWORKS[module]
    monkeypatch.setitem(sys.modules, module, make(True))
    message = f"rank 0 of 1 (one process), but {name} now says rank {rank} of {world_size}"
    with pytest.raises(ConfigError, match=re.escape(message)):
        iter(early)
    assert len(next(iter(with_rank)).row) == 16
    assert len(load()) == len(list(load()))


@pytest.mark.parametrize("ranks", [Process(1, 3), Process(2, 4)])
def test_a_loader_of_another_rank_or_world_size_is_refused(
    monkeypatch: pytest.MonkeyPatch, ranks: Process
) -> None:
    monkeypatch.setitem(sys.modules, "jax", jax_distributed(True))
    check_ranks(Process(2, 3))
    with pytest.raises(ConfigError, match=f"made as rank {ranks.rank} of {ranks.world_size}.* rank 2 of 3"):
        check_ranks(ranks)


@pytest.mark.parametrize("module", FRAMEWORKS)
@pytest.mark.parametrize("launcher", [TORCHRUN, HOROVOD, OPEN_MPI, MPICH, SLURM])
def test_the_local_rank_comes_from_the_launcher_whatever_gives_the_rank(
    monkeypatch: pytest.MonkeyPatch, launcher: dict[str, str], module: str
) -> None:
    set_all(monkeypatch, launcher)
    of_launcher = find_process()
    local = of_launcher.local_rank, of_launcher.local_world_size
    make, rank, world_size, name = FRAMEWORKS[module]
    monkeypatch.setitem(sys.modules, module, make(True))
    assert find_process() == Process(rank, world_size, *local, name)
    assert find_process(Ranks(0, 2)) == Process(0, 2, *local, "given")
    monkeypatch.setitem(sys.modules, module, make(False))
    assert find_process() == of_launcher, "it is not initialised"


def test_without_a_launcher_the_local_rank_is_pytorchs_current_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.distributed", torch_distributed(True))
    cuda = SimpleNamespace(is_initialized=lambda: True, current_device=lambda: 5)
    monkeypatch.setitem(sys.modules, "torch.cuda", cuda)
    assert find_process() == Process(9, 10, 5, 1, "torch.distributed")
    assert find_process(Ranks(0, 2)) == Process(0, 2, 5, 1, "given")
    set_all(monkeypatch, TORCHRUN)
    assert find_process().local_rank == 1
    cuda.is_initialized = lambda: False
    monkeypatch.delenv("LOCAL_RANK")
    assert find_process().local_rank == 0


def test_jax_too_old_or_half_imported_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (SimpleNamespace(distributed=SimpleNamespace()), SimpleNamespace()):
        monkeypatch.setitem(sys.modules, "jax", module)
        assert find_process() == Process()


def test_processes_that_a_launcher_started_share_the_global_batch(
    thumbnails: Path, warm_python: WarmPython
) -> None:
    """Three ranks on two machines: two on the first, one on the second."""
    running = []
    for rank, (machine, local_rank) in enumerate([(0, 0), (0, 1), (1, 0)]):
        values = rank, 3, local_rank, "2,1"
        launcher = dict(zip(SLURM, map(str, values), strict=True)) | {"SLURM_NODEID": str(machine)}
        running.append(warm_python.start(WORKER, thumbnails, environment=launcher))
    outputs = [json.loads(process.output()) for process in running]
    assert [output[:2] for output in outputs] == [["Slurm", 0], ["Slurm", 1], ["Slurm", 0]]
    assert all(f"rank {rank} of 3" in loader for rank, (_, _, loader, _) in enumerate(outputs))
    order = FullShuffle(61).positions(0, np.arange(61)).tolist()
    steps = list(zip(*(batches for _, _, _, batches in outputs), strict=True))
    together = [sorted(row for batch in step for row in batch) for step in steps]
    assert together == [sorted(order[first : first + 9]) for first in range(0, 61, 9)]


def test_replicate_gives_successive_processes_the_same_rank() -> None:
    processes = [find_process(Ranks(rank, 6, replicate=3)) for rank in range(6)]
    assert [(process.rank, process.world_size) for process in processes] == [(0, 2)] * 3 + [(1, 2)] * 3


def on_two_machines(tasks: str, node: str | None) -> list[dict[str, str]]:
    """Variables of Slurm with other tasks of each machine."""
    return [SLURM, {"SLURM_STEP_TASKS_PER_NODE": tasks, **({"SLURM_NODEID": node} if node else {})}]


ACCEPTED: list[tuple[list[dict[str, str]], Process]] = [
    ([], Process(0, 1, 0, 1, "one process")),
    ([TORCHRUN], Process(5, 8, 1, 4, "torchrun")),
    ([HOROVOD], Process(2, 3, 0, 1, "Horovod")),
    ([OPEN_MPI], Process(3, 4, 1, 2, "Open MPI")),
    ([SLURM], Process(6, 8, 2, 4, "Slurm")),
    ([MPICH], Process(3, 4, 1, 2, "PMI")),
    ([{"PMI_RANK": "3", "PMI_SIZE": "4"}], Process(3, 4, 0, 1, "PMI")),
    ([{"PMI_RANK": "6", "PMI_SIZE": "8"}, SLURM], Process(6, 8, 2, 4, "PMI")),
    ([MPICH, SLURM], Process(3, 4, 1, 2, "PMI")),
    ([{"PMIX_RANK": "3"}, OPEN_MPI], Process(3, 4, 1, 2, "Open MPI")),
    ([{"PMIX_RANK": "6"}, SLURM], Process(6, 8, 2, 4, "Slurm")),
    ([{"PMIX_RANK": "0"}], Process()),
    ([SLURM, OPEN_MPI], Process(3, 4, 1, 2, "Open MPI")),
    ([OPEN_MPI, HOROVOD], Process(2, 3, 0, 1, "Horovod")),
    ([HOROVOD, TORCHRUN, SLURM], Process(5, 8, 1, 4, "torchrun")),
    # A batch script of Slurm is one process, and variables of one process need no others.
    ([{"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}], Process()),
    ([{"WORLD_SIZE": "1"}], Process()),
    ([{"WORLD_SIZE": "1", "LOCAL_RANK": "0"}], Process()),
    ([{"LOCAL_RANK": "0"}], Process()),
    # Half of the variables of one launcher, beside another one that says the same.
    ([SLURM, {"WORLD_SIZE": "8", "LOCAL_RANK": "2", "PMI_RANK": "6"}], Process(6, 8, 2, 4, "Slurm")),
    ([TORCHRUN, {"GLOBAL_RANK": "1"}], Process(5, 8, 1, 4, "torchrun")),
    (on_two_machines("4(x2)", "1"), Process(6, 8, 2, 4, "Slurm")),
    (on_two_machines("2(x3),1", "2"), Process(6, 8, 2, 2, "Slurm")),
    (on_two_machines("2(x3),1", "3"), Process(6, 8, 2, 1, "Slurm")),
    (on_two_machines("3,2", "0"), Process(6, 8, 2, 3, "Slurm")),
    (on_two_machines("3,2", "1"), Process(6, 8, 2, 2, "Slurm")),
    (on_two_machines("3,2", "7"), Process(6, 8, 2, 2, "Slurm")),
    (on_two_machines("3,2", None), Process(6, 8, 2, 3, "Slurm")),
    (on_two_machines("5", "7"), Process(6, 8, 2, 5, "Slurm")),
    ([tf_config("worker", 1, worker=3)], Process(1, 3, 0, 1, "TF_CONFIG")),
    ([tf_config("worker", "2", worker=3)], Process(2, 3, 0, 1, "TF_CONFIG")),
    ([tf_config("chief", worker=2, chief=1)], Process(0, 3, 0, 1, "TF_CONFIG")),
    ([tf_config("worker", 1, worker=2, chief=1)], Process(2, 3, 0, 1, "TF_CONFIG")),
    ([tf_config("worker", 0, worker=2, evaluator=1)], Process(0, 2, 0, 1, "TF_CONFIG")),
    ([tf_config("evaluator", worker=2, chief=1)], Process(0, 1, 0, 1, "TF_CONFIG")),
    ([tf_config("worker", worker=1)], Process(0, 1, 0, 1, "TF_CONFIG")),
    ([tf_config(None, worker=1)], Process(0, 1, 0, 1, "TF_CONFIG")),
    ([tf_config("worker", 1, worker=3), SLURM], Process(1, 3, 2, 4, "TF_CONFIG")),
    ([tf_config("worker", 1, worker=3), TORCHRUN], Process(5, 8, 1, 4, "torchrun")),
    *(([{"TF_CONFIG": text}], Process()) for text in ("", "{}", '{"cluster": {}}', '{"environment": "a"}')),
]


@pytest.mark.parametrize(("launchers", "expected"), ACCEPTED)
def test_ranks_come_from_the_variables_of_the_launcher(
    monkeypatch: pytest.MonkeyPatch, launchers: list[dict[str, str]], expected: Process
) -> None:
    set_all(monkeypatch, *launchers)
    assert find_process() == expected


NO_NUMBER = "environment variable RANK must be a number, found "
NO_TASKS = "SLURM_STEP_TASKS_PER_NODE must be a number"
REFUSED: list[tuple[dict[str, str], str]] = [
    # Otherwise every rank would be one process, and draw the same samples.
    ({"RANK": "3"}, r"sets RANK, but not WORLD_SIZE\b"),
    ({"RANK": "0"}, r"sets RANK, but not WORLD_SIZE\b"),
    ({"WORLD_SIZE": "2"}, r"sets WORLD_SIZE, but not RANK\b"),
    ({"WORLD_SIZE": "2", "LOCAL_RANK": "1"}, r"sets WORLD_SIZE, but not RANK\b"),
    ({"GLOBAL_RANK": "1"}, "sets GLOBAL_RANK, but not RANK and WORLD_SIZE"),
    ({"WORLD_SIZE": "2", "GLOBAL_RANK": "1"}, r"sets WORLD_SIZE, but not RANK\b"),
    ({"LOCAL_RANK": "1"}, "sets LOCAL_RANK, but not RANK and WORLD_SIZE"),
    ({"HOROVOD_RANK": "0"}, "sets HOROVOD_RANK, but not HOROVOD_SIZE"),
    ({"OMPI_COMM_WORLD_SIZE": "2"}, "but not OMPI_COMM_WORLD_RANK"),
    ({"PMI_RANK": "1"}, "sets PMI_RANK, but not PMI_SIZE"),
    ({"RANK": "1", **SLURM}, r"sets RANK, but not WORLD_SIZE\b"),
    ({"PMIX_RANK": "3"}, r"rank 3 \(PMIX_RANK\), but no number of ranks"),
    ({**TORCHRUN, "RANK": "5", "WORLD_SIZE": "2"}, r"rank 5 of 2: RANK and WORLD_SIZE\n.*Unset"),
    ({**TORCHRUN, "RANK": "2", "WORLD_SIZE": "2"}, "rank 2 of 2: RANK and WORLD_SIZE"),
    ({**TORCHRUN, "RANK": "0", "WORLD_SIZE": "0"}, "rank 0 of 0: RANK and WORLD_SIZE"),
    ({**MPICH, "PMI_SIZE": "2"}, "rank 3 of 2: PMI_RANK and PMI_SIZE"),
    *(
        ({**TORCHRUN, "RANK": text}, re.escape(f"{NO_NUMBER}{text!r}"))
        for text in ("first", "", "-1", "1.5", "2(x2)", "1,2", " 1", "٣")
    ),
    *(
        ({**SLURM, "SLURM_STEP_TASKS_PER_NODE": text}, NO_TASKS)
        for text in ("many", "", "2(x)", "2,", "2(x0)", "0", "3,0")
    ),
    ({"TF_CONFIG": "{"}, "TF_CONFIG cannot be read"),
    ({"TF_CONFIG": "[1]"}, "TF_CONFIG cannot be read"),
    ({"TF_CONFIG": '{"cluster": {"worker": 2}}'}, "TF_CONFIG cannot be read"),
    (tf_config(None, worker=2), "names 2 workers and no task"),
    (tf_config("worker", "two", worker=2), "TF_CONFIG cannot be read"),
    (tf_config("worker", 2, worker=2), "rank 2 of 2"),
    (tf_config("worker", -1, worker=2), "rank -1 of 2"),
    (tf_config("worker", 0, worker=2, ps=1), "parameter servers"),
    (tf_config("ps", 0, worker=1, ps=1), "parameter servers"),
]


@pytest.mark.parametrize(("variables", "message"), REFUSED)
def test_variables_that_name_no_rank_are_refused(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], message: str
) -> None:
    set_all(monkeypatch, variables)
    with pytest.raises(ConfigError, match=message):
        find_process()
    if message != NO_TASKS:
        assert find_process(Ranks(0, 2)).world_size == 2, "the arguments count"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"rank": 0}, "only one of rank and world_size"),
        ({"world_size": 2}, "only one of rank and world_size"),
        ({"rank": 2, "world_size": 2}, r"0\.\.world_size-1"),
        ({"rank": -1, "world_size": 2}, r"0\.\.world_size-1"),
        ({"rank": 0, "world_size": 0}, r"0\.\.world_size-1"),
        ({"rank": 0, "world_size": 6, "replicate": 4}, "replicate=4 does not divide the number"),
        ({"replicate": 0}, "replicate must be at least 1"),
        ({"mesh": "dp"}, "mesh must be a DeviceMesh of PyTorch, found str"),
        ({"mesh": "dp", "replicate": 2}, "Leave out rank, world_size and replicate"),
        ({"mesh": SimpleNamespace(get_coordinate=lambda: None, shape=(2,))}, "is not in the mesh"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, object], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        find_process(Ranks(**arguments))  # type: ignore[arg-type]  # as given
