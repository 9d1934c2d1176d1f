"""A training on one rank, and its checkpoint: model, optimizer and loader. train.py runs it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop


def connect() -> torch.device:
    """Join the ranks that a launcher has started, and return the device of this rank."""
    has_gpu = torch.cuda.is_available()
    if "RANK" in os.environ and not distributed.is_initialized():
        distributed.init_process_group("nccl" if has_gpu else "gloo")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if has_gpu else torch.device("cpu")


class Training:
    """Trains in bfloat16 with channels_last, from the checkpoint on if there is one."""

    def __init__(self, data: str, checkpoint: str, size: int) -> None:
        self.device = connect()
        torch.manual_seed(0)
        layers = nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 12)
        network = nn.Sequential(*layers).to(self.device, memory_format=torch.channels_last)
        self.model = DistributedDataParallel(network) if distributed.is_initialized() else network
        self.optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
        transforms = [RandomResizedCrop(size), RandomHorizontalFlip(), Normalize()]
        options: Any = {"shuffle": True, "last_batch": "drop", "output": "torch", "layout": "NHWC"}
        self.loader = stoker.ImageLoader(data, batch_size=16, transforms=transforms, **options)
        self.parts: dict[str, Any] = {"model": network, "optimizer": self.optimizer, "loader": self.loader}
        self.checkpoint = Path(checkpoint)
        if self.checkpoint.exists():
            for name, state in torch.load(self.checkpoint, map_location=self.device).items():
                self.parts[name].load_state_dict(state)

    def step(self, images: Tensor, labels: Tensor) -> Tensor:
        """Train on a batch, and return its loss."""
        # The loader's (N, H, W, C) is already channels_last: the permutation copies nothing.
        batch = images.permute(0, 3, 1, 2).to(self.device, non_blocking=True)
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(self.model(batch), labels.to(self.device))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def save(self) -> None:
        """Write the checkpoint on rank 0. The state of the loader is the same on all ranks."""
        if not distributed.is_initialized() or distributed.get_rank() == 0:
            new = self.checkpoint.with_suffix(".new")
            torch.save({name: part.state_dict() for name, part in self.parts.items()}, new)
            new.replace(self.checkpoint)
