"""Worker processes that call one function, for work in Python that holds the interpreter's lock."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from typing import Any

from stoker.errors import ConfigError, EngineError

Submit = Callable[..., Future[Any]]

_FUNCTION: list[Callable[..., Any]] = []  # the function that a worker process calls


def can_fork() -> bool:
    """Return whether ``multiprocessing`` forks; forked processes need not import the user's modules again."""
    method = multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
    return method == "fork" and not multiprocessing.current_process().daemon


@contextmanager
def worker_processes(
    function: Callable[..., Any], number: int, *, work: str, sent: str, fewer: str
) -> Generator[Submit]:
    """Start processes, and yield a function that takes the arguments of a call and returns its future."""
    # The processes start before the block, so that a fork copies no lock of a thread that the block starts.
    # They end with the block, or at once after an error in it or the death of the caller. They ignore Ctrl-C.
    watched, end = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context()
    pool = ProcessPoolExecutor(number, context, initializer=_start, initargs=(function, watched))
    try:
        if context.get_start_method() != "fork":
            _try_to_start(context)
        pool.submit(int).result()
        yield lambda *arguments: pool.submit(_call, *arguments)
    except BaseException as error:
        end.send_bytes(b"end")  # nothing reads it: the pipe stays readable, for all processes
        _explain(error, work, sent, fewer)
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        watched.close()
        end.close()


def _try_to_start(context: BaseContext) -> None:
    """Raise BrokenProcessPool if a process cannot start; with a large function, a pool would hang."""
    process = context.Process()  # type: ignore[attr-defined]  # in typeshed only the subclasses have it
    process.start()
    process.join()
    if process.exitcode:
        raise BrokenProcessPool


def _explain(error: BaseException, work: str, sent: str, fewer: str) -> None:
    """Raise Stoker's error for an error of ``multiprocessing``; return for other errors."""
    if isinstance(error, BrokenProcessPool):
        raise EngineError(
            f"a process that {work} has died",
            hint=f"It may have run out of memory: use fewer ({fewer}). If it never started, put the call "
            "below if __name__ == '__main__'.",
        ) from error
    if type(error).__name__ in ("AttributeError", "TypeError", "PicklingError") and "pickle" in str(error):
        raise ConfigError(
            f"{sent} cannot be sent to a process: {error}",
            hint="Define the function at the top level of a module.",
        ) from error


def _start(function: Callable[..., Any], watched: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a fork has the handlers of its parent
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the threads of this package do not survive a fork
    threading.Thread(target=_end_with_parent, args=(watched,), daemon=True).start()
    _FUNCTION[:] = [function]


def _end_with_parent(watched: Connection) -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "this is a worker process"
    parent_id = os.getppid()
    # Other children of the parent, such as forks, may hold copies of the sentinel and keep it open.
    while not wait([watched, parent.sentinel], timeout=1) and os.getppid() == parent_id:
        pass
    os._exit(1)


def _call(*arguments: Any) -> Any:
    return _FUNCTION[0](*arguments)
