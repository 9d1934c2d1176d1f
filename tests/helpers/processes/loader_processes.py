"""Python processes that use loaders: their common start, their good end, and their end by a signal."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

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
    options = {"batch_size": 5, "engine": ENGINE, "num_threads": 2, **options}
    return ImageLoader(FOLDER, **{"transforms": [Resize((16, 16))], **options})

def tasks():
    count = 0
    for task in os.listdir("/proc/self/task"):
        try:
            count += not open(f"/proc/self/task/{task}/comm").read().startswith("jemalloc")
        except OSError:
            pass  # the thread has ended
    return count

def settled(count, expected):
    end = time.monotonic() + 60
    while count() > expected and time.monotonic() < end:
        time.sleep(0.01)
    return count()
"""


def program(engine: str, folder: Path, code: str) -> str:
    """Returns the code after the first lines that all these processes run."""
    return f"ENGINE, FOLDER = {engine!r}, {str(folder)!r}\n{PROLOGUE}{code}"


def start(engine: str, folder: Path, code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program(engine, folder, code)],
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


def run_until_signal(engine: str, folder: Path, code: str, number: signal.Signals) -> str:
    """Send a signal to a child once it prints "ready"; it must end by that signal. Return its errors."""
    child = start(engine, folder, code)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(number)
        _, err = child.communicate(timeout=LIMIT)
    finally:
        child.kill()
    assert child.returncode == -number, err
    return err
