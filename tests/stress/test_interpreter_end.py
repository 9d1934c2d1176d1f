"""Interpreters that end while worker threads run C++, where an ended thread would kill the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BUSY = """
import threading, time
import numpy as np
from stoker.pipeline.execution.threads import WorkerThread

# NumPy's unique releases the interpreter's lock inside C++.
values = np.random.default_rng(0).integers(0, 1 << 40, 200_000)
stopped = threading.Event()
def run():
    while not stopped.is_set():
        np.unique(values)
WorkerThread(run, stopped.set, "busy").start()
time.sleep({seconds})
"""


@pytest.mark.parametrize("seconds", [0, 0.2])
def test_a_busy_worker_ends_before_the_interpreter(seconds: float) -> None:
    for _ in range(5):
        ended = subprocess.run(
            [sys.executable, "-c", BUSY.format(seconds=seconds)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert (ended.returncode, ended.stderr) == (0, "")


FETCHING = """
import os, sys, threading, time
from pathlib import Path
import numpy as np
from stoker.formats.remote.block_files import BlockFiles
from stoker.pipeline.caching import read_ahead
from stoker.pipeline.caching.read_ahead import BlockRequests

read_ahead._PATIENCE = 60  # for a busy machine
values = np.random.default_rng(0).integers(0, 1 << 40, 50_000)
def read(file, start, stop):
    np.unique(values)  # as a storage's package in C++ or Rust does
    return bytes(stop - start)

ended = set()
for number in range(20):
    if not (child := os.fork()):
        files = BlockFiles(Path(sys.argv[1], str(number)), ["shard"], [1 << 22], 4096)
        BlockRequests(files, read, 4, threading.Event()).request(np.arange(0, 1 << 10, 2))
        time.sleep(0.01 * (number % 4))
        break
    ended.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
else:
    print(ended)
"""


def test_threads_that_fetch_end_before_the_interpreter(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FETCHING, tmp_path],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "{0}\n", "")
