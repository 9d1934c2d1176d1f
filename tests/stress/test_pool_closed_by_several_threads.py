"""A pool of the native engine that several threads close at the same moment."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import threading
from stoker import _native

for _ in range(200):
    pool = _native.Pool(8)
    start = threading.Barrier(4)
    errors = []

    def close():
        start.wait()
        try:
            pool.close()
        except BaseException as error:
            errors.append(error)

    closing = [threading.Thread(target=close) for _ in range(4)]
    for thread in closing:
        thread.start()
    for thread in closing:
        thread.join()
    assert not errors, errors
"""
HANG = 120  # seconds after which the process has hung, on any machine


def test_several_threads_close_a_pool_at_once() -> None:
    subprocess.run([sys.executable, "-c", CODE], check=True, timeout=HANG)
