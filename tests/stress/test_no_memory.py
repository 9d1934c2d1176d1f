"""The C++ module where memory ends: an exception or a status, never the end of the process."""

import os
import subprocess
import sys

# From less memory than an encoder begins with to more than it needs.
PROGRAM = r"""
import mmap, resource
import numpy as np
from stoker import _native

def limit(more):
    taken = int(open("/proc/self/statm").read().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (taken + more, resource.RLIM_INFINITY))

pixels = np.random.default_rng(0).integers(0, 256, (700, 700, 3), np.uint8)
unlimited = resource.RLIM_INFINITY, resource.RLIM_INFINITY
# Libraries allocate data of a thread when it first needs them, and glibc ends the process where it cannot.
_native.transcode_pixels(pixels, "none", 0, 0, "jpeg", 100, "444", 10**6)
try:
    _native.probe(b"\xff\xd8\xff")
except ValueError:
    pass
outcomes = []
for more in range(0, 16 << 20, 1 << 19):
    try:
        limit(more)
        try:
            _native.transcode_pixels(pixels, "none", 0, 0, "jpeg", 100, "444", 10**6)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, unlimited)  # what follows needs memory
        outcomes.append("made")
    except (MemoryError, RuntimeError) as error:
        outcomes.append(str(error))
print(outcomes[0] != "made", outcomes[-1])
"""


def test_an_encoder_that_finds_no_memory_is_an_error() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        # Every large block is the system's own, so that none is there already.
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "made"]
