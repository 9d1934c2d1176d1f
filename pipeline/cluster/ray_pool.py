"""The workers of one loader on a Ray cluster: their machines, requests and answers.

Only :class:`.workers.Workers` calls it. :meth:`RayPool.listed` and :meth:`RayPool.answers` wait for Ray and
change nothing, so that the caller's lock is free meanwhile; it holds the lock for all others.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stoker.errors import ConfigError, StokerError, optional_import
from stoker.log import EventLog

from ..execution.ranks import Process
from ..execution.state import differences
from .batch_maker import BatchMaker, LoaderArguments, LoaderIdentity, WantedBatches
from .ray_workers import RayWorkers

_LOG = EventLog("workers")
_RESTARTS = 3  # of a worker on one machine
PER_WORKER = 3  # requests to one worker: two in its engine, the others on their way
# Seconds for which Ray looks for a cluster that is lost, before it ends the process: 28 hours in place of a
# minute. Ray reads the variable at its import.
_PATIENCE = "RAY_gcs_rpc_server_reconnect_timeout_s", "100000"


def connected(address: str) -> Any:
    """Return Ray, with the connection that it has, or a new one that stays until the process ends."""
    os.environ.setdefault(*_PATIENCE)
    with optional_import("RayWorkers needs Ray", "ray"):
        import ray
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ConfigError(
                f"there is no Ray cluster at address={address!r}: {error}",
                hint="Start one with ray start --head, or name the address of one.",
            ) from error
    return ray


class Answer(NamedTuple):
    """What Ray says of a request."""

    reference: Any  # Ray's reference of the answer
    value: Any = None  # What the worker returned; None if it died
    error: Exception | None = None  # What it raised, or how it died
    died: bool = False  # Whether the worker died
    nbytes: int = 0  # Bytes of the value's arrays


@dataclass(eq=False)
class RayWorker:
    """A process on one machine of the cluster."""

    node: str  # Ray's number of the machine
    name: str  # Its name in messages and statistics
    num_cpus: int  # Threads of its engine
    actor: Any  # Ray's handle of the process
    starting: Any  # Reference of the identity of the loader's copy; None once it was found equal
    restarts: int = 0  # How often the process has died
    # Numbers of the requests that it has, by the references of the answers
    running: dict[Any, int] = field(default_factory=dict)

    @property
    def has_room(self) -> bool:
        return self.starting is None and len(self.running) < PER_WORKER


class RayPool:
    """The workers of one loader."""

    def __init__(
        self, workers: RayWorkers, arguments: LoaderArguments, identity: LoaderIdentity, ranks: Process
    ) -> None:
        self._ray = connected(workers.address)
        self._identity = identity
        self._rank, self._world_size = ranks.rank, ranks.world_size
        self._left = None if workers.num_cpus is None else max(1, workers.num_cpus // ranks.world_size)
        try:
            self._arguments = self._ray.put(arguments)
        except Exception as error:  # whatever the pickling of a user's object raises
            raise ConfigError(
                f"an argument of the loader cannot be sent to workers: {error}",
                hint="Leave out of the transforms what holds open files, locks or devices.",
            ) from error
        self.workers: dict[str, RayWorker] = {}
        self.refused: dict[str, str] = {}
        self.update(self.listed())

    def listed(self) -> Sequence[Mapping[str, Any]]:
        """Return the machines of the cluster, as Ray lists them."""
        nodes: Sequence[Mapping[str, Any]] = self._ray.nodes()
        return nodes

    def update(self, listed: Sequence[Mapping[str, Any]]) -> list[int]:
        """Start workers on new machines and forget lost ones; return the numbers of the lost requests."""
        alive = {machine["NodeID"]: machine for machine in listed if machine["Alive"]}
        lost = [number for node in self.workers.keys() - alive.keys() for number in self.forget(node)]
        for node, machine in alive.items():
            if node not in self.workers and self._name(machine) not in self.refused:
                cpus = self._share(node, int(machine["Resources"].get("CPU", 0)))
                if cpus:
                    self._start(node, self._name(machine), cpus, restarts=0)
        return lost

    def _share(self, node: str, cpus: int) -> int:
        """This rank's number of cores on a machine; ranks share the cores equally."""
        first = int(node[:8], 16) if cpus % self._world_size else 0
        share = sum((first + core) % self._world_size == self._rank for core in range(cpus))
        return share if self._left is None else min(share, self._left)

    def _start(self, node: str, name: str, cpus: int, restarts: int) -> None:
        strategies = self._ray.util.scheduling_strategies
        maker = self._ray.remote(BatchMaker).options(
            num_cpus=cpus,
            max_concurrency=PER_WORKER,
            scheduling_strategy=strategies.NodeAffinitySchedulingStrategy(node, soft=False),
        )
        actor = maker.remote(self._arguments, cpus)
        self.workers[node] = RayWorker(node, name, cpus, actor, actor.start.remote(), restarts)
        if self._left is not None:
            self._left -= cpus

    @staticmethod
    def _name(listed: Mapping[str, Any]) -> str:
        return f"{listed['NodeManagerAddress']} ({listed['NodeID'][:8]})"

    def forget(self, node: str) -> list[int]:
        """End the worker of a machine; return the numbers of the requests that it had."""
        worker = self.workers.pop(node)
        if self._left is not None:
            self._left += worker.num_cpus
        try:
            self._ray.kill(worker.actor)
        except Exception as error:  # the cluster may be gone, and the worker with it
            _LOG.info("kill", f"the worker on {worker.name} could not be ended: {error}")
        return list(worker.running.values())

    def ask(self, worker: RayWorker, number: int, wanted: WantedBatches) -> None:
        worker.running[worker.actor.make.remote(wanted)] = number

    def references(self) -> list[Any]:
        """References of all answers that have not come."""
        workers = self.workers.values()
        starting = [worker.starting for worker in workers if worker.starting is not None]
        return [*starting, *(reference for worker in workers for reference in worker.running)]

    def answers(self, references: Sequence[Any], timeout: float) -> list[Answer]:
        """Wait for the first of some answers, and return all that have come."""
        ray = self._ray
        if not ray.wait(list(references), num_returns=1, timeout=timeout)[0]:
            return []
        done, _ = ray.wait(list(references), num_returns=len(references), timeout=0)
        return [self._answer(reference) for reference in done]

    def _answer(self, reference: Any) -> Answer:
        try:
            value = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as wrapped:
            cause = getattr(wrapped, "cause", None)
            return Answer(reference, error=cause if isinstance(cause, Exception) else wrapped)
        except self._ray.exceptions.RayError as lost:
            return Answer(reference, error=lost, died=True)
        if isinstance(value, StokerError):
            return Answer(reference, error=value)
        return Answer(reference, value, nbytes=getattr(value, "nbytes", 0))

    def worker_of(self, reference: Any) -> RayWorker | None:
        """The worker that gives this answer; None if it has been forgotten."""
        for worker in self.workers.values():
            if worker.starting is reference or reference in worker.running:
                return worker
        return None

    def started(self, worker: RayWorker, answer: Answer) -> None:
        """Use a worker whose copy equals the loader; refuse the machine of any other."""
        if reasons := list(self._reasons(answer)):
            self._refuse(worker, "; ".join(reasons))
            self.forget(worker.node)
        else:
            worker.starting = None

    def _reasons(self, answer: Answer) -> Iterator[str]:
        """Yield why the loader's copy would make other batches than the loader."""
        identity = answer.value
        if not isinstance(identity, LoaderIdentity):
            yield f"it cannot make the loader: {answer.error}"
            return
        if identity.version != self._identity.version:
            yield f"it has Stoker {identity.version}, and this process has {self._identity.version}"
        elif identity.native != self._identity.native:
            yield "it has another C++ module than this process"
        yield from differences("", self._identity.identity, identity.identity)

    def _refuse(self, worker: RayWorker, reason: str) -> None:
        self.refused[worker.name] = reason
        _LOG.warning(f"refused {worker.name}", f"the worker on {worker.name} makes no batches: {reason}")

    def died(self, worker: RayWorker, error: Exception | None) -> list[int]:
        """Restart a worker, unless it has died too often; return the numbers of its requests."""
        lost = self.forget(worker.node)
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [repr(error)]
        reason = " ... ".join(dict.fromkeys((lines[0], lines[-1])))
        if worker.restarts == _RESTARTS:
            self._refuse(worker, f"its worker died {_RESTARTS + 1} times, last of: {reason}")
            return lost
        _LOG.warning(
            f"died {worker.name}", f"the worker on {worker.name} died, its batches are made again: {reason}"
        )
        self._start(worker.node, worker.name, worker.num_cpus, worker.restarts + 1)
        return lost

    def close(self) -> None:
        for node in list(self.workers):
            self.forget(node)
        self._arguments = None
