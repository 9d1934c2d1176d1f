"""The functions of ``horovod.torch`` that the guide's recipe calls, over gloo.

Ranks come from the environment that horovodrun sets.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.optim import Optimizer

_groups: list[Any] = []


def rank() -> int:
    """The rank of this process."""
    return int(os.environ.get("HOROVOD_RANK", "0"))


def size() -> int:
    """The number of ranks."""
    return int(os.environ.get("HOROVOD_SIZE", "1"))


def init() -> None:
    """Connect the ranks through the file STAND_IN_STORE, without the default group of torch.distributed."""
    if size() > 1:
        store = dist.FileStore(os.environ["STAND_IN_STORE"], size())
        _groups.append(dist.ProcessGroupGloo(store, rank(), size(), timedelta(seconds=300)))


def broadcast_parameters(parameters: dict[str, Tensor], root_rank: int) -> None:
    """Give all ranks the parameters of one rank."""
    for group in _groups:
        for tensor in parameters.values():
            group.broadcast(tensor, root_rank).wait()


def broadcast_optimizer_state(optimizer: Optimizer, root_rank: int) -> None:
    """Give all ranks the state of one rank's optimizer, which has none before its first step."""
    assert not optimizer.state


def DistributedOptimizer(  # noqa: N802 - Horovod's name
    optimizer: Optimizer, named_parameters: Iterable[tuple[str, Tensor]]
) -> Optimizer:
    """The optimizer, which averages gradients over the ranks before each step."""
    parameters = [tensor for _, tensor in named_parameters]

    def average(*_: Any) -> None:
        for group in _groups:
            for tensor in parameters:
                assert tensor.grad is not None
                group.allreduce([tensor.grad]).wait()
                tensor.grad /= size()

    optimizer.register_step_pre_hook(average)
    return optimizer
