"""Forked children, which have the objects of their parent without its threads: they neither hang nor harm it.

Each test forks in a new process, because threads of other libraries make forks hazardous.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.warm_python import WarmPython

import stoker

TESTS = Path(__file__).parents[2]
PROLOGUE = """
import os, signal, sys, threading, time, warnings
from pathlib import Path

warnings.simplefilter("ignore")  # some Pythons warn of forks beside threads, which these tests are about
FOLDER = Path(sys.argv[1])

def fork(work):
    \"\"\"Run the work in a child, which ends with its result as exit code.\"\"\"
    if not (child := os.fork()):
        try:
            os._exit(work())
        finally:
            os._exit(1)
    return child

def status(child):
    \"\"\"Return the exit code of a child; a child that has not ended after a minute hangs.\"\"\"
    end = time.monotonic() + 60
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            sys.exit("the child hangs")
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(ended[1])
"""


Run = Callable[[str, Path], None]


@pytest.fixture
def run(warm_python: WarmPython) -> Run:
    """``run(code, folder)`` runs code in its own process, which must succeed and print nothing."""

    def run(code: str, folder: Path) -> None:
        ended = warm_python.run(PROLOGUE + code, folder, paths=[TESTS])
        assert (ended.returncode, ended.stderr) == (0, "")

    return run


def test_a_child_does_not_wait_for_a_thread_that_fills_the_epoch_cache(tmp_path: Path, run: Run) -> None:
    run(
        """
from stoker.pipeline.order.schedule import EpochCache

cache, begun, allowed = EpochCache(), threading.Event(), threading.Event()

def make(key):
    begun.set()
    allowed.wait()
    return {key}

thread = threading.Thread(target=cache.get, args=(1, make))
thread.start()
begun.wait()
try:
    assert status(fork(lambda: cache.get(7, lambda key: {key}).pop())) == 7
finally:
    allowed.set()
    thread.join()
""",
        tmp_path,
    )


def test_a_child_does_not_wait_for_a_thread_that_submits_to_pillow(squares: Path, run: Run) -> None:
    """The test takes the lock of the engine's executor, which a thread holds for moments only."""
    run(
        """
from stoker import ImageLoader
from stoker.augment import Resize

loader = ImageLoader(FOLDER, batch_size=5, transforms=[Resize((16, 16))], engine="native", num_threads=2)
running = iter(loader)
next(running)
with loader.pipeline.engine._python._shutdown_lock:
    child = fork(lambda: loader.close() or 7)
assert status(child) == 7
loader.close()
""",
        squares,
    )


def test_a_child_cannot_use_the_native_engine_of_its_parent(tmp_path: Path, run: Run) -> None:
    run(
        """
from helpers.payloads import GOOD, Dataset
from stoker.errors import EngineError
from stoker.pipeline.engines.base import Work

dataset = Dataset(FOLDER, GOOD)
engine = dataset.engine()
work = Work(dataset.samples, dataset.params)

def use():
    try:
        engine.submit(work)
        engine.collect()
    except EngineError as error:
        return 7 if "fork" in str(error) else 2

assert status(fork(use)) == 7
engine.submit(work)
assert engine.collect().status.tolist() == [0, 0, 0]
engine.close()
""",
        tmp_path,
    )


def test_a_child_unpins_no_blocks_of_its_parent(tmp_path: Path, run: Run) -> None:
    """Locks on an open file belong to both: without its locks the parent could lose blocks that it reads."""
    run(
        """
from types import SimpleNamespace
import numpy as np
from helpers.loaders import block_files, read_ahead_over
from stoker.pipeline.caching.read_ahead import CachedEpoch

requests = SimpleNamespace(request=lambda blocks: {}, coming_bytes=0)
begun = CachedEpoch([read_ahead_over(block_files(FOLDER), requests)])
begun.start()
begun.wait()
other = block_files(FOLDER)
other.fill(0, 4, lambda file, start, stop: bytes(stop - start))
evict = lambda: other.evict(1 << 30, np.zeros(4, np.int64))
assert not evict()

def close():
    begun.close()
    return 7

def drop():
    globals().pop("begun")
    return 7

for end in (close, drop):
    assert status(fork(end)) == 7
    assert not evict()
begun.close()
assert evict() == 4 * 4096
""",
        tmp_path,
    )


def test_a_child_evicts_nothing_that_its_parent_reads(
    tmp_path: Path, make_jpeg: Callable[..., bytes], run: Run
) -> None:
    """The test opens the block files itself: a public read begins and ends too quickly to evict meanwhile."""
    photos = tmp_path / "photos" / "class"
    photos.mkdir(parents=True)
    for number in range(3):
        (photos / f"{number}.jpg").write_bytes(make_jpeg(seed=number))
    stoker.convert(photos.parent, tmp_path / "there")
    run(
        """
import numpy as np
import stoker
from stoker.formats.dataset.dataset import Dataset

dataset = stoker.open(FOLDER / "there", cache=FOLDER / "cache", cache_size="1GB")
expected = dataset.read(0)  # its files are open when the process forks
begin, go = os.pipe()

def evict():
    os.read(begin, 1)
    dataset._files.get()._evict(1 << 30)
    return 7

child = fork(evict)
with dataset._files.get().present(dataset.ranges(np.array([0]))):
    os.write(go, b".")
    assert status(child) == 7
    assert Dataset._read(dataset, 0, ("offset", "length", "crc"), "payload") == expected
""",
        tmp_path,
    )


def test_a_child_does_not_wait_for_a_thread_that_computes_a_cached_property(tmp_path: Path, run: Run) -> None:
    run(
        """
from stoker.processes import cached_property

class Slow:
    entered, waits = threading.Event(), True

    @cached_property
    def value(self):
        self.entered.set()
        while self.waits:
            time.sleep(0.01)
        return 7

threading.Thread(target=lambda: Slow().value, daemon=True).start()
Slow.entered.wait()

def use():
    Slow.waits = False
    return Slow().value

sys.exit(status(fork(use)) != 7)
""",
        tmp_path,
    )
