"""Who am I: the rank of this process and the number of ranks."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass

from stoker.errors import ConfigError

from .arguments import whole_number

__all__ = ["Ranks", "check_ranks", "find_ranks"]

# (rank, world size, rank on this machine, ranks on this machine), by launcher, in order of precedence.
_ENVIRONMENTS = {
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    "Horovod": ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"),
    "Open MPI": (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    # MPICH, Intel MPI and others; before Slurm, by which their mpiexec starts one helper on each machine.
    "PMI": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    # Of the step, not of the job: a batch script sees SLURM_NTASKS too, and is one process.
    "Slurm": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"),
}

_NUMBER = re.compile(r"[0-9]+")
_PART = re.compile(r"([0-9]+)(?:\(x([0-9]+)\))?")


@dataclass(frozen=True)
class Ranks:
    """This process among those that train together.

    Attributes:
        rank: 0..world_size-1.
        world_size: Number of ranks.
        local_rank: Rank on this machine; the number of its GPU.
        local_world_size: Ranks on this machine, which share its cores.
        source: Who said so.
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    source: str = "one process"


def find_ranks(rank: int | None = None, world_size: int | None = None) -> Ranks:
    """Rank and world size: as given, else torch.distributed, JAX, the launcher's environment, else one.

    A framework is asked only when it is already imported and initialised.

    Raises:
        ConfigError: Only one of the two is given, or they do not fit.
    """
    if (rank is None) != (world_size is None):
        raise ConfigError("rank and world_size go together", hint="Give both, or neither.")
    if rank is not None and world_size is not None:
        rank, world_size = whole_number("rank", rank), whole_number("world_size", world_size)
        if not 0 <= rank < world_size:
            raise ConfigError(f"rank must be in 0..world_size-1, found rank {rank} of {world_size}")
        return Ranks(rank, world_size, *_on_this_machine(), "given")
    return _from_torch() or _from_jax() or _from_environment() or Ranks()


def check_ranks(made: Ranks) -> None:
    """See to it that a process is still the rank that a loader was made for.

    A loader that is made before the processes have found each other, as before Lightning's ``fit`` starts
    them, takes itself for the only one; each would draw all samples.

    Raises:
        ConfigError: By now torch.distributed or JAX says another rank or number of ranks.
    """
    if made.source == "given":
        return
    now = _from_torch() or _from_jax()
    if now and (now.rank, now.world_size) != (made.rank, made.world_size):
        raise ConfigError(
            f"this loader was made as rank {made.rank} of {made.world_size} ({made.source}), "
            f"and {now.source} says rank {now.rank} of {now.world_size}",
            hint="Make it once the processes have found each other (with Lightning in train_dataloader), "
            "or give rank and world_size.",
        )


def _from_torch() -> Ranks | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    rank, world_size = distributed.get_rank(), distributed.get_world_size()
    return Ranks(rank, world_size, *_on_this_machine(), "torch.distributed")


def _from_jax() -> Ranks | None:
    jax = sys.modules.get("jax")
    # process_count() alone would start JAX's backends, which is the user's to do.
    initialized = getattr(getattr(jax, "distributed", None), "is_initialized", None)
    if jax is None or initialized is None or not initialized():
        return None
    return Ranks(jax.process_index(), jax.process_count(), *_on_this_machine(), "JAX")


def _from_environment() -> Ranks | None:
    for source, (rank, size, local_rank, local_size) in _ENVIRONMENTS.items():
        if rank in os.environ and size in os.environ:
            # srun, too, sets what PMI says, and leaves the rest to its own variables.
            says_local = local_rank in os.environ
            local = (_number(local_rank, 0), _number_here(local_size)) if says_local else _on_this_machine()
            found = Ranks(_number(rank, 0), _number(size, 1), *local, source)
            if not found.rank < found.world_size:
                raise ConfigError(
                    f"the environment says rank {found.rank} of {found.world_size}: {rank} and {size}",
                    hint="Unset what another launcher has left there, or give rank and world_size.",
                )
            return found
    if _number("PMIX_RANK", 0):  # no variable of PMIx says of how many
        raise ConfigError(
            f"the environment says rank {_number('PMIX_RANK', 0)} (PMIX_RANK), and not of how many",
            hint="Give rank and world_size, or initialise torch.distributed or JAX before.",
        )
    return None


def _on_this_machine() -> tuple[int, int]:
    """Rank on this machine and ranks on it, which only the launcher knows.

    Without one, as after ``torch.multiprocessing.spawn``, the GPU that the process has chosen, and 1.
    """
    for _, _, local_rank, local_size in _ENVIRONMENTS.values():
        if local_rank in os.environ:
            return _number(local_rank, 0), _number_here(local_size)
    cuda = sys.modules.get("torch.cuda")
    return (int(cuda.current_device()) if cuda is not None and cuda.is_initialized() else 0), 1


def _number(name: str, default: int) -> int:
    text = os.environ.get(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text):
        raise ConfigError(f"environment variable {name} must be a number, found {text!r}")
    return int(text)


def _number_here(name: str) -> int:
    """Of ranks on this machine, 1 where nothing says.

    Slurm writes a number for each machine: "4(x2),3" for four tasks on each of two and three on a third.
    """
    text = os.environ.get(name, "1")
    parts = [_PART.fullmatch(part) for part in text.split(",")]
    counts = [int(part[1]) for part in parts if part for _ in range(int(part[2] or 1))]
    if not (all(parts) and counts and all(counts)):
        raise ConfigError(f"environment variable {name} must be a number, found {text!r}")
    return counts[min(_number("SLURM_NODEID", 0), len(counts) - 1)]
