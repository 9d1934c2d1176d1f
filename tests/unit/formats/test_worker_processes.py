"""Processes that call a function, their end, and the error when one dies."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from typing import Any

import pytest

from stoker.errors import ConfigError, EngineError
from stoker.formats.worker_processes import worker_processes


def workers(function: Callable[..., Any], number: int = 1) -> AbstractContextManager[Any]:
    return worker_processes(function, number, work="counts", sent="the number", fewer="workers=1")


def double(number: int) -> tuple[int, int]:
    if not number:
        raise LookupError("nothing")
    return 2 * number, os.getpid()


def test_results_and_errors_come_from_other_processes() -> None:
    with workers(double, 2) as submit:
        results = [future.result() for future in [submit(3), submit(4)]]
        assert [number for number, _ in results] == [6, 8]
        assert os.getpid() not in [process for _, process in results]
        with pytest.raises(LookupError, match="nothing"):
            submit(0).result()


def test_the_death_of_a_process_is_an_error_with_a_hint() -> None:
    with (
        pytest.raises(EngineError, match=r"(?s)a process that counts has died.*workers=1"),
        workers(os._exit) as submit,
    ):
        submit(3).result()


def test_an_argument_that_cannot_be_pickled_is_refused() -> None:
    with (
        pytest.raises(ConfigError, match="the number cannot be sent to a process"),
        workers(double) as submit,
    ):
        submit(lambda: 0).result()


def test_an_interrupt_ends_processes_that_are_busy() -> None:
    futures = []

    def interrupted() -> None:
        with workers(time.sleep) as submit:
            futures.append(submit(3600))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with pytest.raises((BrokenProcessPool, CancelledError)):
        futures[0].result()
