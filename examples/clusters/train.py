"""Training that continues after any stop: with Slurm, Kubernetes, Ray Train, torchrun or one process.

It saves all states every few steps, and on SIGTERM, when its exit status is 143 and clusters start it again.
"""

from __future__ import annotations

import argparse
import signal

import torch
import torch.distributed as dist
from training import Training

signals: list[int] = []


def main(options: argparse.Namespace) -> tuple[float, bool]:
    """Train for the rest of the epochs, or until a stop; returns the last loss, and whether all is done."""
    training = Training(options.data, options.checkpoint, options.size)
    steps, loss = 0, torch.tensor(torch.nan)  # nothing may be left to train
    while training.loader.state_dict()["epoch"] < options.epochs:
        for images, labels in training.loader:
            loss = training.step(images, labels)
            steps += 1
            stop = any_rank_stops(bool(signals) or steps == options.stop_after, training.device)
            if stop or steps % options.save_every == 0:
                training.save()
            if stop:
                return loss.item(), False
    training.save()
    return loss.item(), True


def any_rank_stops(stop: bool, device: torch.device) -> bool:
    """Whether any rank stops. All must stop at the same step: the others would wait for its gradients."""
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
    signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    last_loss, is_done = main(arguments().parse_args())
    print(f"loss {last_loss:.6f}")
    raise SystemExit(0 if is_done else 128 + signal.SIGTERM)
