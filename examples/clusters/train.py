"""Training that continues after any stop: with Slurm, Kubernetes, Ray Train, torchrun or one process.

It trains in bfloat16 with channels_last. It saves model and loader every few steps, and on SIGTERM, which
clusters send before they take a machine away. The next start continues with exactly the next batch.
"""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop

stopped: list[int] = []


def main(given: argparse.Namespace) -> float:
    """Train for the rest of the epochs, or until a stop; returns the last loss."""
    if "RANK" in os.environ and not dist.is_initialized():
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank = dist.get_rank() if dist.is_initialized() else 0
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 12)
    )
    network = network.to(device, memory_format=torch.channels_last)
    model = DistributedDataParallel(network) if dist.is_initialized() else network
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    transforms = [RandomResizedCrop(given.size), RandomHorizontalFlip(), Normalize()]
    loader = stoker.ImageLoader(
        given.data,
        batch_size=16,
        transforms=transforms,
        shuffle=True,
        last_batch="drop",
        output="torch",
        layout="NHWC",
    )
    path, steps, loss = Path(given.checkpoint), 0, torch.zeros(())
    if path.exists():
        saved = torch.load(path, map_location=device)
        network.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])

    def save() -> None:
        if rank == 0:  # the state of the loader is the same on all ranks
            state = {
                "model": network.state_dict(),
                "optimizer": optimizer.state_dict(),
                "loader": loader.state_dict(),
            }
            torch.save(state, path.with_suffix(".new"))
            path.with_suffix(".new").replace(path)

    while loader.state_dict()["epoch"] < given.epochs:
        for images, labels in loader:
            # The loader's (N, H, W, C) is already channels_last: the permutation copies nothing.
            batch = images.permute(0, 3, 1, 2).to(device, non_blocking=True)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(batch), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
            stop = agreed(bool(stopped) or steps == given.stop_after, device)
            if stop or steps % given.save_every == 0:
                save()
            if stop:
                return loss.item()
    save()
    return loss.item()


def agreed(stop: bool, device: torch.device) -> bool:
    """Whether any rank stops. All ranks must stop at the same step, or the others would wait for ever."""
    if not dist.is_initialized():
        return stop
    flag = torch.tensor(float(stop), device=device)
    dist.all_reduce(flag, dist.ReduceOp.MAX)
    return bool(flag)


def arguments() -> argparse.ArgumentParser:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="shards/train")
    parser.add_argument("--checkpoint", default="checkpoint.pt")
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--save-every", type=int, default=500)
    parser.add_argument("--stop-after", type=int, help="stop after as many steps, as a preemption would")
    return parser


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    print(f"loss {main(arguments().parse_args()):.6f}")
