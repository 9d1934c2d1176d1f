"""Processes of this machine that call one function, for work in Python that holds the interpreter's lock."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from stoker.errors import ConfigError, EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from concurrent.futures import Future
    from multiprocessing.connection import Connection
    from multiprocessing.context import BaseContext

    Submit = Callable[..., Future[Any]]

__all__ = ["can_fork", "worker_processes"]

_FUNCTION: list[Callable[..., Any]] = []  # of a worker process


def can_fork() -> bool:
    """Whether ``multiprocessing`` starts processes by a fork, which imports no module of the user's again."""
    method = multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
    return method == "fork" and not multiprocessing.current_process().daemon


@contextmanager
def worker_processes(
    function: Callable[..., Any], number: int, *, work: str, sent: str, fewer: str
) -> Generator[Submit]:
    """Start processes, and yield a function that submits arguments of a call to them.

    They start before this returns, so that a fork copies no lock of a thread that starts later. They end with
    the block; after an error in it, and when this process dies, they end at once. Ctrl-C is for this process.

    Args:
        function: The function. Each process gets it once, by fork or pickle, as ``multiprocessing`` is set.
        number: Number of processes.
        work: What the processes do, for errors: "makes samples".
        sent: What is sent to them, for errors: "make, or an input,".
        fewer: The option that starts fewer processes, for errors: "num_threads=1".

    Raises:
        ConfigError: The function, or an argument of a call, cannot be pickled.
        EngineError: A process died.
    """
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
    """Raise BrokenProcessPool if a process cannot start; one with a large function would wait for ever."""
    process = context.Process()  # type: ignore[attr-defined]  # typeshed has it for each kind of context alone
    process.start()
    process.join()
    if process.exitcode:
        raise BrokenProcessPool


def _explain(error: BaseException, work: str, sent: str, fewer: str) -> None:
    """Raise Stoker's error for one of ``multiprocessing``; return for others."""
    if isinstance(error, BrokenProcessPool):
        raise EngineError(
            f"a process that {work} has died",
            hint=f"it may have run out of memory; if it never started, call convert below "
            f"if __name__ == '__main__', or take fewer: {fewer}",
        ) from error
    if type(error).__name__ in ("AttributeError", "TypeError", "PicklingError") and "pickle" in str(error):
        raise ConfigError(
            f"{sent} cannot be sent to a process: {error}",
            hint="define the function at the top level of a module",
        ) from error


def _start(function: Callable[..., Any], watched: Connection) -> None:
    """Prepare a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the threads of this package do not survive a fork
    threading.Thread(target=_end_with_parent, args=(watched,), daemon=True).start()
    _FUNCTION[:] = [function]


def _end_with_parent(watched: Connection) -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "this is a worker process"
    parent_id = os.getppid()
    # The sentinel stays open as long as another child of the parent, such as a fork, has a copy of it.
    while not wait([watched, parent.sentinel], timeout=1) and os.getppid() == parent_id:
        pass
    os._exit(1)


def _call(*arguments: Any) -> Any:
    return _FUNCTION[0](*arguments)
