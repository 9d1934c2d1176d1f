"""A stand-in for the part of Ray that conversions use."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

from helpers.cluster.ray_stand_in import RayError, RayTaskError


class RayTasks:
    """A stand-in for Ray that runs each task at once, on copies of its arguments.

    Attributes:
        lost: Number of tasks that end before the worker of the next task dies and stays dead.
    """

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, lost: int = 1000) -> None:
        self.lost = lost
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
