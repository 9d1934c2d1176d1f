"""Ranks: the variables of every launcher, frameworks, and their precedence."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.cluster import HOROVOD, MPICH, OPEN_MPI, SLURM, TORCHRUN, set_all
from helpers.warm_python import WarmPython

from stoker import ImageLoader
from stoker.errors import ConfigError
from stoker.pipeline.execution.ranks import Process, check_ranks, find_process
from stoker.pipeline.options import Ranks
from stoker.pipeline.order.orders import FullShuffle

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


@pytest.mark.parametrize("framework", ["torch.distributed", "JAX"])
def test_a_loader_made_before_the_processes_are_connected_is_refused(
    monkeypatch: pytest.MonkeyPatch, load: Callable[..., ImageLoader], framework: str
) -> None:
    early, with_rank = load(), load(rank=0, world_size=1)
    if framework == "JAX":
        monkeypatch.setitem(sys.modules, "jax", jax_distributed(True))
    else:
        monkeypatch.setitem(sys.modules, "torch.distributed", torch_distributed(True))
    now = find_process()
    message = f"rank 0 of 1 (one process), but {framework} now says rank {now.rank} of {now.world_size}"
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


def test_numpy_integers_become_python_integers() -> None:
    ranks = find_process(Ranks(np.int64(1), np.int32(2)))  # type: ignore[arg-type]  # as users compute them
    assert [type(ranks.rank), type(ranks.world_size)] == [int, int]


@pytest.mark.parametrize("launcher", [TORCHRUN, HOROVOD, OPEN_MPI, MPICH, SLURM])
def test_the_local_rank_comes_from_the_launcher_whatever_gives_the_rank(
    monkeypatch: pytest.MonkeyPatch, launcher: dict[str, str]
) -> None:
    set_all(monkeypatch, launcher)
    expected = find_process()
    local = expected.local_rank, expected.local_world_size
    assert find_process(Ranks(0, 2)) == Process(0, 2, *local, "given")
    monkeypatch.setitem(sys.modules, "torch.distributed", torch_distributed(True))
    assert find_process() == Process(9, 10, *local, "torch.distributed")
    monkeypatch.delitem(sys.modules, "torch.distributed")
    monkeypatch.setitem(sys.modules, "jax", jax_distributed(True))
    assert find_process() == Process(2, 3, *local, "JAX")


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


def test_arguments_take_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, TORCHRUN)
    monkeypatch.setitem(sys.modules, "torch.distributed", torch_distributed(True))
    assert find_process(Ranks(1, 2)) == Process(1, 2, 1, 4, "given")


@pytest.mark.parametrize("arguments", [(0, None), (None, 2), (2, 2), (-1, 2), (0, 0)])
def test_rank_and_world_size_must_fit_each_other(arguments: tuple[int | None, int | None]) -> None:
    with pytest.raises(ConfigError, match=r"only one of rank and world_size|0\.\.world_size-1"):
        find_process(Ranks(*arguments))


@pytest.mark.parametrize(
    ("module", "make", "expected"),
    [
        ("torch.distributed", torch_distributed, Process(9, 10, 1, 4, "torch.distributed")),
        ("jax", jax_distributed, Process(2, 3, 1, 4, "JAX")),
    ],
)
def test_an_initialised_framework_takes_precedence_over_the_environment(
    monkeypatch: pytest.MonkeyPatch, module: str, make: Callable[[bool], SimpleNamespace], expected: Process
) -> None:
    set_all(monkeypatch, TORCHRUN)
    monkeypatch.setitem(sys.modules, module, make(True))
    assert find_process() == expected
    monkeypatch.setitem(sys.modules, module, make(False))
    assert find_process().source == "torchrun"


def test_jax_too_old_or_half_imported_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(distributed=SimpleNamespace()))
    assert find_process() == Process()
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace())
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
    assert [(launcher, local) for launcher, local, _, _ in outputs] == [
        ("Slurm", 0),
        ("Slurm", 1),
        ("Slurm", 0),
    ]
    assert all(f"rank {rank} of 3" in loader for rank, (_, _, loader, _) in enumerate(outputs))
    order = FullShuffle(61).positions(0, np.arange(61)).tolist()
    steps = list(zip(*(batches for _, _, _, batches in outputs), strict=True))
    together = [sorted(row for batch in step for row in batch) for step in steps]
    assert together == [sorted(order[first : first + 9]) for first in range(0, 61, 9)]


def test_replicate_gives_successive_processes_the_same_rank() -> None:
    processes = [find_process(Ranks(rank, 6, replicate=3)) for rank in range(6)]
    assert [(process.rank, process.world_size) for process in processes] == [(0, 2)] * 3 + [(1, 2)] * 3


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"rank": 0, "world_size": 6, "replicate": 4}, "replicate=4 does not divide the number"),
        ({"replicate": 0}, "replicate must be at least 1"),
        ({"mesh": "dp"}, "mesh must be a DeviceMesh of PyTorch, found str"),
        ({"mesh": "dp", "replicate": 2}, "Leave out rank, world_size and replicate"),
        ({"mesh": SimpleNamespace(get_coordinate=lambda: None, shape=(2,))}, "is not in the mesh"),
    ],
)
def test_meshes_and_replication_that_do_not_fit_are_refused(arguments: dict[str, object], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        find_process(Ranks(**arguments))  # type: ignore[arg-type]  # as given
