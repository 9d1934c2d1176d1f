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
from stoker.formats.concurrency.processes import worker_processes


def processes(function: Callable[..., Any], number: int = 1) -> AbstractContextManager[Any]:
    return worker_processes(function, number, work="counts", sent="the number", fewer="workers=1")


def double(number: int) -> tuple[int, int]:
    if not number:
        raise LookupError("nothing")
    return 2 * number, os.getpid()


def test_results_and_errors_come_from_other_processes() -> None:
    with processes(double, 2) as submit:
        found = [submit(number) for number in (3, 4)]
        assert [future.result()[0] for future in found] == [6, 8]
        assert os.getpid() not in [future.result()[1] for future in found]
        with pytest.raises(LookupError, match="nothing"):
            submit(0).result()


def test_a_dead_process_and_what_cannot_be_sent_are_explained() -> None:
    with (
        pytest.raises(EngineError, match=r"(?s)a process that counts has died.*workers=1"),
        processes(os._exit) as submit,
    ):
        submit(3).result()
    with (
        pytest.raises(ConfigError, match="the number cannot be sent to a process"),
        processes(double) as submit,
    ):
        submit(lambda: 0).result()


def test_an_interrupt_ends_processes_that_are_busy() -> None:
    futures = []

    def interrupted() -> None:
        with processes(time.sleep) as submit:
            futures.append(submit(3600))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with pytest.raises((BrokenProcessPool, CancelledError)):
        futures[0].result()
