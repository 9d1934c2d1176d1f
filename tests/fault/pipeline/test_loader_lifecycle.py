"""All ways in which a loader or its process can end: nothing hangs, and nothing is left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stoker import ImageLoader
from stoker.augment import Resize

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 200
"""Seconds after which a child has hung, on any machine; children that only wait sleep longer."""

PROLOGUE = """
import gc, os, signal, sys, threading, time
# Otherwise Arrow starts further threads at moments of its own.
os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
import pyarrow
pyarrow.set_cpu_count(1)
pyarrow.set_io_thread_count(1)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell makes background processes ignore it
from stoker import ImageLoader
from stoker.augment import Resize
from stoker.errors import LoaderClosedError

def make(**options):
    given = {"batch_size": 5, "transforms": [Resize((16, 16))], "engine": ENGINE, "num_threads": 2, **options}
    return ImageLoader(FOLDER, **given)

def tasks():
    return len(os.listdir("/proc/self/task"))

def settled(count, expected):
    end = time.monotonic() + 60
    while count() > expected and time.monotonic() < end:
        time.sleep(0.01)
    return count()
"""


@pytest.fixture(params=["native", "dali"])
def engine(request: pytest.FixtureRequest) -> str:
    if request.param == "dali":
        pytest.importorskip("nvidia.dali")
    return request.param


def start(engine: str, folder: Path, code: str) -> subprocess.Popen[str]:
    prologue = f"ENGINE, FOLDER = {engine!r}, {str(folder)!r}\n{PROLOGUE}"
    return subprocess.Popen(
        [sys.executable, "-c", prologue + code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(engine: str, folder: Path, code: str) -> str:
    """Run a child to its end, which must come and be a success; return what it printed."""
    child = start(engine, folder, code)
    try:
        out, err = child.communicate(timeout=LIMIT)
    finally:
        child.kill()
    assert child.returncode == 0, err
    assert "Traceback" not in err
    return out


def test_the_interpreter_ends_while_a_pass_runs(engine: str, thumbnails: Path) -> None:
    code = "loader = make(prefetch=9); running = iter(loader); next(running); print('end')"
    assert run(engine, thumbnails, code) == "end\n"


def test_an_exit_in_the_loop(engine: str, thumbnails: Path) -> None:
    assert run(engine, thumbnails, "for batch in make(): sys.exit(0)") == ""


def test_an_exception_in_the_loop_ends_the_process(engine: str, thumbnails: Path) -> None:
    child = start(engine, thumbnails, "for batch in make(): 1 / 0")
    _, err = child.communicate(timeout=LIMIT)
    assert child.returncode == 1
    assert "ZeroDivisionError" in err


def test_dropping_closing_and_leaving_early_leave_no_thread(engine: str, thumbnails: Path) -> None:
    code = """
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
    lines = run(engine, thumbnails, code).splitlines()
    assert len(lines) == 7
    assert all(line.endswith("True") for line in lines), lines


def test_a_forked_child_gets_errors_and_ends(engine: str, thumbnails: Path) -> None:
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
    assert run(engine, thumbnails, code) == "7 56\n"


@pytest.mark.parametrize("where", ["waiting", "in the step", "between passes"])
def test_ctrl_c_ends_a_training_loop(engine: str, thumbnails: Path, where: str) -> None:
    code = {
        # A loop that asks for a batch that is not ready.
        "waiting": """
from stoker.pipeline.images.producer import ImageBatchProducer
finish = ImageBatchProducer.finish
def slow(self):
    if slow.calls == 3:
        print("ready", flush=True)
        slow.event.wait(0.7)
    slow.calls += 1
    return finish(self)
slow.calls, slow.event = 0, threading.Event()
ImageBatchProducer.finish = slow
for batch in make(): pass
time.sleep(600)
""",
        "in the step": "for batch in make(): print('ready', flush=True); time.sleep(600)",
        "between passes": """
loader = make()
for epoch in range(10**9):
    for batch in loader: pass
    if epoch == 3: print("ready", flush=True)
""",
    }[where]
    child = start(engine, thumbnails, code)
    try:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=LIMIT)
    finally:
        child.kill()
    assert child.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in err


def test_sigterm_ends_a_training_loop(engine: str, thumbnails: Path) -> None:
    child = start(engine, thumbnails, "for batch in make(): print('ready', flush=True); time.sleep(600)")
    assert child.stdout.readline() == "ready\n"
    child.terminate()
    child.communicate(timeout=LIMIT)
    assert child.returncode == -signal.SIGTERM


def test_nothing_grows_over_200_epochs(engine: str, thumbnails: Path) -> None:
    code = """
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])
def descriptors():
    return len(os.listdir("/proc/self/fd"))
loader = make(prefetch=2, batch_size=16)
figures = []
for epoch in range(1, 201):
    for number, batch in enumerate(loader):
        if epoch % 3 == 0 and number == 1:
            break
    del batch
    if epoch in (50, 200):
        gc.collect()
        if figures:
            settled(tasks, figures[1])
        figures += [threading.active_count(), tasks(), descriptors(), resident()]
print(*figures)
"""
    figures = [int(figure) for figure in run(engine, thumbnails, code).split()]
    (threads, tasks, descriptors, resident), later = figures[:4], figures[4:]
    assert all(now <= before for now, before in zip(later, (threads, tasks, descriptors), strict=False))
    assert later[3] <= 1.05 * resident


def test_many_loaders_in_one_process(
    engine: str, thumbnails: Path, producers_ended: Callable[[], bool]
) -> None:
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    for _ in range(20):
        with ImageLoader(
            thumbnails, batch_size=5, transforms=[Resize((8, 8))], engine=engine, num_threads=1
        ) as loader:
            next(iter(loader))
    assert producers_ended()
    assert len(list(descriptors.iterdir())) <= before + 2, "DALI keeps two"
