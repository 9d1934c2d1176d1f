"""A stand-in for the part of Ray that workers use, whose machines fail when a test says so.

Its actors run in the thread that waits for them, so a test needs neither processes nor time.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

__all__ = ["Call", "RayStandIn", "assert_same", "hook"]


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
    """A cluster whose machines have these cores.

    Attributes:
        cores: Cores of each machine, by its number in hexadecimal digits.
        before_wait: Called before each wait, to kill actors, lose machines and add others.
        actors: All actors that were made.
        assigned: Cores of the latest actor of each machine.
        is_lost: Whether the whole cluster is gone.
    """

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
