"""The end of the interpreter: worker threads have ended before it."""

from __future__ import annotations

import subprocess
import sys

LIBRARY = """
import atexit, threading, time
from stoker.pipeline.execution.threads import Worker

atexit.register(lambda: print("a library goes;", "busy" if thread.is_alive() else "its worker has ended"))
stopped = threading.Event()
worker = Worker(stopped.wait, stopped.set, "busy")
worker.start()
(thread,) = [one for one in threading.enumerate() if one.name == "stoker-busy"]
"""


def test_workers_end_before_the_libraries_that_they_use() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LIBRARY], capture_output=True, text=True, timeout=300, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "a library goes; its worker has ended\n"), ended.stderr
