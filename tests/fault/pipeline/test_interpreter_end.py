"""The end of the interpreter: worker threads have ended before it."""

from __future__ import annotations

import subprocess
import sys

LIBRARY = """
import atexit, threading, time
from stoker.pipeline.execution.threads import WorkerThread

def end():
    print("the library ends", "before" if thread.is_alive() else "after", "its worker")

atexit.register(end)
stopped = threading.Event()
worker = WorkerThread(stopped.wait, stopped.set, "busy")
worker.start()
(thread,) = [thread for thread in threading.enumerate() if thread.name == "stoker-busy"]
"""


def test_workers_end_before_the_libraries_that_they_use() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LIBRARY], capture_output=True, text=True, timeout=300, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "the library ends after its worker\n"), ended.stderr
