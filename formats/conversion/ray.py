"""Shards as tasks of a Ray cluster: many machines convert one source.

A shard of a plan is an independent task that can be repeated anywhere, so nothing here decides
anything: a task whose process or machine dies is run again by Ray, and the bytes are those of a local run.
"""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stoker.errors import EngineError, MissingDependencyError, StokerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .execution import Maker, Tracker
    from .plan import ConversionPlan

__all__ = ["RayRunner"]

_TRIES_AGAIN = 5  # of a shard whose worker or machine dies
_TICK = 0.2  # seconds between two looks at progress, and to an interrupt


@dataclass(frozen=True)
class RayRunner:
    """Makes each shard in a task of its own; see :data:`stoker.formats.conversion.execution.Runner`.

    Attributes:
        num_threads: CPUs of the cluster that is started on this machine where there is none to connect to.
    """

    num_threads: int

    def __call__(self, plan: ConversionPlan, maker: Maker, missing: Sequence[int], tracker: Tracker) -> None:
        """Make these shards.

        Raises:
            MissingDependencyError: Ray is not installed.
            EngineError: Ray gave up on a shard whose workers died again and again.
            StokerError: What a shard raised.
        """
        with _cluster(self.num_threads) as ray:
            # Once for all tasks: Ray keeps it in the shared memory of each machine.
            shared = ray.put((plan, maker))
            task = ray.remote(num_cpus=1, max_retries=_TRIES_AGAIN)(_make)
            running: dict[Any, int] = {}
            try:
                for number in missing:
                    running[task.remote(shared, number)] = number
                while running:
                    done, _ = ray.wait(list(running), num_returns=1, timeout=_TICK)
                    for reference in done:
                        rows = plan.shards[running.pop(reference)].rows
                        _result(ray, reference)
                        tracker.add(len(rows), int(plan.listing.bytes[rows].sum()))
                    tracker.show("converting")
            finally:
                for reference in running:
                    ray.cancel(reference, force=True)


def _make(shared: tuple[ConversionPlan, Maker], number: int) -> StokerError | None:
    """Runs on a worker. Errors of ours travel as values: Ray would wrap them."""
    plan, maker = shared
    try:
        maker.make(plan, number)
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
            hint="see that the cluster has memory and disk; then run the same command again: it resumes",
        ) from lost
    if error is not None:
        raise error


@contextmanager
def _cluster(num_cpus: int) -> Iterator[Any]:
    """Ray, connected as it is already, or to ``RAY_ADDRESS``, or to a cluster that is started here."""
    try:
        import ray
    except ImportError as error:
        raise MissingDependencyError("engine='ray' needs Ray", hint="pip install 'stoker[ray]'") from error
    if ray.is_initialized():
        yield ray
        return
    here: dict[str, Any] = {} if "RAY_ADDRESS" in os.environ else {"num_cpus": num_cpus}
    ray.init(**here, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    try:
        yield ray
    finally:
        ray.shutdown()
