"""Every way in which a loader or its process ends: nothing hangs, and no thread or file stays."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.processes import program
from helpers.warm_python import WarmPython

Run = Callable[[str], subprocess.CompletedProcess[str]]


@pytest.fixture
def start(engine: str, thumbnails: Path, warm_python: WarmPython) -> Run:
    """``start(code)`` runs code that uses loaders in its own process, and waits for its end."""
    return lambda code: warm_python.run(program(engine, thumbnails, code))


@pytest.fixture
def run(start: Run) -> Callable[[str], str]:
    """``run(code)`` returns what the code prints; the process must succeed."""

    def run(code: str) -> str:
        done = start(code)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout

    return run


def test_the_interpreter_ends_while_a_pass_runs(run: Callable[[str], str]) -> None:
    code = "loader = make(prefetch=9); running = iter(loader); next(running); print('end')"
    assert run(code) == "end\n"


def test_sys_exit_in_the_loop_ends_the_process(run: Callable[[str], str]) -> None:
    assert run("for batch in make(): sys.exit(0)") == ""


def test_an_exception_in_the_loop_ends_the_process(start: Run) -> None:
    ended = start("for batch in make(): 1 / 0")
    assert ended.returncode == 1
    assert "ZeroDivisionError" in ended.stderr


ENDS = """
list(make())
gc.collect()
time.sleep(0.1)
before = tasks()
def leave():
    for batch in make():
        break
def drop():
    loader = make()
    running = iter(loader)
    next(running)
def drop_the_loader_first():
    running = iter(make())
    next(running)
    assert sum(len(batch[1]) for batch in running) == 56
def close_twice():
    loader = make()
    next(iter(loader))
    loader.close()
    loader.close()
def never_start():
    make()
def restart():
    loader = make()
    for _ in range(5):
        next(iter(loader))
def fail():
    try:
        for batch in make():
            1 / 0
    except ZeroDivisionError:
        pass
for end in (leave, drop, drop_the_loader_first, close_twice, never_start, restart, fail):
    end()
    gc.collect()
    print(end.__name__, settled(tasks, before) <= before)
"""


def test_dropping_closing_and_leaving_early_leave_no_thread(run: Callable[[str], str]) -> None:
    lines = run(ENDS).splitlines()
    assert len(lines) == 7
    assert all(line.endswith("True") for line in lines), lines


def test_a_forked_child_cannot_use_the_loader_and_ends(run: Callable[[str], str]) -> None:
    code = """
loader = make()
running = iter(loader)
next(running)
child = os.fork()
if not child:
    for attempt in (lambda: next(running), lambda: iter(loader)):
        try:
            attempt()
        except LoaderClosedError as error:
            assert "fork" in str(error)
        else:
            os._exit(3)
    loader.close()
    del running, loader
    gc.collect()
    sys.exit(7)
end = time.monotonic() + 60
while time.monotonic() < end:
    pid, status = os.waitpid(child, os.WNOHANG)
    if pid:
        break
    time.sleep(0.01)
else:
    os.kill(child, signal.SIGKILL)
    sys.exit("the child hangs")
print(os.waitstatus_to_exitcode(status), sum(len(batch[1]) for batch in running))
"""
    assert run(code) == "7 56\n"


def test_epochs_and_loaders_leave_no_threads_and_no_descriptors(run: Callable[[str], str]) -> None:
    code = """
loader = make(prefetch=2, batch_size=16)
def epochs(numbers):
    for epoch in numbers:
        for number, batch in enumerate(loader):
            if epoch % 3 == 0 and number == 1:
                break
    gc.collect()
def descriptors():
    return len(os.listdir("/proc/self/fd"))
epochs(range(1, 6))
before = threading.active_count(), tasks(), descriptors()
epochs(range(6, 21))
for _ in range(20):
    with make() as another:
        next(iter(another))
gc.collect()
settled(tasks, before[1])
after = threading.active_count(), tasks(), descriptors()
print(*(now <= then for now, then in zip(after, before)))
"""
    assert run(code) == "True True True\n"
