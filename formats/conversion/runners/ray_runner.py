"""Making shards as tasks of a Ray cluster, whose machines convert one source together.

A shard of a plan is an independent task that can be repeated anywhere. When the process or the machine of a
task dies, Ray runs the task again; the bytes are those of a local run.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from stoker.errors import EngineError, StokerError, optional_import

from ..plan import ConversionPlan
from ..run import ProgressCounter, ShardMaker

_RETRIES = 5  # of a shard whose worker or machine dies
_TICK = 0.2  # seconds between two reports of progress; an interrupt waits as long


@dataclass(frozen=True)
class RayRunner:
    """Makes each shard in its own task; see :data:`stoker.formats.conversion.run.Runner`."""

    num_threads: int  # CPUs of the cluster that is started on this machine if there is no other cluster

    def __call__(
        self, plan: ConversionPlan, maker: ShardMaker, missing: Sequence[int], counter: ProgressCounter
    ) -> None:
        """Make the shards of these numbers."""
        with cluster(self.num_threads) as ray:
            # Ray keeps the plan in the shared memory of each machine, once for all tasks.
            shared = ray.put((plan, maker))
            task = ray.remote(num_cpus=1, max_retries=_RETRIES)(_make)
            running: dict[Any, int] = {}
            try:
                for number in missing:
                    running[task.remote(shared, number)] = number
                while running:
                    done, _ = ray.wait(list(running), num_returns=1, timeout=_TICK)
                    for reference in done:
                        rows = plan.shards[running.pop(reference)].rows
                        _result(ray, reference)
                        counter.add(len(rows), int(plan.listing.bytes[rows].sum()))
                    counter.show("converting")
            finally:
                for reference in running:
                    ray.cancel(reference, force=True)


_kept: dict[str, ConversionPlan] = {}
"""The plan of a worker's last shard, by its fingerprint: its encoder keeps images that it read ahead."""


def _make(shared: tuple[ConversionPlan, ShardMaker], number: int) -> StokerError | None:
    """Make a shard on a worker. Stoker's errors are returned, because Ray would wrap raised ones."""
    plan, maker = shared
    if _kept.get(plan.fingerprint) is None:
        _kept.clear()
        _kept[plan.fingerprint] = plan
    try:
        maker(_kept[plan.fingerprint], number, None)
    except StokerError as error:
        return error
    return None


def _result(ray: Any, reference: Any) -> None:
    try:
        error = ray.get(reference)
    except ray.exceptions.RayTaskError as wrapped:
        raise wrapped.cause from wrapped
    except ray.exceptions.RayError as lost:
        raise EngineError(
            f"Ray could not make a shard: {lost}",
            hint="give the cluster more memory or disk, then run the same command again: it resumes",
        ) from lost
    if error is not None:
        raise error


@contextmanager
def cluster(num_cpus: int) -> Iterator[Any]:
    """Ray, with the connection that it has, or one to ``RAY_ADDRESS`` or to a new cluster of this machine."""
    with optional_import("engine='ray' needs Ray", "ray"):
        import ray
    if ray.is_initialized():
        yield ray
        return
    local: dict[str, Any] = {} if "RAY_ADDRESS" in os.environ else {"num_cpus": num_cpus}
    ray.init(**local, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    try:
        yield ray
    finally:
        ray.shutdown()
