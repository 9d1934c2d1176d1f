"""An interpreter may end at any moment: no thread is then inside C++, where the end would be a signal."""

from __future__ import annotations

import subprocess
import sys

import pytest

BUSY = """
import threading
import numpy as np
from stoker.pipeline.threads import Worker, stopping

# NumPy's unique gives the interpreter up inside C++.
values, begun, is_stopped = np.arange(100_000)[::-1].copy(), threading.Event(), threading.Event()
def run():
    begun.set()
    while not is_stopped.is_set():
        np.unique(values)
worker = Worker(run, is_stopped.set, "busy")
worker.start()
{wait}
"""


@pytest.mark.parametrize("wait", ["begun.wait()", ""])
def test_a_thread_at_work_has_ended_before(wait: str) -> None:
    for _ in range(5):
        ended = subprocess.run(
            [sys.executable, "-c", BUSY.format(wait=wait)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (ended.returncode, ended.stderr) == (0, "")
