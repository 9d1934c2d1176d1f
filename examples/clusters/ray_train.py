"""The training of train.py on a Ray cluster, whose Ray Train starts the processes again after a failure."""

from __future__ import annotations

import sys
from typing import Any

import train


def loop(config: dict[str, Any]) -> None:
    """Train in one worker: Ray Train has connected the processes, so the loader finds its rank."""
    train.main(train.arguments().parse_args(config["options"]))


if __name__ == "__main__":
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    TorchTrainer(
        loop,
        train_loop_config={"options": sys.argv[1:]},
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 1}),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=-1)),
    ).fit()
