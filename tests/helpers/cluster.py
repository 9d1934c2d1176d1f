"""The environment variables of launchers, for tests of ranks."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
HOROVOD = {"HOROVOD_RANK": "2", "HOROVOD_SIZE": "3", "HOROVOD_LOCAL_RANK": "0", "HOROVOD_LOCAL_SIZE": "1"}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
MPICH = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
SLURM = {
    "SLURM_PROCID": "6",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_LOCALID": "2",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
}
OTHERS = ("GLOBAL_RANK", "TF_CONFIG")


def tf_config(task: str | None, index: Any = 0, **cluster: int) -> dict[str, str]:
    jobs = {job: [f"{job}-{i}:80" for i in range(n)] for job, n in cluster.items()}
    config: dict[str, Any] = {"cluster": jobs}
    if task is not None:
        config["task"] = {"type": task, "index": index}
    return {"TF_CONFIG": json.dumps(config)}


def set_all(monkeypatch: pytest.MonkeyPatch, *launchers: dict[str, str]) -> None:
    for launcher in launchers:
        for name, value in launcher.items():
            monkeypatch.setenv(name, value)


class RayError(Exception):
    """A call or a task that Ray gave up."""


class RayTaskError(RayError):
    """An exception that a call or a task raised."""

    cause: Exception


class RayActorError(RayError):
    """The actor of a call died."""


@dataclass(eq=False)
class Call:
    """A call of an actor, and its answer once it was run."""

    actor: Actor
    method: str
    arguments: bytes
    answer: bytes | RayError | None = None
    stuck: bool = False


@dataclass(eq=False)
class Actor:
    """An object on a machine; dead where the machine or the actor was lost."""

    node: str
    made: Any
    is_dead: bool = False

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)
        return SimpleNamespace(remote=lambda *given: Call(self, method, pickle.dumps(given)))


@dataclass
class RayStandIn:
    """A cluster whose machines have these cores."""

    cores: dict[str, int]
    before_wait: Callable[[RayStandIn], None] = lambda _: None
    actors: list[Actor] = field(default_factory=list)
    assigned: dict[str, int] = field(default_factory=dict)
    is_lost: bool = False

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
    util = SimpleNamespace(
        scheduling_strategies=SimpleNamespace(NodeAffinitySchedulingStrategy=lambda node, soft: node)
    )

    def is_initialized(self) -> bool:
        return True

    def nodes(self) -> list[dict[str, Any]]:
        self._check()
        return [
            {
                "NodeID": node,
                "Alive": True,
                "NodeManagerAddress": "machine",
                "Resources": {"CPU": float(cpus)},
            }
            for node, cpus in self.cores.items()
        ]

    def put(self, value: Any) -> bytes:
        return pickle.dumps(value)

    def remote(self, kind: type[Any]) -> Any:
        return SimpleNamespace(options=lambda **options: SimpleNamespace(remote=self._maker(kind, options)))

    def _maker(self, kind: type[Any], options: dict[str, Any]) -> Callable[..., Actor]:
        def make(arguments: bytes, threads: int) -> Actor:
            assert options["num_cpus"] == threads
            node = options["scheduling_strategy"]
            self.assigned[node] = threads
            self.actors.append(Actor(node, kind(pickle.loads(arguments), threads), node not in self.cores))
            return self.actors[-1]

        return make

    def wait(self, calls: list[Call], *, num_returns: int, timeout: float) -> tuple[list[Call], list[Call]]:
        self._check()
        if timeout:
            self.before_wait(self)
        done = [call for call in calls if call.answer is not None][:num_returns]
        for call in [] if done else calls:
            if not call.stuck:
                self._run(call)
                done = [call]
                break
        return done, [call for call in calls if call not in done]

    def _run(self, call: Call) -> None:
        if call.actor.is_dead or call.actor.node not in self.cores:
            call.answer = RayActorError("the actor died")
            return
        try:
            call.answer = pickle.dumps(getattr(call.actor.made, call.method)(*pickle.loads(call.arguments)))
        except Exception as error:
            call.answer = RayTaskError(str(error))
            call.answer.cause = error

    def get(self, call: Call) -> Any:
        if isinstance(call.answer, RayError):
            raise call.answer
        assert call.answer is not None
        return pickle.loads(call.answer)

    def kill(self, actor: Actor) -> None:
        actor.is_dead = True

    def _check(self) -> None:
        if self.is_lost:
            raise OSError("Broken pipe")


def hook(ray: RayStandIn, before: Callable[[list[Call]], None] = lambda _: None) -> list[Call]:
    """Return a list of the calls that are run; ``before`` each, the function sees those so far."""
    asked: list[Call] = []
    run = ray._run

    def hooked(call: Call) -> None:
        asked.append(call)
        before(asked)
        if not call.stuck:
            run(call)

    ray._run = hooked  # type: ignore[method-assign]  # the test
    return asked


def assert_same(found: list[Any], expected: list[Any]) -> None:
    """Check that batches are equal, and of the same types."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one._fields == other._fields
        for a, b in zip(one, other, strict=True):
            assert type(a) is type(b)
            assert a == b if isinstance(a, list) else np.array_equal(a, b)


class RayTasks:
    """A stand-in for Ray that runs each task at once, on copies of its arguments."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, lost: int = 1000) -> None:
        self.lost = lost  # tasks that end before the worker of the next one dies
        self.ended: dict[object, Any] = {}
        self.shared: dict[object, bytes] = {}

    def is_initialized(self) -> bool:
        return True

    def put(self, value: Any) -> object:
        reference = object()
        self.shared[reference] = pickle.dumps(value)
        return reference

    def remote(self, *, num_cpus: int, max_retries: int) -> Any:
        assert num_cpus == 1
        assert max_retries > 0
        return lambda function: SimpleNamespace(remote=lambda *given: self.run(function, *given))

    def run(self, function: Any, shared: object, number: int) -> object:
        reference = object()
        if len(self.ended) < self.lost:
            self.ended[reference] = pickle.dumps(function(pickle.loads(self.shared[shared]), number))
        return reference

    def wait(self, references: list[object], *, num_returns: int, timeout: float) -> Any:
        return references[:num_returns], references[num_returns:]

    def get(self, reference: object) -> Any:
        if reference not in self.ended:
            raise RayError("the worker died")
        return pickle.loads(self.ended[reference])

    def cancel(self, reference: object, *, force: bool) -> None:
        assert force
