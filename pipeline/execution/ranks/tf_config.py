"""The variable TF_CONFIG, by which TensorFlow's MultiWorkerMirroredStrategy knows its workers."""

from __future__ import annotations

import json
import os

from stoker.errors import ConfigError

_HINT = "Correct it as TensorFlow's guide to multi-worker training says, or give rank and world_size."


def read_tf_config() -> tuple[int, int] | None:
    """Return rank and number of workers as TF_CONFIG says; None if it names no cluster.

    The chief is rank 0, and the workers follow. An evaluator trains with no other process.
    """
    text = os.environ.get("TF_CONFIG")
    if not text:
        return None
    try:
        config = json.loads(text)
        cluster = {job: len([*addresses]) for job, addresses in config.get("cluster", {}).items()}
        task = config.get("task") or {}
        job, index = task.get("type"), int(task.get("index", 0))
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
        return 0, 1
    if not world_size:
        return None
    if job not in ("chief", "master", "worker"):
        raise ConfigError(
            f"TF_CONFIG names {world_size} workers and no task that trains: {job!r}", hint=_HINT
        )
    rank = index + chiefs * (job == "worker")
    if not 0 <= rank < world_size:
        raise ConfigError(f"TF_CONFIG says rank {rank} of {world_size}", hint=_HINT)
    return rank, world_size
