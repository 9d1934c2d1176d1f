"""The rank of this process and the number of ranks, from the framework or the launcher."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass, replace
from typing import Any

from stoker.errors import ConfigError

from ..options import Ranks

_HINT = "Correct it as TensorFlow's guide to multi-worker training says, or give rank and world_size."
_GIVE = "Give rank and world_size, or initialise torch.distributed or JAX first."
_NUMBER = re.compile(r"[0-9]+")
_PART = re.compile(r"([0-9]+)(?:\(x([0-9]+)\))?")

# Variables by launcher: rank and world size, over all machines and on this one. TF_CONFIG follows Horovod.
_ENVIRONMENTS = {
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    "Horovod": ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"),
    "Open MPI": (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    # MPICH, Intel MPI and others. Before Slurm: their mpiexec uses it to start one helper on each machine.
    "PMI": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    # Variables of the step, not of the job: a batch script also has SLURM_NTASKS, and is one process.
    "Slurm": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"),
}


@dataclass(frozen=True)
class Process:
    """The rank of this process among those that train together."""

    rank: int = 0  # 0..world_size-1
    world_size: int = 1  # Number of ranks
    local_rank: int = 0  # Rank on this machine, and the number of the GPU that it uses
    local_world_size: int = 1  # Number of ranks on this machine, which share its cores
    source: str = "one process"  # Where the numbers come from, for messages
    replicate: int = 1  # Processes in a row that have one rank, and so receive the same batches


def find_process(ranks: Ranks | None = None) -> Process:
    """The given ranks, or those of torch.distributed, JAX or the launcher; else one process alone."""
    # Only a framework that is already imported and initialised counts.
    ranks = ranks or Ranks()
    if ranks.mesh is not None:
        return _of_mesh(ranks.mesh)
    if ranks.rank is not None and ranks.world_size is not None:
        process = _here(ranks.rank, ranks.world_size, "given")
    else:
        process = _from_torch() or _from_jax() or _from_environment() or Process()
    if process.world_size % ranks.replicate:
        raise ConfigError(
            f"replicate={ranks.replicate} does not divide the number of processes, {process.world_size}"
        )
    return _replicated(process, ranks.replicate)


def _of_mesh(mesh: Any) -> Process:
    """The rank of this process in a DeviceMesh, its dimensions in their order."""
    try:
        coordinate, shape = mesh.get_coordinate(), tuple(mesh.shape)
    except AttributeError:
        raise ConfigError(
            f"mesh must be a DeviceMesh of PyTorch, found {type(mesh).__name__}",
            hint='Give its dimensions of data parallelism, such as mesh["dp"]. Other frameworks need rank '
            "and world_size.",
        ) from None
    if coordinate is None:
        raise ConfigError("this process is not in the mesh", hint="Make the loader only in its processes.")
    rank, world_size = 0, 1
    for at, length in zip(coordinate, shape, strict=True):
        rank, world_size = rank * length + at, world_size * length
    return _here(rank, world_size, "given")


def _replicated(process: Process, replicate: int) -> Process:
    rank, world_size = process.rank // replicate, process.world_size // replicate
    return replace(process, rank=rank, world_size=world_size, replicate=replicate)


def check_ranks(ranks: Process) -> None:
    """Check that a process still has the rank that a loader was made for."""
    # A loader can be made before the processes are connected, for example before Lightning's ``fit`` starts
    # them. It then has rank 0 of 1, and every process would draw all samples.
    if ranks.source == "given":
        return
    now = _from_torch() or _from_jax()
    now = now and _replicated(now, ranks.replicate)
    if now and (now.rank, now.world_size) != (ranks.rank, ranks.world_size):
        raise ConfigError(
            f"this loader was made as rank {ranks.rank} of {ranks.world_size} ({ranks.source}), "
            f"but {now.source} now says rank {now.rank} of {now.world_size}",
            hint="Make the loader after the processes are connected (with Lightning in train_dataloader), "
            "or give rank and world_size.",
        )


def _from_torch() -> Process | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return _here(distributed.get_rank(), distributed.get_world_size(), "torch.distributed")


def _from_jax() -> Process | None:
    jax = sys.modules.get("jax")
    # process_count() alone would start JAX's backends, which only the user should do.
    initialized = getattr(getattr(jax, "distributed", None), "is_initialized", None)
    if jax is None or initialized is None or not initialized():
        return None
    return _here(jax.process_index(), jax.process_count(), "JAX")


def _from_environment() -> Process | None:
    process = _from_launcher("torchrun", "Horovod") or _from_tf_config()
    process = process or _from_launcher("Open MPI", "PMI", "Slurm")
    _check_halves(process)
    return process


def _from_tf_config() -> Process | None:
    """The rank that TF_CONFIG says: the chief has rank 0, the workers follow, and an evaluator is alone."""
    text = os.environ.get("TF_CONFIG")
    if not text:
        return None
    try:
        config = json.loads(text)
        cluster = {job: len([*addresses]) for job, addresses in config.get("cluster", {}).items()}
        task = config.get("task") or {}
        job, number = task.get("type"), int(task.get("index", 0))
    except (AttributeError, TypeError, ValueError) as error:
        raise ConfigError(f"environment variable TF_CONFIG cannot be read: {error}", hint=_HINT) from error
    if "ps" in cluster:
        raise ConfigError(
            "TF_CONFIG describes parameter servers, whose coordinator says which worker draws a sample",
            hint="Give rank and world_size.",
        )
    chiefs = cluster.get("chief", 0) + cluster.get("master", 0)
    world_size = chiefs + cluster.get("worker", 0)
    if job == "evaluator" or (job is None and world_size == 1):
        return _here(0, 1, "TF_CONFIG")
    if not world_size:
        return None
    if job not in ("chief", "master", "worker"):
        raise ConfigError(
            f"TF_CONFIG names {world_size} workers and no task that trains: {job!r}", hint=_HINT
        )
    rank = number + chiefs * (job == "worker")
    if not 0 <= rank < world_size:
        raise ConfigError(f"TF_CONFIG says rank {rank} of {world_size}", hint=_HINT)
    return _here(rank, world_size, "TF_CONFIG")


def _from_launcher(*sources: str) -> Process | None:
    """Return the ranks of the first of these launchers that has set both rank and world size."""
    for source in sources:
        rank, size, _, _ = _ENVIRONMENTS[source]
        if rank in os.environ and size in os.environ:
            process = _here(_number(rank, 0), _number(size, 1), source)
            if process.rank >= process.world_size:
                raise ConfigError(
                    f"the environment says rank {process.rank} of {process.world_size}: {rank} and {size}",
                    hint="Unset the variables that another launcher has left, or give rank and world_size.",
                )
            return process
    return None


def _check_halves(ranks: Process | None) -> None:
    """Raise ConfigError if only a rank or a number of ranks is set, unless another launcher says the same."""
    # Otherwise every rank would believe that it is the only one, and draw all samples.
    for source, (rank, size, _, _) in _ENVIRONMENTS.items():
        if ranks and source == ranks.source:
            return
        # A batch script of Slurm has a rank, too, and is one process.
        if source == "Slurm" or (rank in os.environ) == (size in os.environ):
            continue
        if rank in os.environ and not (ranks and ranks.rank == _number(rank, 0)):
            raise _half(rank, size)
        if size in os.environ and (ranks or Process()).world_size != _number(size, 1):
            raise _half(size, rank)
    if ranks:
        return
    if rank_of_pmix := _number("PMIX_RANK", 0):  # PMIx has no variable with the number of ranks
        raise ConfigError(
            f"the environment says rank {rank_of_pmix} (PMIX_RANK), but no number of ranks", hint=_GIVE
        )
    if "GLOBAL_RANK" in os.environ:
        raise _half("GLOBAL_RANK", "RANK and WORLD_SIZE")
    if _number("LOCAL_RANK", 0):
        raise _half("LOCAL_RANK", "RANK and WORLD_SIZE")


def _half(present: str, missing: str) -> ConfigError:
    return ConfigError(
        f"the environment sets {present}, but not {missing}", hint=f"Set {missing}, too. {_GIVE}"
    )


def _here(rank: int, world_size: int, source: str) -> Process:
    """A rank with its local rank and the number of local ranks, which only the launcher knows."""
    # Without a launcher, as after ``torch.multiprocessing.spawn``, they are the number of PyTorch's current
    # GPU, and 1.
    # The source's variables come first. srun sets PMI's rank and size, too, but not PMI's local variables.
    for launcher in sorted(_ENVIRONMENTS, key=lambda launcher: launcher != source):
        _, _, local_rank, local_size = _ENVIRONMENTS[launcher]
        if local_rank in os.environ:
            return Process(rank, world_size, _number(local_rank, 0), _number_here(local_size), source)
    cuda = sys.modules.get("torch.cuda")
    local = int(cuda.current_device()) if cuda is not None and cuda.is_initialized() else 0
    return Process(rank, world_size, local, 1, source)


def _number(name: str, default: int) -> int:
    text = os.environ.get(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text):
        raise ConfigError(f"environment variable {name} must be a number, found {text!r}")
    return int(text)


def _number_here(name: str) -> int:
    """Return the number of ranks on this machine, from a variable; 1 if it is not set."""
    # Slurm lists the machines: "4(x2),3" is four tasks on each of two machines and three on a third one.
    text = os.environ.get(name, "1")
    parts = [_PART.fullmatch(part) for part in text.split(",")]
    counts = [int(part[1]) for part in parts if part for _ in range(int(part[2] or 1))]
    if not (all(parts) and counts and all(counts)):
        raise ConfigError(f"environment variable {name} must be a number, found {text!r}")
    return counts[min(_number("SLURM_NODEID", 0), len(counts) - 1)]
